/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package slots_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/proviso-authz/proviso/pkg/slots"
)

var errRefused = errors.New("refused")

// TestSlots takes all slots of one user, fills the queue of that user, and then takes the slots of other users.
func TestSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := slots.New(slots.Bounds{All: 3, PerUser: 2, Waiting: 2, WaitingOfOneUser: 1, Refusal: errRefused})
		release := map[string][]func(){}
		take := func(ctx context.Context, user string, want error) {
			t.Helper()
			end, err := s.Acquire(ctx, user, "")
			if !errors.Is(err, want) {
				t.Fatalf("%s: got %v, want %v", user, err, want)
			}
			if err == nil {
				release[user] = append(release[user], end)
			}
		}
		ended, end := context.WithCancel(t.Context())
		end()
		take(ended, "alice", nil) // a free slot needs no time
		take(t.Context(), "alice", nil)
		take(ended, "alice", errRefused)
		got := make(chan error)
		go func() {
			end, err := s.Acquire(t.Context(), "alice", "")
			if err == nil {
				defer end()
			}
			got <- err
		}()
		synctest.Wait()
		take(t.Context(), "alice", errRefused) // one of hers waits
		take(t.Context(), "bob", nil)
		take(ended, "carol", errRefused) // all three are taken
		release["alice"][0]()
		if err := <-got; err != nil {
			t.Errorf("one that waited: got %v, want a slot", err)
		}
		take(ended, "carol", nil)
	})
}
