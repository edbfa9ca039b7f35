/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package bench measures what users of the server see, beside what they would use
// instead, in one run.
package bench
