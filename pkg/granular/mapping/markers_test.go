/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/rows"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// specOf is a thing whose spec has fields.
func specOf(fields string) string {
	return "thing: {type: object, properties: {metadata: {type: object}, spec: {type: object, properties: {" + fields + "}}}}\n"
}

func readMarkers(t testing.TB, document string) (*mapping.Markers, error) {
	t.Helper()
	return mapping.NewMarkers(things.MarkedSchemas(t, document), map[schema.GroupVersionKind]string{things.Kind: "machines"})
}

const disk = `
disk: {type: object, (verb: disk, (by: disk-name, properties: {
  name: {type: string, (source: disk-name},
  size: {type: integer, (verb: diskSize, (by: disk-name}}}
`

// markersRow is a row of markers.yaml and malformed.yaml.
type markersRow struct {
	Spec    map[string]any // the fields of the specification of a thing
	Schemas map[string]any // other schemas
}

func (r markersRow) read(t *testing.T) (*mapping.Markers, error) {
	t.Helper()
	document := maps.Clone(r.Schemas)
	if document == nil {
		document = map[string]any{}
	}
	if r.Spec != nil {
		document["thing"] = map[string]any{"type": "object", "properties": map[string]any{
			"metadata": map[string]any{"type": "object"}, "spec": map[string]any{"type": "object", "properties": r.Spec},
		}}
	}
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	return readMarkers(t, string(text))
}

// nested returns the properties of a specification with nested fields. The innermost one has a permission.
func nested(fields int) map[string]any {
	property := map[string]any{"b": map[string]any{"type": "string", "(verb": "beauty"}}
	for range fields {
		property = map[string]any{"a": map[string]any{"type": "object", "properties": property}}
	}
	return property
}

