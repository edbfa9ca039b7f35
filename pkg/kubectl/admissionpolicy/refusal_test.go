/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package admissionpolicy_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/kubectl/admissionpolicy"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
)

// refusalsOf decides a request that must be refused by one policy.
func refusalsOf(t *testing.T, set *admissionpolicy.Set, request *strings.Replacer) []admissionpolicy.Failed {
	t.Helper()
	d, err := decide(t, set, requestOf(t, changed(create, request)))
	if err != nil || d.Admission == nil || len(d.Admission.Refusals) != 1 {
		t.Fatalf("got %+v, %v, want one refusal", d, err)
	}
	refusal := d.Admission.Refusals[0]
	if refusal.Policy != d.Policies()[0] || refusal.Message != d.Admission.Messages() {
		t.Errorf("got %+v, want the policy and the message of %+v", refusal, d.Admission)
	}
	return refusal.Failed
}

// TestFailed checks which validations are said to refuse a request.
func TestFailed(t *testing.T) {
	t.Parallel()
	const wrong = `object.data.a == "1"`
	variables := replace("  validations", "  variables: [{name: a, expression: object.data.a}, {name: b, expression: variables.a}, {name: c, expression: 'true'}]\n  validations", wrong, `variables.b == "1"`)
	for _, tc := range []struct {
		name   string
		policy *strings.Replacer
		want   []admissionpolicy.Failed
	}{
		{"one that is false", nil, []admissionpolicy.Failed{{Text: wrong, Result: "false", Condition: wrong}}},
		{"one that fails", replace("object.data.a", "object.data.b"), []admissionpolicy.Failed{{Text: `object.data.b == "1"`, Result: "error", Condition: `object.data.b == "1"`}}},
		{
			"some of several", replace("  validations: [", "  validations: [{expression: 'true'}, {expression: object.data.b == '1'}, "),
			[]admissionpolicy.Failed{{Text: "object.data.b == '1'", Result: "error", Condition: "object.data.b == '1'"}, {Text: wrong, Result: "false", Condition: wrong}},
		},
		{"blanks around it", replace("'"+wrong+"'", `"  false  "`), []admissionpolicy.Failed{{Text: "false", Result: "false", Condition: "false"}}},
		{"variables that it reads, and that they read", variables, []admissionpolicy.Failed{{
			Text: `variables.b == "1"`, Result: "false", Condition: `variables.b == "1"`,
			Variables: []admissionregistrationv1.Variable{{Name: "a", Expression: "object.data.a"}, {Name: "b", Expression: "variables.a"}},
		}}},
		{"a match condition that fails, and one validation", replace("  validations", "  matchConditions: [{name: m, expression: object.data.b == '1'}]\n  validations"), nil},
		{"a match condition that fails, and two validations", replace("  validations: [", "  matchConditions: [{name: m, expression: object.data.b == '1'}]\n  validations: [{expression: 'false'}, "), nil},
		{"an audit annotation that fails", replace("  validations", "  auditAnnotations: [{key: k, valueExpression: string(object.data.b)}]\n  validations", wrong, "true"), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, refusalsOf(t, mustLoad(t, changed(vap, tc.policy), ""), nil), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("other validations (-want +got):\n%s", diff)
			}
		})
	}
}

