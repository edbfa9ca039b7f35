/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package freshness

import (
	"testing"
	"time"
)

// TestLeasesEnd has clocks that do not agree.
func TestLeasesEnd(t *testing.T) {
	t.Parallel()
	const bound = time.Minute
	for _, tc := range []struct {
		name            string
		monotonic, wall time.Duration // that have passed
		want            bool
	}{
		{name: "at once"},
		{name: "within the bound", monotonic: bound, wall: bound},
		{name: "after the bound", monotonic: bound + 1, wall: bound + 1, want: true},
		{name: "the machine was suspended", monotonic: time.Second, wall: time.Hour, want: true},
		{name: "the wall clock was set forward", monotonic: time.Second, wall: 24 * time.Hour, want: true},
		{name: "the wall clock was set back a little", monotonic: bound / 2, wall: bound / 3},
		{name: "the wall clock was set back, after the bound", monotonic: bound + 1, wall: time.Second, want: true},
		{name: "the wall clock was set back to before the check", monotonic: time.Second, wall: -time.Second, want: true},
		{name: "the wall clock was set back while the machine was suspended", monotonic: time.Second, wall: -time.Hour, want: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			start := instantOf(time.Now())
			now := instant{monotonic: start.monotonic + tc.monotonic, wall: start.wall + int64(tc.wall)}
			if got := start.isOver(bound, now); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
