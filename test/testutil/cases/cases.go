/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package cases says how many random cases a test tries.
package cases

import "testing"

// shortened is the part of the cases that a short run tries.
const shortened = 10

// Number returns all, or a tenth of it if the tests run with -short. `make test` runs all tests with the race detector and -short, because the
// detector makes each case many times slower and finds nothing in cases that run one after the other. It then runs the packages that
// use this function again, without the detector and with all cases.
func Number(all int) int {
	if testing.Short() {
		return max(all/shortened, 1)
	}
	return all
}
