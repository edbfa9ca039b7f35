/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier

import (
	"fmt"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// TestOverWorkBySize has barriers that work longer than the bound for objects of one size alone.
func TestOverWorkBySize(t *testing.T) {
	t.Parallel()
	for _, key := range []engine.Key{{Namespace: "a", Name: "p"}, {Name: "p"}} {
		for i, size := range sizes {
			limit := size.part * MaxWork
			if key.Namespace == "" {
				limit = size.part * MaxWorkOfCluster
			}
			b := &Barrier{Key: key, paths: []resourcePath{{path: "pods"}}}
			b.work[i] = uint64(limit)
			if reason := OverWork(b, nil); reason != "" {
				t.Errorf("%v, %d bytes: got %q at the bound", key, size.bytes, reason)
			}
			b.work[i]++
			if reason := OverWork(b, nil); !strings.Contains(reason, fmt.Sprintf("with an object of %d KiB could cost", size.bytes>>10)) {
				t.Errorf("%v, %d bytes: got %q over the bound", key, size.bytes, reason)
			}
		}
	}
	for bytes, want := range map[int]float64{4 << 10: 125, 256 << 10: 500, 3 << 20: 3000} {
		got := 0.0
		for _, size := range sizes {
			if size.bytes == bytes {
				got = size.part * MaxWork / unitsPerMillisecond
			}
		}
		if got != want {
			t.Errorf("an object of %d bytes may cost %v ms, want %v, as docs/barriers.md says", bytes, got, want)
		}
	}
}
