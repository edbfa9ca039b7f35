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

// TestCallersThatWaitHaveNothing has a caller wait because one of its shares is full. Callers that share anything else with it
// get a slot of each of their shares at once, as if it did not wait.
func TestCallersThatWaitHaveNothing(t *testing.T) {
	t.Parallel()
	type names struct{ user, namespace string }
	waiting := names{"carol", "attacked"}
	bounds := slots.Bounds{All: 6, PerUser: 4, PerNamespace: 3, PerUserInNamespace: 2, Waiting: 40, WaitingOfOneUser: 8, WaitingOfOneUserInNamespace: 6, Refusal: errRefused}
	for _, tc := range []struct {
		name string
		// outer and inner have slots before the caller waits, of all Slots and of those within them.
		outer, inner []names
		// then get a slot.
		then []names
	}{
		{name: "for a slot of its namespace", outer: []names{{"a", "attacked"}, {"b", "attacked"}, {"c", "attacked"}},
			then: []names{{"carol", "x"}, {"carol", "x"}, {"carol", "y"}}},
		{name: "for a slot of its user", outer: []names{{"carol", "x"}, {"carol", "x"}, {"carol", "y"}, {"carol", "y"}},
			then: []names{{"a", "attacked"}, {"b", "attacked"}}},
		{name: "for a slot of its user in the namespace", outer: []names{{"carol", "attacked"}, {"carol", "attacked"}},
			then: []names{{"a", "attacked"}, {"carol", "x"}, {"carol", "x"}, {"a", "y"}}},
		{name: "for a slot within", inner: []names{{"a", "x"}, {"a", "y"}, {"b", "y"}},
			then: []names{{"carol", "x"}, {"a", "attacked"}, {"b", "attacked"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				all := slots.New(bounds)
				within := bounds
				within.All = 3
				inner := all.Within(within)
				ended, end := context.WithCancel(t.Context())
				end()
				var release []func()
				take := func(s *slots.Slots, names []names) {
					t.Helper()
					for _, n := range names {
						end, err := s.Acquire(ended, n.user, n.namespace)
						if err != nil {
							t.Fatalf("%v: %v", n, err)
						}
						release = append(release, end)
					}
				}
				take(all, tc.outer)
				take(inner, tc.inner)
				got := make(chan error, 2)
				for range 2 {
					go func() {
						end, err := inner.Acquire(t.Context(), waiting.user, waiting.namespace)
						if err == nil {
							end()
						}
						got <- err
					}()
				}
				synctest.Wait()
				take(all, tc.then)
				select {
				case err := <-got:
					t.Fatalf("got %v, want a caller that waits", err)
				default:
				}
				for _, end := range release {
					end()
				}
				for range 2 {
					if err := <-got; err != nil {
						t.Errorf("a caller that waited: %v", err)
					}
				}
				if n := all.Shares(); n != 0 {
					t.Errorf("%d shares are left", n)
				}
			})
		})
	}
}

// TestFirstCallerIsFirst frees a slot for which two callers wait, and a third that another slot keeps waiting.
func TestFirstCallerIsFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := slots.New(slots.Bounds{All: 3, PerUser: 2, PerNamespace: 1, PerUserInNamespace: 1, Waiting: 8, WaitingOfOneUser: 2, WaitingOfOneUserInNamespace: 2, Refusal: errRefused})
		hold := func(user, namespace string) func() {
			end, err := s.Acquire(t.Context(), user, namespace)
			if err != nil {
				t.Fatal(err)
			}
			return end
		}
		endA, endB := hold("alice", "a"), hold("bob", "b")
		order := make(chan string, 3)
		for _, c := range [][2]string{{"bob", "b"}, {"carol", "a"}, {"dave", "a"}} {
			go func() {
				end, err := s.Acquire(t.Context(), c[0], c[1])
				if err != nil {
					t.Error(err)
					return
				}
				order <- c[0]
				end()
			}()
			synctest.Wait()
		}
		endA()
		synctest.Wait()
		endB()
		for _, want := range []string{"carol", "dave", "bob"} {
			if got := <-order; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	})
}
