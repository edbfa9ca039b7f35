/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package freshness_test

import (
	"context"
	"testing"

	"github.com/proviso-authz/proviso/pkg/freshness"
)

// TestSource pins contexts to the states of a source, also to the state in which it holds nothing.
func TestSource(t *testing.T) {
	t.Parallel()
	one, two := 1, 2
	stateOf := func(value *int, stale string) freshness.State[int] {
		return freshness.State[int]{Value: value, Stale: stale}
	}
	source, other := &freshness.Source[int]{}, &freshness.Source[int]{}
	empty := source.Pin(t.Context())
	source.Store(&one)
	source.SetStale("no news")
	first := source.Pin(t.Context())
	source.Store(&two)
	source.SetStale("")
	for _, tc := range []struct {
		name   string
		source *freshness.Source[int]
		ctx    context.Context
		want   freshness.State[int]
	}{
		{"pinned before the first value", source, empty, stateOf(nil, "")},
		{"pinned while the value was stale", source, first, stateOf(&one, "no news")},
		{"pinned again", source, source.Pin(first), stateOf(&one, "no news")},
		{"pinned to a state", source, source.PinTo(first, stateOf(&two, "")), stateOf(&two, "")},
		{"not pinned", source, t.Context(), stateOf(&two, "")},
		{"another source", other, first, stateOf(nil, "")},
		{"two sources", source, other.Pin(first), stateOf(&one, "no news")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := tc.source.StateOf(tc.ctx); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}
