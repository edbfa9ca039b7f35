/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package openapi_test

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/pkg/kubectl/openapi"
)

// kinds is a document of OpenAPI v3 with a kind that is valid, and one whose schema is not.
const kinds = `
openapi: "3.0.0"
paths: {}
components:
  schemas:
    Thing:
      type: object
      x-kubernetes-group-version-kind: [{group: "", version: v1, kind: Thing}]
      properties:
        kind: {type: string}
        free: {type: object}
        open: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {known: {type: string}}}
        spec: {allOf: [{$ref: "#/components/schemas/Spec"}]}
    Spec:
      type: object
      required: [names, class, steps]
      properties:
        names: {type: array, items: {type: string, pattern: "^[a-z]+$"}}
        class: {type: string, maxLength: 5, enum: [gold, dev, silver]}
        size: {type: integer, format: int32, minimum: 1}
        steps: {type: array, items: {type: object, required: [image], properties: {image: {type: string}, note: {type: string}}}}
        modes: {type: object, additionalProperties: {type: string, enum: ["on", "off"]}}
        amount: {oneOf: [{type: integer}, {type: string}]}
    Broken:
      type: object
      x-kubernetes-group-version-kind: [{group: "", version: v1, kind: Broken}]
      properties: {spec: {anyOf: [{$ref: "#/components/schemas/Spec"}]}}
`

// kindOf returns a kind of the document.
func kindOf(t *testing.T, name string) *openapi.Kind {
	t.Helper()
	file := filepath.Join(t.TempDir(), "openapi.yaml")
	if err := os.WriteFile(file, []byte(kinds), 0o600); err != nil {
		t.Fatal(err)
	}
	schemas, errs := openapi.Read([]string{file})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return openapi.KindOf(schemas, schema.GroupVersionKind{Version: "v1", Kind: name})
}

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	read := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &read); err != nil {
		t.Fatal(err)
	}
	return read
}

// TestAccepts changes objects that are valid and one that is not.
func TestAccepts(t *testing.T) {
	t.Parallel()
	const valid = `{names: [a], class: gold, steps: [{image: i, note: n}]}`
	for _, tc := range []struct {
		name          string
		kind          string // Thing if it is empty
		before, after string // of the field spec
		top           string // other fields of the object after the change
		path          []any
		want          bool
	}{
		{name: "a listed value", after: `{names: [a], class: dev, steps: [{image: i}]}`, path: []any{"spec", "class"}, want: true},
		{name: "a value that is not listed", after: `{names: [a], class: tin, steps: [{image: i}]}`, path: []any{"spec", "class"}},
		{name: "a value that is too long", after: `{names: [a], class: silver, steps: [{image: i}]}`, path: []any{"spec", "class"}},
		{name: "another type", after: `{names: [a], class: 7, steps: [{image: i}]}`, path: []any{"spec", "class"}},
		{name: "a pattern that is met", after: `{names: [a, b], class: gold, steps: [{image: i}]}`, path: []any{"spec", "names"}, want: true},
		{name: "a pattern that is not met", after: `{names: [a, B], class: gold, steps: [{image: i}]}`, path: []any{"spec", "names"}},
		{name: "a number that is too small", after: `{names: [a], class: gold, steps: [{image: i}], size: 0}`, path: []any{"spec", "size"}},
		{name: "a number", after: `{names: [a], class: gold, steps: [{image: i}], size: 2}`, path: []any{"spec", "size"}, want: true},
		{name: "a required field is removed", after: `{names: [a], steps: [{image: i}]}`, path: []any{"spec", "class"}},
		{name: "a required list becomes empty", after: `{names: [], class: gold, steps: [{image: i}]}`, path: []any{"spec", "names"}},
		{name: "the last element of a required list is removed", after: `{names: [], class: gold, steps: [{image: i}]}`, path: []any{"spec", "names", int64(0)}},
		{name: "a required text becomes empty", after: `{names: [a], class: gold, steps: [{image: ""}]}`, path: []any{"spec", "steps", int64(0), "image"}},
		{name: "a required field of an element is removed", after: `{names: [a], class: gold, steps: [{note: n}]}`, path: []any{"spec", "steps", int64(0), "image"}},
		{name: "a field that is not required is removed", after: `{names: [a], class: gold, steps: [{image: i}]}`, path: []any{"spec", "steps", int64(0), "note"}, want: true},
		{name: "a value of a map", after: `{names: [a], class: gold, steps: [{image: i}], modes: {x: "on"}}`, path: []any{"spec", "modes", "x"}, want: true},
		{name: "one of two types", after: `{names: [a], class: gold, steps: [{image: i}], amount: 1Gi}`, path: []any{"spec", "amount"}, want: true},
		{name: "neither of two types", after: `{names: [a], class: gold, steps: [{image: i}], amount: [1]}`, path: []any{"spec", "amount"}},
		{name: "a field that there is not", after: `{names: [a], class: gold, steps: [{image: i}], tier: x}`, path: []any{"spec", "tier"}},
		{name: "a field of an object without a schema", after: valid, top: `{free: {x: 1}}`, path: []any{"free", "x"}, want: true},
		{name: "a field of an object that keeps other fields", after: valid, top: `{open: {x: 1}}`, path: []any{"open", "x"}, want: true},
		{name: "another field was invalid before", before: `{class: tin}`, after: `{class: tin, size: 3}`, path: []any{"spec", "size"}, want: true},
		{name: "the change mends an invalid object", before: `{class: tin}`, after: `{class: dev}`, path: []any{"spec", "class"}, want: true},
		{name: "a required field stays empty", before: `{names: []}`, after: `{names: []}`, path: []any{"spec", "names"}, want: true},
		{name: "a kind that no document has", kind: "Other", after: `{tier: x}`, path: []any{"spec", "tier"}, want: true},
		{name: "a schema that is invalid", kind: "Broken", after: `{names: [a]}`, path: []any{"spec"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.kind == "" {
				tc.kind = "Thing"
			}
			before, after := tc.before, object(t, "{kind: Thing, spec: "+tc.after+"}")
			if before == "" {
				before = valid
			}
			for name, value := range object(t, tc.top) {
				after[name] = value
			}
			if got := kindOf(t, tc.kind).Accepts(object(t, "{kind: Thing, spec: "+before+"}"), after, tc.path); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
