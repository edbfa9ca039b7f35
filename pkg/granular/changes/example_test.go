/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package changes_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proviso-authz/proviso/pkg/granular/changes"
)

func ExampleDiffer_Changes() {
	withMetadata := func(metadata map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": metadata}}
	}
	before := withMetadata(map[string]any{"generation": int64(1), "labels": map[string]any{"a": "x"}})
	after := withMetadata(map[string]any{"generation": int64(2), "labels": map[string]any{"a": "y", "example.com/b": "z"}})
	changed, err := changes.Differ{}.Changes(context.Background(), schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, before, after)
	if err != nil {
		panic(err)
	}
	for _, path := range changed.Paths() {
		fmt.Println(changes.NameOf(path))
	}
	// Output:
	// metadata.labels.a
	// metadata.labels["example.com/b"]
}
