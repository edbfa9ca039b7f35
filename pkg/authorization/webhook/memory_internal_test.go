/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// TestClockJumps reuses an Allow only while it is known to be young.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name string
		now  time.Duration
		want bool
	}{
		{"at once", 0, true},
		{"within its time", 9 * time.Second, true},
		{"past its time", 11 * time.Second, false},
		{"the clock is set forward", 24 * time.Hour, false},
		{"the clock is set back", -time.Hour, false},
		{"the clock is set back a little", -time.Nanosecond, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			clock := testingclock.NewFakeClock(start)
			a := &answers{decisions: newMemory(clock), authorized: 10 * time.Second, unauthorized: 10 * time.Second}
			a.remember("key", authorization.Allow("", nil), 1)
			clock.SetTime(start.Add(tc.now))
			if _, got := a.get("key"); got != tc.want {
				t.Errorf("reused: %v, want %v", got, tc.want)
			}
			clock.SetTime(start)
			if _, got := a.get("key"); got != tc.want {
				t.Errorf("reused after the clock was right again: %v, want %v", got, tc.want)
			}
		})
	}
}
