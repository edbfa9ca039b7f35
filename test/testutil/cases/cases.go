/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package cases says how many cases a test tries: as many random ones as fit into some seconds, and a sample of a table that another test tries as a
// whole. With PROVISO_CASES=all in the environment tests try all of them.
package cases

import (
	"os"
	"time"
)

// usual is the time for the cases of a test.
const usual = 3 * time.Second

// isAll reports whether tests try all cases.
func isAll() bool { return os.Getenv("PROVISO_CASES") == "all" }

// Sample returns every nth of some cases, from the first one on.
func Sample[T any](cases []T, nth int) []T {
	if isAll() {
		return cases
	}
	var sample []T
	for i := 0; i < len(cases); i += nth {
		sample = append(sample, cases[i])
	}
	return sample
}

// Number returns how many of all cases a test tries if it tries one of n.
func Number(all, n int) int {
	if isAll() {
		return all
	}
	return all / n
}

// IsSampled reports whether a test tries a case on one of several ways: each case is tried on one of them, in turns.
func IsSampled(number, way, ways int) bool { return isAll() || number%ways == way }

// Cases counts the cases of a test. It must not be used by several goroutines.
type Cases struct {
	all, tried int
	end        time.Time
}

// Of returns the cases of a test that tries at most all of them.
func Of(all int) *Cases { return For(usual, all) }

// For is like Of, for a test that needs another time.
func For(limit time.Duration, all int) *Cases {
	c := &Cases{all: all}
	if !isAll() {
		c.end = time.Now().Add(limit)
	}
	return c
}

// Next reports whether the test tries another case, and counts it.
func (c *Cases) Next() bool {
	if c.tried == c.all || c.tried > 0 && c.IsOver() {
		return false
	}
	c.tried++
	return true
}

// IsOver reports whether the time is used up.
func (c *Cases) IsOver() bool { return !c.end.IsZero() && time.Now().After(c.end) }

// Number returns the number of the case that Next has counted last, from 0 on.
func (c *Cases) Number() int { return c.tried - 1 }

// Tried returns how many cases were tried.
func (c *Cases) Tried() int { return c.tried }

// Share returns how many outcomes of a kind a test must have seen in the cases that it has tried, if it sees at least ofAll in all cases. It
// is a quarter of what is to be expected, since the first cases may have fewer, and nothing if few cases were tried.
func (c *Cases) Share(ofAll int) int {
	switch {
	case c.tried == c.all:
		return ofAll
	case c.tried < c.all/10:
		return 0
	}
	return ofAll * c.tried / c.all / 4
}
