/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rollout

import "testing"

// TestCountedPhase counts barriers that count as loaded as active.
func TestCountedPhase(t *testing.T) {
	t.Parallel()
	for state, want := range map[*State]Phase{
		{Phase: Active, Loaded: true}: Active, {Phase: Pending, Loaded: true}: Active, {Phase: Pending}: Pending, {Phase: Absent}: Absent,
	} {
		if got := state.countedAs(); got != want {
			t.Errorf("%+v counts as %s, want %s", state, got, want)
		}
	}
}
