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
	"github.com/proviso-authz/proviso/test/testutil/things"
)

func TestProblems(t *testing.T) {
	t.Parallel()
	words, terms := things.Spec(things.Field("spec.tags", "words")), things.Spec(things.Field("spec.tags", "terms"))
	const between = `in machines.example.com, spec.tags has permission "words" by FieldPermissionMapping "m" and "terms" by FieldPermissionMapping "n"`
	elsewhere := things.Mapping("n", terms)
	elsewhere.Spec.Resources[0].Resource = "others"
	nowhere := things.Mapping("n", things.Spec(things.Field("spec.tags", "words")))
	nowhere.Spec.Resources = nil
	for _, tc := range []struct {
		name     string
		mappings []*policy.FieldPermissionMapping
		want     map[string]granular.Problem // a part of the reason
	}{
		{"none", []*policy.FieldPermissionMapping{things.Mapping("m", words)}, map[string]granular.Problem{"m": {}, "of nobody": {}}},
		{"the same twice", []*policy.FieldPermissionMapping{things.Mapping("m", words), things.Mapping("n", words)}, map[string]granular.Problem{"m": {}, "n": {}}},
		{"a contradiction", []*policy.FieldPermissionMapping{things.Mapping("m", words), things.Mapping("n", terms)}, map[string]granular.Problem{
			"m": {Reason: between}, "n": {Reason: `has permission "terms" by FieldPermissionMapping "n" and "words" by FieldPermissionMapping "m"`},
		}},
		{"one against two", []*policy.FieldPermissionMapping{things.Mapping("a", words), things.Mapping("m", words), things.Mapping("n", terms)}, map[string]granular.Problem{
			"a": {Reason: `"words" by FieldPermissionMapping "a" and "terms" by FieldPermissionMapping "n"`},
			"m": {Reason: between}, "n": {Reason: `"words" by FieldPermissionMapping "a"`},
		}},
		{"in another parameter", []*policy.FieldPermissionMapping{
			things.Mapping("m", things.Spec(things.Parameterized("spec.tags[*]", "word", policy.FieldPermissionParameter{}))),
			things.Mapping("n", things.Spec(things.Parameterized("spec.tags[*]", "word", policy.FieldPermissionParameter{Treatment: policy.ParameterTreatmentSlashDelimitedPrefix}))),
		}, map[string]granular.Problem{"m": {Reason: "in machines.example.com, spec.tags[*]"}, "n": {Reason: `"word" by FieldPermissionMapping "m", with different parameters`}}},
		{"of another resource", []*policy.FieldPermissionMapping{things.Mapping("m", words), elsewhere}, map[string]granular.Problem{"m": {}, "n": {}}},
		{"in another version", []*policy.FieldPermissionMapping{things.Mapping("m", words, "v1"), things.Mapping("n", terms, "v2")}, map[string]granular.Problem{"m": {}, "n": {}}},
		{"in one of the versions", []*policy.FieldPermissionMapping{things.Mapping("m", words, "v1", "v2"), things.Mapping("n", terms, "v2")}, map[string]granular.Problem{"m": {Reason: between}, "n": {Reason: "spec.tags"}}},
		{"in a version and in all", []*policy.FieldPermissionMapping{things.Mapping("m", words), things.Mapping("n", terms, "v2")}, map[string]granular.Problem{"m": {Reason: between}, "n": {Reason: "spec.tags"}}},
		{"not valid", []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(things.Field("spec..", "words"))), things.Mapping("n", terms)}, map[string]granular.Problem{
			"m": {Invalid: true, Reason: "spec.fields[0].path: Invalid value"}, "n": {},
		}},
		{"against what is built in", []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(things.Field("metadata.labels", "stickers")))}, map[string]granular.Problem{
			"m": {Invalid: true, Reason: "built-in permission"},
		}},
		{"without resources", []*policy.FieldPermissionMapping{nowhere}, map[string]granular.Problem{"n": {Invalid: true, Reason: "spec.resources: Required"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			problems := granular.NewTable(tc.mappings...).Problems()
			for name, want := range tc.want {
				got := problems(name)
				if got.Invalid != want.Invalid || !strings.Contains(got.Reason, want.Reason) || (got.Reason == "") != (want.Reason == "") {
					t.Errorf("%s: got %+v, want %+v", name, got, want)
				}
			}
		})
	}
}

// TestMappingWithoutResources excludes everything of everything: nobody can tell what it was
// to protect. Without an exclusion it is nothing.
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
		table := granular.NewTable(m)
		for _, resource := range []string{"machines", "others", "*"} {
			if got := table.Excludes(schema.GroupResource{Group: "example.com", Resource: resource}); got != tc.want {
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
		if (table.Digest() == granular.NewTable().Digest()) == tc.want {
			t.Errorf("%s: the digest is that of other mappings", name)
		}
	}
}

// TestStale loses the mappings: nothing is included, in process or after the wire, and what
// is excluded stays so.
func TestStale(t *testing.T) {
	t.Parallel()
	source := &granular.Source{}
	source.Store(granular.NewTable(things.Mapping("m", things.Spec(things.Excluded(`metadata.annotations["boom"]`, "selfDestruction", "")))))
	config := granular.Config{Authorizer: &grants{verbs: []string{"granular", "granular:metadata"}}, Types: things.Types(t), Table: source.Table, Stale: source.Stale}
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
