/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package freshness_test

import (
	"testing"
	"time"

	"github.com/proviso-authz/proviso/pkg/freshness"
)

// TestTracker: the last call decides. A check an hour ago stands for a process that was stopped for an hour.
func TestTracker(t *testing.T) {
	t.Parallel()
	const lapsed = "the store has not been checked"
	for _, tc := range []struct {
		name string
		say  func(*freshness.Tracker)
		want string
	}{
		{name: "nothing was said", say: func(*freshness.Tracker) {}},
		{name: "stale", say: func(f *freshness.Tracker) { f.SetStale("no news") }, want: "no news"},
		{name: "no longer stale", say: func(f *freshness.Tracker) { f.SetStale("no news"); f.SetStale("") }},
		{name: "checked", say: func(f *freshness.Tracker) { f.SetStale("no news"); f.SetFresh(time.Now(), time.Hour, lapsed) }},
		{name: "checked too long ago", say: func(f *freshness.Tracker) { f.SetFresh(time.Now().Add(-time.Hour), time.Minute, lapsed) }, want: lapsed},
		{name: "checked again", say: func(f *freshness.Tracker) {
			f.SetFresh(time.Now().Add(-time.Hour), time.Minute, lapsed)
			f.SetFresh(time.Now(), time.Hour, lapsed)
		}},
		{name: "stale after a check", say: func(f *freshness.Tracker) { f.SetFresh(time.Now(), time.Hour, lapsed); f.SetStale("no news") }, want: "no news"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := &freshness.Tracker{}
			tc.say(f)
			if got := f.Stale(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestTrackerAllocatesNothing: every decision asks.
//
//nolint:paralleltest // it counts allocations
func TestTrackerAllocatesNothing(t *testing.T) {
	f := &freshness.Tracker{}
	f.SetFresh(time.Now(), time.Hour, "lapsed")
	if got := testing.AllocsPerRun(100, func() { f.Stale() }); got != 0 {
		t.Errorf("got %v allocations, want none", got)
	}
}