func TestMarkers(t *testing.T) {
	t.Parallel()
	type row struct {
		markersRow
		Want []string
		Warn []string
	}
	check := func(t *testing.T, tc row) {
		t.Helper()
		markers, err := tc.read(t)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range markers.List() {
			text := strings.TrimSpace(l.Field + " " + l.Verb + " " + l.Parameter)
			if l.Excluded {
				text += " excluded"
			}
			got = append(got, text)
			if l.Resource != things.Machines {
				t.Errorf("got resource %s", l.Resource)
			}
		}
		if diff := cmp.Diff(tc.Want, got); diff != "" {
			t.Errorf("permissions (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(tc.Warn, markers.Warnings()); diff != "" {
			t.Errorf("warnings (-want +got):\n%s", diff)
		}
	}
	rows.Run(t, "testdata/markers.yaml", check)
	// As deep as may be: spec, 30 fields and b.
	check(t, row{markersRow: markersRow{Spec: nested(30)}, Want: []string{"spec" + strings.Repeat(".a", 30) + ".b granular:beauty"}})
}

// TestMalformedMarkers are refused, and the refusal names the field.
func TestMalformedMarkers(t *testing.T) {
	t.Parallel()
	type row struct {
		markersRow
		Want string
	}
	check := func(t *testing.T, tc row) {
		t.Helper()
		markers, err := tc.read(t)
		if err == nil || markers != nil || !strings.Contains(err.Error(), tc.Want) || !strings.HasPrefix(err.Error(), "the schema of Thing in example.com/v1: ") {
			t.Errorf("got %v\nwant %s", err, tc.Want)
		}
	}
	rows.Run(t, "testdata/malformed.yaml", check)
	long := map[string]any{"a": map[string]any{"type": "string", "(verb": strings.Repeat("a", 64)}}
	check(t, row{markersRow{Spec: long}, "must have at most 63 bytes"})
	check(t, row{markersRow{Spec: nested(40)}, "must have at most 32 steps"})
	check(t, row{markersRow{Spec: nested(31)}, "spec" + strings.Repeat(".a", 31) + ".b: must have at most 32 steps"})
	_, err := readMarkers(t, specOf("a: {type: string, (verb: A}, b: {type: string, (verb: B}"))
	if err == nil || !strings.Contains(err.Error(), "spec.a: ") || !strings.Contains(err.Error(), "spec.b: ") {
		t.Errorf("two mistakes: got %v, want both", err)
	}
}

// TestMarkersOfSeveralKinds reads the schemas of all kinds that are served: one schema may describe several kinds, and the order of the list
// does not depend on the order of a map.
func TestMarkersOfSeveralKinds(t *testing.T) {
	t.Parallel()
	kind := func(version, name string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "example.com", Version: version, Kind: name}
	}
	schemas := things.MarkedSchemas(t, `
thing: {type: object, properties: {spec: {type: object, properties: {boom: {type: boolean, (verb: selfDestruction, (excluded: true}}}}}
many: {type: object, properties: {data: {type: string, (verb: matter}}, x-kubernetes-group-version-kind: [
  {group: example.com, version: v1, kind: Beta}, {group: example.com, version: v2, kind: Alpha}, {group: example.com, version: v1, kind: NotServed}]}
`)
	served := map[schema.GroupVersionKind]string{things.Kind: "machines", kind("v1", "Beta"): "betas", kind("v2", "Alpha"): "alphas"}
	for range 8 {
		markers, err := mapping.NewMarkers(schemas, served)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range markers.List() {
			got = append(got, l.Resource.Resource+"/"+l.Resource.Version+" "+l.Field)
		}
		if diff := cmp.Diff([]string{"betas/v1 data", "machines/v1 spec.boom", "alphas/v2 data"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := markers.NewTable().Excluding(); len(got) != 1 || got[0] != "the schema of Thing in example.com/v1" {
			t.Errorf("got exclusions by %q", got)
		}
	}
	bad := things.MarkedSchemas(t, "thing: {type: object}\nother: {type: object, x-kubernetes-group-version-kind: {group: example.com}}")
	if _, err := mapping.NewMarkers(bad, served); err == nil || !strings.Contains(err.Error(), `schema "other": x-kubernetes-group-version-kind`) {
		t.Errorf("kinds that cannot be read: got %v", err)
	}
}

// TestMarkersInOtherLetters has the names of extensions as a program may have written them, without the decoder that makes their letters small.
func TestMarkersInOtherLetters(t *testing.T) {
	t.Parallel()
	schemas := things.MarkedSchemas(t, specOf("boom: {type: boolean}"))
	boom := schemas["thing"].Properties["spec"].Properties["boom"]
	boom.Extensions = spec.Extensions{"X-Kubernetes-Permission-Verb": "selfDestruction", "X-KUBERNETES-PERMISSION-EXCLUDED": true}
	schemas["thing"].Properties["spec"].Properties["boom"] = boom
	served := map[schema.GroupVersionKind]string{things.Kind: "machines"}
	markers, err := mapping.NewMarkers(schemas, served)
	if err != nil || len(markers.List()) != 1 || !markers.List()[0].Excluded {
		t.Errorf("got %v, %v, want an exclusion", markers, err)
	}
	boom.Extensions["x-kubernetes-permission-verb"] = "demolition"
	if _, err := mapping.NewMarkers(schemas, served); err == nil || !strings.Contains(err.Error(), `"selfDestruction" and "demolition"`) {
		t.Errorf("two markers of one name: got %v", err)
	}
	boom.Extensions = spec.Extensions{"X-Kubernetes-Permission-Verbs": "selfDestruction"}
	schemas["thing"].Properties["spec"].Properties["boom"] = boom
	if _, err := mapping.NewMarkers(schemas, served); err == nil || !strings.Contains(err.Error(), "is no marker that is known") {
		t.Errorf("an unknown marker: got %v", err)
	}
}

// FuzzMarkers reads schemas of any shape: each is read or refused, the same every time.
func FuzzMarkers(f *testing.F) {
	for _, seed := range []string{
		specOf("nodeName: {type: string, (verb: nodeAssignment}"), specOf("disks: {type: array, (map: [name], items: {$ref: '#/components/schemas/disk'}}") + disk,
		"thing: {$ref: '#/components/schemas/thing', (verb: x}", "thing: {items: [{(verb: x}]}",
	} {
		content, err := json.Marshal(things.MarkedSchemas(f, seed))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(content))
	}
	f.Fuzz(func(t *testing.T, content string) {
		read := func() string {
			schemas := map[string]*spec.Schema{}
			if json.Unmarshal([]byte(content), &schemas) != nil {
				return ""
			}
			for _, s := range schemas {
				if s == nil {
					return ""
				}
			}
			markers, err := mapping.NewMarkers(schemas, map[schema.GroupVersionKind]string{things.Kind: "machines"})
			if err != nil {
				return err.Error()
			}
			return fmt.Sprint(markers.List())
		}
		if one, other := read(), read(); one != other {
			t.Errorf("read as %s and as %s", one, other)
		}
	})
}