// TestConditionsOfRefusals binds parameters into conditions, and has a policy of Proviso decide by the condition, as the command explain does: it must
// have the result of the validation. Each validation is false for the value of the parameter alone.
func TestConditionsOfRefusals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		value      string // the field v of the parameter, in JSON
		validation string
		want       string
	}{
		{"a text", `"a"`, `params.v != "a"`, "false"},
		{"a text with all kinds of characters", `"\"'\\ \n\t\u0000ä😀"`, `params.v != "\"'\\ \n\t\u0000ä😀"`, "false"},
		{"an expression as a text", `"' || true || '"`, `params.v != "' || true || '"`, "false"},
		{"a number", `42`, `params.v != 42`, "false"},
		{"a large number", `9007199254740993`, `params.v != 9007199254740993`, "false"},
		{"a negative number", `-1`, `params.v != -1`, "false"},
		{"a fraction", `1.5`, `params.v != 1.5`, "false"},
		{"a large fraction", `-1.25e300`, `params.v != -1.25e300`, "false"},
		{"true", `true`, `!params.v`, "false"},
		{"false", `false`, `params.v == true`, "false"},
		{"null", `null`, `params.v != null`, "false"},
		{"an empty list", `[]`, `params.v != []`, "false"},
		{"a list of several types", `[1, "a", null, [2.5], {"k": true}]`, `params.v[0] != 1 || params.v[1] != "a" || params.v[2] != null || params.v[3][0] != 2.5 || !params.v[4].k`, "false"},
		{"an empty map", `{}`, `params.v != {}`, "false"},
		{"a map of several types", `{"a b/c": 1, "d": "x", "e": {"f": [null]}}`, `params.v["a b/c"] != 1 || params.v.d != "x" || params.v.e.f[0] != null`, "false"},
		{"the name of the parameter", `1`, `params.metadata.name != "q"`, "false"},
		{"a field that is missing", `1`, `params.w == 1`, "error"},
		{"the object beside it", `"2"`, `object.data.a != params.v`, "false"},
		{"a variable that reads it", `"x"`, `variables.direct != "x"`, "false"},
		{"a variable of a variable", `"x"`, `variables.indirect != "xx"`, "false"},
		{"a comment at the end", `1`, `params.v != 1 // and nothing else`, "false"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			policy := admissionregistrationv1.ValidatingAdmissionPolicySpec{
				ParamKind: &admissionregistrationv1.ParamKind{APIVersion: "x.example.com/v1", Kind: "Q"},
				MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{"*"}, Rule: admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}},
				}}}},
				Variables:   []admissionregistrationv1.Variable{{Name: "direct", Expression: "params.v // here, too"}, {Name: "indirect", Expression: "variables.direct + variables.direct"}},
				Validations: []admissionregistrationv1.Validation{{Expression: tc.validation}},
			}
			text, err := json.Marshal(policy)
			if err != nil {
				t.Fatal(err)
			}
			_, binding, _ := strings.Cut(vap, "---")
			set := mustLoad(t, `{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"}, "spec": `+string(text)+"}\n---"+
				changed(binding, replace("{policyName: p,", "{policyName: p, paramRef: {name: q, parameterNotFoundAction: Deny},")), `{"apiVersion": "x.example.com/v1", "kind": "Q", "metadata": {"name": "q"}, "v": `+tc.value+"}")
			failed := refusalsOf(t, set, nil)
			if len(failed) != 1 || failed[0].Text != tc.validation || failed[0].Result != tc.want || !failed[0].HasParameter {
				t.Fatalf("got %+v, want the validation with the result %s", failed, tc.want)
			}
			if got := resultOf(t, failed[0]); got != tc.want {
				t.Errorf("got %s, want %s by\n%+v", got, tc.want, failed[0])
			}
		})
	}
}

