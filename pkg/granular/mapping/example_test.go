/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/proviso-authz/proviso/pkg/granular/mapping"
)

// The user needs one of these verbs to change a label. The most general verb is first.
func ExampleTable_For() {
	label := fieldpath.MakePathOrDie("metadata", "labels", "example.com/tier")
	rules := mapping.NewTable().For(schema.GroupVersionResource{Version: "v1", Resource: "pods"})
	for rule := range rules.All() {
		if !rule.Includes(label) {
			continue
		}
		verb, err := rule.Verb(context.Background(), label, func() error { return nil })
		if err != nil {
			panic(err)
		}
		fmt.Println(verb)
	}
	// Output:
	// granular:metadata
	// granular:labels
	// granular:label(example.com)
}
