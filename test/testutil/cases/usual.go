//go:build !race

/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cases

import "time"

// usual is the time for the cases of a test.
const usual = 3 * time.Second
