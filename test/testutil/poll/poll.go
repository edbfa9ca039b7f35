/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package poll has tests wait for what follows from a change some moments later. Pauses grow, so that tests that wait leave the processor to others.
package poll

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// patience is how long a change may take until its effect is seen.
const patience = 2 * time.Minute

// shortest and longest are the pauses between two tries.
const (
	shortest = 20 * time.Millisecond
	longest  = 500 * time.Millisecond
)

// Until calls a condition until it holds, and reports whether it did before the time had passed or the context had ended. Pauses grow
// by a quarter, from 20 to 500 milliseconds.
func Until(ctx context.Context, within time.Duration, condition func() bool) bool {
	return until(ctx, within, wait.Backoff{Duration: shortest, Factor: 1.25, Steps: 1000, Cap: longest}, condition)
}

func until(ctx context.Context, within time.Duration, pauses wait.Backoff, condition func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return pauses.DelayFunc().Until(ctx, true, true, func(context.Context) (bool, error) { return condition(), nil }) == nil
}

// Probe is Holds with pauses of 20 milliseconds, for a condition that also looks for what must not be so for a moment.
func Probe(t *testing.T, what string, condition func() bool) {
	t.Helper()
	if !until(t.Context(), patience, wait.Backoff{Duration: shortest}, condition) {
		t.Fatalf("not in time: %s", what)
	}
}

// Holds waits until a condition holds, and ends the test if that takes longer than two minutes.
func Holds(t *testing.T, what string, condition func() bool) {
	t.Helper()
	Eventually(t, what, func() string {
		if condition() {
			return ""
		}
		return "it is not so"
	})
}

// Eventually waits until there is no problem, and ends the test with the last problem if that takes longer than two minutes. It returns how long it took.
func Eventually(t *testing.T, what string, problem func() string) time.Duration {
	t.Helper()
	last, began := "", time.Now()
	if !Until(t.Context(), patience, func() bool { last = problem(); return last == "" }) {
		t.Fatalf("not in time: %s: %.900s", what, last)
	}
	return time.Since(began)
}
