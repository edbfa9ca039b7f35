/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rollout_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/proviso-authz/proviso/pkg/barrier/rollout"
)

// TestSight has a replica lose sight of what kube-apiserver stores, for example because its permission to watch is gone. Barriers count for another 30
// seconds, and again when the replica has received what is stored.
func TestSight(t *testing.T) {
	t.Parallel()
	spec := specOf("one", "update")
	errForbidden := errors.New("forbidden")
	for _, tc := range []struct {
		name string
		// blind takes the sight, and see gives it back.
		blind, see func(w *world)
		// message is a part of the message of the state.
		message string
	}{
		{
			name: "they cannot be read", blind: func(w *world) { w.storedErr = errForbidden }, see: func(w *world) { w.storedErr = nil }, message: "are not known: they cannot be read",
		},
		{
			name: "a change is not received", message: "another state is stored than was received",
			blind: func(w *world) { w.isLate = true; w.writePolicy(w.policy(nameOf(policyKey))) }, see: func(w *world) { w.receive() },
		},
		{
			name: "a deletion is not received", message: "another state is stored than was received",
			blind: func(w *world) { w.isLate = true; w.deleteBinding(nameOf(policyKey)) }, see: func(w *world) { w.isLate = false },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := active(t, spec)
			want := func(when string, covers bool, phase rollout.Phase, message string) {
				t.Helper()
				state := w.replica.State(policyKey)
				if got := w.replica.Covers(policyKey.ConditionID(), verb("update")); got != covers || state.Phase != phase || !strings.Contains(state.Message, message) {
					t.Errorf("%s: covers: %t, want %t; state %+v, want %s with %q", when, got, covers, state, phase, message)
				}
			}
			want("before", true, rollout.Active, "")
			tc.blind(w)
			w.clock.Step(29 * time.Second)
			if w.replica.Compare(t.Context()) {
				t.Error("the comparison finds no difference")
			}
			want("after 29 seconds", true, rollout.Active, "")
			w.clock.Step(2 * time.Second)
			if w.replica.Compare(t.Context()) {
				t.Error("the comparison finds no difference")
			}
			want("after 31 seconds", false, rollout.Pending, tc.message)
			tc.see(w)
			if !w.replica.Compare(t.Context()) {
				t.Error("the comparison finds a difference")
			}
			want("at the end", true, rollout.Active, "")
		})
	}
	t.Run("an object of another tool", func(t *testing.T) {
		t.Parallel()
		w := active(t, spec)
		w.isLate = true
		other := w.policy(nameOf(policyKey)).DeepCopy()
		other.Name = "other"
		w.writePolicy(other)
		if !w.replica.Compare(t.Context()) {
			t.Errorf("it is a difference: %+v", w.replica.State(policyKey))
		}
	})
	t.Run("no comparison at all", func(t *testing.T) {
		t.Parallel()
		w := active(t, spec)
		w.clock.Step(31 * time.Second)
		if state := w.replica.State(policyKey); state.Phase != rollout.Pending || !strings.Contains(state.Message, "they were not compared in time") {
			t.Errorf("got %+v", state)
		}
	})
}
