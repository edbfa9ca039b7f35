/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package granular_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// sized makes a thing of about so many bytes.
func sized(size int) map[string]any {
	o := map[string]any{"metadata": map[string]any{"name": "a", "labels": map[string]any{"super.safe.com/x": "a"}}}
	var containers []any
	for i := 0; ; i++ {
		containers = append(containers, map[string]any{
			"name": fmt.Sprintf("c%d", i), "image": "registry.example.com/image:tag", "args": []any{"--one", "--two"},
			"ports": []any{map[string]any{"port": "p", "protocol": "TCP"}, map[string]any{"port": "q", "protocol": "TCP"}},
		})
		o["spec"] = map[string]any{"containers": containers}
		if text, err := json.Marshal(o); err != nil || len(text) >= size {
			return o
		}
	}
}

func BenchmarkInclude(b *testing.B) {
	for _, tc := range []struct {
		name  string
		size  int
		types changes.Types
	}{
		{"2KiB/schema", 2 << 10, things.Types(b)}, {"2KiB/none", 2 << 10, nil},
		{"100KiB/schema", 100 << 10, things.Types(b)}, {"100KiB/none", 100 << 10, nil},
	} {
		b.Run(tc.name, func(b *testing.B) {
			before, after := sized(tc.size), sized(tc.size)
			after["metadata"].(map[string]any)["labels"] = map[string]any{"super.safe.com/x": "b"}
			rules := mapping.NewTable().For(things.Machines)
			differ := changes.Differ{Types: tc.types}
			b.ReportAllocs()
			for b.Loop() {
				changed, err := differ.Changes(b.Context(), things.Kind, things.Object(before), things.Object(after))
				if err != nil {
					b.Fatal(err)
				}
				g := &grants{verbs: []string{"granular:label(super.safe.com)"}}
				if result := (granular.Checker{Authorizer: g}).Include(b.Context(), rules, changed, updateByBob); !result.Allowed {
					b.Fatal(result.Reason)
				}
			}
		})
	}
}
