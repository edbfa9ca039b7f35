/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package granular_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/rows"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// markersOf reads the markers in the schemas of a document.
func markersOf(t testing.TB, document string) *mapping.Markers {
	t.Helper()
	markers, err := mapping.NewMarkers(things.MarkedSchemas(t, document), map[schema.GroupVersionKind]string{things.Kind: things.Machines.Resource})
	if err != nil {
		t.Fatal(err)
	}
	return markers
}

// markerRow is a row of markers.yaml.
type markerRow struct {
	Mappings      []things.MappingRow
	Version       string
	Before, After map[string]any
	Verbs         string
	Exclude       bool
	Want          string
}

// TestMarkersAndMappings are schemas beside mappings: what they agree in holds, and neither
// holds where they contradict each other.
func TestMarkersAndMappings(t *testing.T) {
	t.Parallel()
	document := `
thing: {type: object, properties: {metadata: {type: object}, spec: {type: object, properties: {
  tags: {type: array, (set, (verb: word, (source: w, (by: w, (treatment: slash-delimited-prefix, items: {type: string}},
  replicas: {type: string, (verb: replicas, (excluded: true},
  containers: {type: array, (map: [name], items: {type: object, properties: {
    name: {type: string, (source: c},
    ports: {type: array, (map: [port, protocol], items: {type: object, (verb: gate, (by: c, properties: {port: {type: string}, protocol: {type: string}}}}}}}}}}}
`
	rows.Run(t, "testdata/markers.yaml", func(t *testing.T, tc markerRow) {
		source := mapping.NewSource(markersOf(t, document))
		source.Publish(things.Mappings(tc.Mappings)...)
		resource := things.Machines
		if tc.Version != "" {
			resource.Version = tc.Version
		}
		changed := changesOf(t, changes.Differ{Types: things.Types(t)}, things.Object(tc.Before), things.Object(tc.After))
		checker := granular.Checker{Authorizer: &grants{verbs: strings.Fields(tc.Verbs)}}
		check := checker.Include
		if tc.Exclude {
			check = checker.Exclude
		}
		got := check(t.Context(), source.Table().For(resource), changed, updateByBob)
		got.Reason += " (end)"
		checkResult(t, got, tc.Want)
		if excludes := source.Table().Excludes(resource); !excludes {
			t.Error("the table excludes nothing")
		}
	})
	with, without := markersOf(t, document).NewTable(), mapping.NewTable()
	if with.Digest() == without.Digest() || with.Digest() != markersOf(t, document).NewTable().Digest() {
		t.Errorf("the digests do not tell tables apart, or the same ones do: %s, %s", with.Digest(), without.Digest())
	}
}

// TestMappingWithoutResources: a mapping without resources that excludes a field excludes all fields of all resources,
// because it does not say which resource it protects. Without an exclusion it has no effect.
func TestMappingWithoutResources(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		field policy.FieldPermission
		want  bool
	}{
		"an exclusion":   {things.Excluded("spec.boom", "selfDestruction", ""), true},
		"a permission":   {things.Field("spec.boom", "selfDestruction"), false},
		"what is broken": {things.Excluded("spec..", "selfDestruction", ""), true},
	} {
		m := things.Mapping("m", things.Spec(tc.field))
		m.Spec.Resources = nil
		table := mapping.NewTable(m)
		for _, resource := range []string{"machines", "others", "*"} {
			if got := table.Excludes(schema.GroupVersionResource{Group: "example.com", Resource: resource}); got != tc.want {
				t.Errorf("%s: %s: got excluded %t", name, resource, got)
			}
		}
		checker := granular.Checker{Authorizer: &grants{verbs: []string{"*"}}}
		changed := changesOf(t, changes.Differ{Types: things.Types(t)}, things.Object(things.Parse(t, "metadata: {name: a}")), things.Object(things.Parse(t, "metadata: {name: a, labels: {a: b}}")))
		if got := checker.Exclude(t.Context(), table.For(things.Machines), changed, updateByBob); got.Allowed == tc.want {
			t.Errorf("%s: got %+v", name, got)
		}
		if (table.Digest() == mapping.NewTable().Digest()) == tc.want {
			t.Errorf("%s: the digest equals the digest of other mappings", name)
		}
	}
}

// TestStale loses the mappings: nothing is included, in process or after the wire, and what
// is excluded stays so.
func TestStale(t *testing.T) {
	t.Parallel()
	source := &mapping.Source{}
	source.Store(mapping.NewTable(things.Mapping("m", things.Spec(things.Excluded(`metadata.annotations["boom"]`, "selfDestruction", "")))))
	config := granular.Config{Authorizer: &grants{verbs: []string{"granular", "granular:metadata"}}, Types: things.Types(t), Mappings: source}
	include, exclude := both(t, config)
	harmless := updateOf(t, "metadata: {name: a}", "metadata: {name: a, labels: {x: z}}")
	boom := updateOf(t, "metadata: {name: a}", "metadata: {name: a, annotations: {boom: z}}")
	earlier := include.ConditionsAwareAuthorize(t.Context(), updateByBob)
	for _, stale := range []string{"", "the store is gone", ""} {
		source.SetStale(stale)
		want := map[bool]authorizer.Decision{true: authorizer.DecisionAllow, false: authorizer.DecisionNoOpinion}[stale == ""]
		if got := authorization.FromUpstream("", include.ConditionsAwareAuthorize(t.Context(), updateByBob)); got.CanBecomeAllowed() != (stale == "") {
			t.Errorf("stale %q: got %+v before anything is known of the fields", stale, got)
		}
		for name, decision := range map[string]authorizer.ConditionsAwareDecision{"now": include.ConditionsAwareAuthorize(t.Context(), updateByBob), "earlier": earlier} {
			if got, reason, _ := evaluated(t, decision, harmless).Concrete(); got != want || !strings.Contains(reason, stale) {
				t.Errorf("stale %q, decided %s: got %v: %s, want %v", stale, name, got, reason, want)
			}
		}
		if got, reason, _ := include.EvaluateConditions(t.Context(), overTheWire(t, earlier, nil), harmless); got != want || !strings.Contains(reason, stale) {
			t.Errorf("stale %q, after the wire: got %v: %s, want %v", stale, got, reason, want)
		}
		for data, want := range map[*write]authorizer.Decision{&harmless: authorizer.DecisionNoOpinion, &boom: authorizer.DecisionDeny} {
			if got, reason, _ := evaluated(t, exclude.ConditionsAwareAuthorize(t.Context(), updateByBob), *data).Concrete(); got != want {
				t.Errorf("stale %q, exclude: got %v: %s, want %v", stale, got, reason, want)
			}
		}
	}
}
