/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package granular_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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

// annotationsOf evaluates both sides as a request does, and returns what its audit event gets, by name.
func annotationsOf(t *testing.T, g authorizer.UnconditionalAuthorizer, data write) map[string]string {
	t.Helper()
	config := granular.Config{Authorizer: g, Types: things.Types(t), Mappings: sourceOf(things.Mapping("m", things.Spec(things.Excluded(`metadata.annotations["boom"]`, "selfDestruction", ""))))}
	chain := chainOf(t, membersOf(t, config))
	ctx, trail := granular.WithTrail(t.Context())
	// An update that is attempted again leaves what was checked last.
	for _, earlier := range []string{"metadata: {name: b, annotations: {boom: c}}", "metadata: {name: b}"} {
		chain.Decide(ctx, updateByBob).Evaluate(ctx, authorization.EvaluatorFor(updateOf(t, "metadata: {name: a}", earlier), nil))
	}
	chain.Decide(ctx, updateByBob).Evaluate(ctx, authorization.EvaluatorFor(data, nil))
	annotations := trail.Annotations()
	if text := strings.Join(annotations, " "); strings.Contains(text, "hidden") {
		t.Errorf("got a value in %s", text)
	}
	result, last := map[string]string{}, ""
	for pair := range slices.Chunk(annotations, 2) {
		if pair[0] <= last {
			t.Errorf("got %s after %s, want each annotation once, in alphabetical order", pair[0], last)
		}
		last = pair[0]
		result[strings.TrimPrefix(last, "granular.proviso.dev/")] = pair[1]
	}
	return result
}

func TestGranularTrail(t *testing.T) {
	t.Parallel()
	type row struct {
		Verbs         string
		Fails         bool // the authorizer
		Before, After map[string]any
		Want          map[string]string
	}
	rows.Run(t, "testdata/trail.yaml", func(t *testing.T, tc row) {
		g := &prefixes{grants: grants{verbs: strings.Fields(tc.Verbs)}}
		if tc.Fails {
			g.err = errors.New("hidden")
		}
		data := updateOf(t, "", "")
		data.before, data.object = things.Object(tc.Before), things.Object(tc.After)
		if diff := cmp.Diff(tc.Want, annotationsOf(t, g, data), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("annotations (-want +got):\n%s", diff)
		}
	})
}

// TestGranularTrailIsBounded changes 200 labels: a list in an audit event ends with the number of the entries that it leaves out.
func TestGranularTrailIsBounded(t *testing.T) {
	t.Parallel()
	many := strings.Builder{}
	for i := range 200 {
		fmt.Fprintf(&many, "example-%03d.com/secret: hidden, ", i)
	}
	manyLabels := updateOf(t, "metadata: {name: a}", "metadata: {name: a, labels: {"+many.String()+"}}")
	for _, tc := range []struct {
		name  string
		verbs []string
		want  map[string]string // what the last entries of a list contain
	}{
		{name: "all may be changed", verbs: []string{"granular", "granular:labels"}, want: map[string]string{"include-fields": "and 168 more"}},
		{name: "the last may not be changed", verbs: []string{"granular", "granular:label("}, want: map[string]string{
			// Three checks for the first label and one for each other.
			"include-verbs":  `granular:label(example-061.com), and `,
			"include-fields": `metadata.labels["example-062.com/secret"], and 30 more`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := annotationsOf(t, &prefixes{grants: grants{verbs: tc.verbs}}, manyLabels)
			for name, text := range got {
				if len(text) > 2048 {
					t.Errorf("%s has %d bytes", name, len(text))
				}
			}
			for name, want := range tc.want {
				var entries []string
				if err := json.Unmarshal([]byte(got[name]), &entries); err != nil || len(entries) < 3 {
					t.Fatalf("%s: got %q, %v", name, got[name], err)
				}
				if last := strings.Join(entries[len(entries)-2:], ", "); !strings.Contains(last, want) {
					t.Errorf("%s: got %s at the end, want %s", name, last, want)
				}
			}
		})
	}
}

// prefixes has every verb that begins with one of its own.
type prefixes struct {
	grants
	err error
}

func (p *prefixes) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if p.err != nil && a.GetVerb() != "granular" {
		return authorizer.DecisionNoOpinion, "", p.err
	}
	for _, verb := range p.verbs {
		if strings.HasSuffix(verb, "(") && strings.HasPrefix(a.GetVerb(), verb) {
			return authorizer.DecisionAllow, "", nil
		}
	}
	return p.grants.Authorize(ctx, a)
}

// TestTrailOfReviews keeps nothing of conditions that came over the wire: they are about other
// requests than the one that has them evaluated.
func TestTrailOfReviews(t *testing.T) {
	t.Parallel()
	include := mustMake(t, granular.NewInclude, granular.Config{Authorizer: &grants{verbs: []string{"*"}}, Types: things.Types(t), Mappings: sourceOf()})
	ctx, trail := granular.WithTrail(t.Context())
	d := overTheWire(t, include.ConditionsAwareAuthorize(ctx, updateByBob), nil)
	if got, _, _ := include.EvaluateConditions(ctx, d, updateOf(t, "metadata: {name: a}", "metadata: {name: a, labels: {x: z}}")); got != authorizer.DecisionAllow {
		t.Errorf("got %v", got)
	}
	if got := trail.Annotations(); len(got) > 0 {
		t.Errorf("got %v, want nothing", got)
	}
}

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