// resultOf returns the result of a condition about the request that creates a ConfigMap: true, false or error.
func resultOf(t *testing.T, f admissionpolicy.Failed) string {
	t.Helper()
	c, err := compilers()
	if err != nil {
		t.Fatal(err)
	}
	var variables []policyv1alpha1.Variable
	for _, v := range f.Variables {
		variables = append(variables, policyv1alpha1.Variable{Name: v.Name, Expression: v.Expression})
	}
	source, err := c.SourceOf(map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec{{Name: "deny"}: {
		Effect: policyv1alpha1.PolicyEffectDeny, Condition: "!(" + f.Condition + "\n)", Variables: variables,
		Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := c.Decide(t.Context(), source, requestOf(t, create))
	switch {
	case err != nil:
		t.Fatal(err)
	case d.Failed():
		return "error"
	case d.Outcome == answer.Yes:
		return "true"
	}
	return "false"
}

// TestNoParameter binds the parameter of a policy whose binding has no reference: it is null.
func TestNoParameter(t *testing.T) {
	t.Parallel()
	policy := replace("  failurePolicy", "  paramKind: {apiVersion: v1, kind: ConfigMap}\n  failurePolicy", `object.data.a == "1"`, "params != null")
	want := []admissionpolicy.Failed{{
		Text: "params != null", Result: "false", Condition: "[variables.__parameter__].all(params, params != null\n)", HasParameter: true,
		Variables: []admissionregistrationv1.Variable{{Name: "__parameter__", Expression: "dyn(null)"}},
	}}
	if diff := cmp.Diff(want, refusalsOf(t, mustLoad(t, changed(vap, policy), ""), nil)); diff != "" {
		t.Errorf("other validations (-want +got):\n%s", diff)
	}
}

// TestTraces checks which expressions were true or false, of a policy that matches and of one that does not.
func TestTraces(t *testing.T) {
	t.Parallel()
	condition, validation, second := "object.data.a != '3'", `object.data.a == "1"`, "size(object.data.a) == 1"
	set := mustLoad(t, changed(vap, replace("  validations: [", "  matchConditions: [{name: m, expression: \" "+condition+" \"}, {name: other, expression: 'true'}]\n  validations: [{expression: "+second+"}, ")), "")
	for _, tc := range []struct {
		name    string
		request *strings.Replacer
		want    admissionpolicy.Trace
	}{
		{"all of them are true", replace(`a: "2"`, `a: "1"`), admissionpolicy.Trace{IsMatched: true, Clauses: []admissionpolicy.Clause{{Text: condition, IsTrue: true}, {Text: "true", IsTrue: true}, {Text: second, IsTrue: true}, {Text: validation, IsTrue: true}}}},
		{"a validation is false", nil, admissionpolicy.Trace{IsMatched: true, Clauses: []admissionpolicy.Clause{{Text: condition, IsTrue: true}, {Text: "true", IsTrue: true}, {Text: second, IsTrue: true}, {Text: validation, IsFalse: true}}}},
		{"the condition is false", replace(`a: "2"`, `a: "3"`), admissionpolicy.Trace{Clauses: []admissionpolicy.Clause{{Text: condition, IsFalse: true}, {Text: "true"}, {Text: second}, {Text: validation}}}},
		{"the condition fails", replace(`, data: {a: "2"}`, ""), admissionpolicy.Trace{Clauses: []admissionpolicy.Clause{{Text: condition}, {Text: "true"}, {Text: second}, {Text: validation}}}},
		{"a request that no rule matches", replace("configmaps", "secrets", "kind: ConfigMap", "kind: Secret", `{a: "2"}`, "{}"), set.Traces()[0]},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.want.Policy = `ValidatingAdmissionPolicy "p"`
			d, err := decide(t, set, requestOf(t, changed(create, tc.request)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]admissionpolicy.Trace{tc.want}, d.Admission.Traces); diff != "" {
				t.Errorf("other traces (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWithNamespace adds the Namespace of a request if the set has it and the request does not, and changes no request.
func TestWithNamespace(t *testing.T) {
	t.Parallel()
	own := replace("{operation", "{namespaceObject: {apiVersion: v1, kind: Namespace, metadata: {name: team, labels: {own: x}}}, operation")
	for _, tc := range []struct {
		name    string
		objects string
		request *strings.Replacer
		want    string // a part of the Namespace
	}{
		{"a Namespace of the set", namespaceTeam, nil, `"labels":{"kubernetes.io/metadata.name":"team","tier":"test"}`},
		{"no Namespace", "", nil, ""},
		{"another Namespace", strings.Replace(namespaceTeam, "team", "other", 1), nil, ""},
		{"the Namespace of the request comes first", namespaceTeam, own, `"own":"x"`},
		{"a request in no namespace", namespaceTeam, replace(", namespace: team}", "}"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			set, r := mustLoad(t, vap, tc.objects), requestOf(t, changed(create, tc.request))
			before := requestOf(t, changed(create, tc.request))
			got, err := set.WithNamespace(r)
			if err != nil {
				t.Fatal(err)
			}
			namespace := ""
			if got.Data.NamespaceObject != nil {
				namespace = string(got.Data.NamespaceObject.Raw)
			}
			if !strings.Contains(namespace, tc.want) || (namespace == "") != (tc.want == "") {
				t.Errorf("got %q, want %q", namespace, tc.want)
			}
			if diff := cmp.Diff(before, r); diff != "" {
				t.Errorf("the request was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// TestOrderOfPolicies checks that policies decide in the order of their names, whatever the order of the files, and that the failure of one is
// not recorded for the next.
func TestOrderOfPolicies(t *testing.T) {
	t.Parallel()
	both := changed(vap, replace("name: p", "name: z", "Name: p", "Name: z", "name: b", "name: z", "a must be 1", "of z")) + "---" +
		changed(vap, replace("name: p", "name: a", "Name: p", "Name: a", "name: b", "name: a", "a must be 1", "of a", "[Deny]", "[Deny, Audit]"))
	for name, documents := range map[string][]document.Document{"z first": documentsOf(t, both), "a first": append(documentsOf(t, both)[2:], documentsOf(t, both)[:2]...)} {
		set, _, errs := admissionpolicy.Load(documents, nil)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		d, err := decide(t, set, requestOf(t, create))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"a", "z"}, d.Policies()); diff != "" || !strings.Contains(d.Reason, "of a; configmaps") || !strings.HasSuffix(d.Reason, "of z") || !slices.Equal(d.Admission.Audited, []string{"a"}) {
			t.Errorf("%s: got the reason %s, recorded %q, and other policies (-want +got):\n%s", name, d.Reason, d.Admission.Audited, diff)
		}
	}
}
