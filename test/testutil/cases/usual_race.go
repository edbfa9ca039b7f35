//go:build race

/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cases

import "time"

// usual is the time for the cases of a test. The race detector makes a case many times as slow, and finds nothing more in the next case of the same
// kind.
const usual = time.Second
