/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package controller_test

import (
	"testing"
	"time"

	"github.com/proviso-authz/proviso/pkg/controller"
)

// TestPace writes the statuses of objects as fast as it may, for an hour.
func TestPace(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name         string
		burst        int
		wantAtOnce   int
		wantInAnHour int
	}{
		{name: "no burst", wantAtOnce: 1, wantInAnHour: 120},
		{name: "three at once", burst: 3, wantAtOnce: 3, wantInAnHour: 122},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
			begun, generation := now, int64(1)
			p := &controller.Pace[string]{Burst: tc.burst, Now: func() time.Time { return now }}
			write := func() (written int) {
				for p.Wait("a", generation) <= 0 {
					p.Wrote("a", generation)
					written++
				}
				return written
			}
			if got := write(); got != tc.wantAtOnce {
				t.Errorf("%d writes at once, want %d", got, tc.wantAtOnce)
			}
			if got := p.Wait("b", generation); got > 0 {
				t.Errorf("another object waits for %s", got)
			}
			written := tc.wantAtOnce
			for range 1000 {
				now = now.Add(p.Wait("a", generation))
				if now.Sub(begun) >= time.Hour {
					break
				}
				written += write()
			}
			if written != tc.wantInAnHour {
				t.Errorf("%d writes in an hour, want %d", written, tc.wantInAnHour)
			}
			generation++
			if got := write(); got != tc.wantAtOnce {
				t.Errorf("%d writes of another generation, want %d", got, tc.wantAtOnce)
			}
			p.Forget("a")
			if got := write(); got != tc.wantAtOnce {
				t.Errorf("%d writes of an object that was forgotten, want %d", got, tc.wantAtOnce)
			}
			now = now.Add(time.Hour)
			if got := write(); got != tc.wantAtOnce {
				t.Errorf("%d writes after an hour without any, want %d", got, tc.wantAtOnce)
			}
		})
	}
}
