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
	const (
		plain = "metadata: {name: a}\n"
		port  = plain + "spec: {containers: [{name: main, ports: [{port: p, protocol: TCP}]}]}"
		none  = plain + "spec: {containers: [{name: main}]}"
	)
	mark := func(f policy.FieldPermission, versions ...string) []*policy.FieldPermissionMapping {
		return []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(f), versions...)}
	}
	prefixed := policy.FieldPermissionParameter{Treatment: policy.ParameterTreatmentSlashDelimitedPrefix}
	computed := policy.FieldPermissionParameter{Treatment: policy.ParameterTreatmentExpression, Expression: `parameter.split("/")[7]`}
	for _, tc := range []struct {
		name          string
		mappings      []*policy.FieldPermissionMapping
		version       string // of the request, if it is not v1
		before, after string
		verbs         string
		exclude       bool
		want          string // the reason of the refusal; "" if it is allowed
	}{
		{"the permission of a schema", nil, "", plain, plain + "spec: {tags: [x/y]}", "granular:word(x)", false, ""},
		{"another one", nil, "", plain, plain + "spec: {tags: [z/y]}", "granular:word(x)", false, `spec.tags["z/y"] needs the verb "granular:specification" or "granular:word(z)"`},
		{"in another version", nil, "v2", plain, plain + "spec: {tags: [x/y]}", "granular:word(x)", false, `spec.tags["x/y"] needs the verb "granular:specification"`},
		{"in another version, by a mapping", mark(things.Parameterized("spec.tags[*]", "word", prefixed), "v2"), "v2", plain, plain + "spec: {tags: [x/y]}", "granular:word(x)", false, ""},
		{"the outer key", nil, "", none, port, "granular:gate(main)", false, ""},
		{"not the inner one", nil, "", none, port, "granular:gate(p)", false, `needs the verb "granular:specification" or "granular:gate(main)"`},
		{"a mapping that agrees", mark(things.Parameterized("spec.tags[*]", "word", prefixed)), "", plain, plain + "spec: {tags: [x/y]}", "granular:word(x)", false, ""},
		{"a mapping that agrees, in a refusal", mark(things.Parameterized("spec.tags[*]", "word", prefixed)), "", plain, plain + "spec: {tags: [x/y]}", "granular:word(z)", false, `needs the verb "granular:specification" or "granular:word(x)" (end)`},
		{"a mapping with another name", mark(things.Parameterized("spec.tags[*]", "letter", prefixed)), "", plain, plain + "spec: {tags: [x/y]}", "granular:word(x) granular:letter(x)", false,
			`spec.tags[*] has permission "letter" by FieldPermissionMapping "m" and "word" by the schema of Thing in example.com/v1`},
		{"a mapping with another treatment", mark(things.Parameterized("spec.tags[*]", "word", policy.FieldPermissionParameter{})), "", plain, plain + "spec: {tags: [x/y]}", "granular:word(x) granular:word(x/y)", false, `spec.tags[*] has permission "word" by`},
		{"a mapping with another key", mark(things.Parameterized("spec.containers[*].ports[*]", "gate", policy.FieldPermissionParameter{Key: "port"})), "", none, port, "granular:gate(main) granular:gate(p)", false, `spec.containers[*].ports[*] has permission "gate" by`},
		{"a mapping with the same key of another list", mark(things.Parameterized("spec.containers[*].ports[*]", "gate", policy.FieldPermissionParameter{Key: "name"})), "", none, port, "granular:gate(main)", false, `spec.containers[*].ports[*] has permission "gate" by`},
		{"a mapping whose expression fails", mark(things.Parameterized("spec.tags[*]", "word", computed)), "v2", plain, plain + "spec: {tags: [x/y]}", "granular:word(x)", false, "the expression failed"},
		{"a more general permission covers what contradicts", mark(things.Parameterized("spec.tags[*]", "letter", prefixed)), "", plain, plain + "spec: {tags: [x/y]}", "granular:specification", false, ""},
		{"excluded by a schema", nil, "", plain, plain + "spec: {replicas: x}", "granular:specification", true, `the field spec.replicas is excluded from general permission: changing it also needs the verb "granular:replicas"`},
		{"excluded by a schema, with its permission", nil, "", plain, plain + "spec: {replicas: x}", "granular:replicas", true, ""},
		{"another field", nil, "", plain, plain + "spec: {tags: [x]}", "", true, ""},
		{"a version without a mapping", nil, "v2", plain, plain + "spec: {tags: [x]}", "", true, `the request may change an excluded field that its object does not show: it also needs the verb "granular:replicas"`},
		{"a version without a mapping, without a change", nil, "v2", plain, plain, "", true, `it also needs the verb "granular:replicas"`},
		{"a version without a mapping, by who may", nil, "v2", plain, plain, "granular:replicas", true, ""},
		{"a version that a mapping knows", mark(things.Excluded("spec.copies", "replicas", ""), "v2"), "v2", plain, plain + "spec: {tags: [x]}", "", true, ""},
		{"excluded by a mapping, too, for some values", mark(things.Excluded("spec.replicas", "replicas", `value == "never"`)), "", plain, plain + "spec: {replicas: x}", "", true, `"granular:replicas"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			source := mapping.NewSource(markersOf(t, document))
			source.Publish(tc.mappings...)
			resource := things.Machines
			if tc.version != "" {
				resource.Version = tc.version
			}
			changed, err := changes.Differ{Types: things.Types(t)}.Changes(t.Context(), things.Kind, things.Object(things.Parse(t, tc.before)), things.Object(things.Parse(t, tc.after)))
			if err != nil {
				t.Fatal(err)
			}
			checker := granular.Checker{Authorizer: &grants{verbs: strings.Fields(tc.verbs)}}
			check := checker.Include
			if tc.exclude {
				check = checker.Exclude
			}
			got := check(t.Context(), source.Table().For(resource), changed, updateByBob)
			if got.Allowed != (tc.want == "") || !strings.Contains(got.Reason+" (end)", tc.want) {
				t.Errorf("got  allowed %v: %s\nwant %s", got.Allowed, got.Reason, tc.want)
			}
			if excludes := source.Table().Excludes(resource); !excludes {
				t.Error("the table excludes nothing")
			}
		})
	}
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
		changed, err := changes.Differ{Types: things.Types(t)}.Changes(t.Context(), things.Kind, things.Object(things.Parse(t, "metadata: {name: a}")), things.Object(things.Parse(t, "metadata: {name: a, labels: {a: b}}")))
		if err != nil {
			t.Fatal(err)
		}
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
	include, exclude := mustMake(t, granular.NewInclude, config), mustMake(t, granular.NewExclude, config)
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
			evaluated := authorization.FromUpstream("", decision).Evaluate(t.Context(), authorization.EvaluatorFor(harmless, nil))
			if got, reason, _ := evaluated.Concrete(); got != want || !strings.Contains(reason, stale) {
				t.Errorf("stale %q, decided %s: got %v: %s, want %v", stale, name, got, reason, want)
			}
		}
		if got, reason, _ := include.EvaluateConditions(t.Context(), overTheWire(t, earlier, nil), harmless); got != want || !strings.Contains(reason, stale) {
			t.Errorf("stale %q, after the wire: got %v: %s, want %v", stale, got, reason, want)
		}
		for data, want := range map[*write]authorizer.Decision{&harmless: authorizer.DecisionNoOpinion, &boom: authorizer.DecisionDeny} {
			evaluated := authorization.FromUpstream("", exclude.ConditionsAwareAuthorize(t.Context(), updateByBob)).Evaluate(t.Context(), authorization.EvaluatorFor(*data, nil))
			if got, reason, _ := evaluated.Concrete(); got != want {
				t.Errorf("stale %q, exclude: got %v: %s, want %v", stale, got, reason, want)
			}
		}
	}
}
