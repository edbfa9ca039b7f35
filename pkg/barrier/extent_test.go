/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier_test

import (
	"testing"

	"github.com/proviso-authz/proviso/pkg/barrier"
)

// TestExtent writes and reads what was stored before the sentinel.
func TestExtent(t *testing.T) {
	t.Parallel()
	sentinel, _ := barrier.Sentinel("proviso-system", 7)
	if got, ok := barrier.ExtentOf(sentinel); ok {
		t.Errorf("a sentinel without an extent has %+v", got)
	}
	shared := map[string]string{"other": "stays"}
	sentinel.Annotations = shared
	want := barrier.Extent{Policies: 1<<63 + 1, Bindings: 12}
	barrier.SetExtent(sentinel, want)
	if got, ok := barrier.ExtentOf(sentinel); !ok || got != want {
		t.Errorf("got %+v, %t, want %+v", got, ok, want)
	}
	if sentinel.Annotations["other"] != "stays" || len(shared) != 1 {
		t.Errorf("the annotations are %v, those before %v", sentinel.Annotations, shared)
	}
	for name := range sentinel.Annotations {
		if name == "other" {
			continue
		}
		for _, value := range []string{"", "x", "-1"} {
			changed := sentinel.DeepCopy()
			changed.Annotations[name] = value
			if got, ok := barrier.ExtentOf(changed); ok {
				t.Errorf("%s %q: got %+v", name, value, got)
			}
		}
	}
}
