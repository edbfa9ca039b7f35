/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package admissionpolicy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/pkg/kubectl/admissionpolicy"
)

// TestMistakes reads policies, bindings and objects with one mistake each.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		policy  *strings.Replacer
		objects string
		want    string
		// further is the number of errors that follow from the first one.
		further int
	}{
		{name: "a binding of an unknown policy", policy: replace("policyName: p", "policyName: q"), want: `ValidatingAdmissionPolicyBinding "b": spec.policyName: Not found: "q"`},
		{name: "an expression that does not compile", policy: replace("object.data.a ==", "objekt.data.a =="), want: `ValidatingAdmissionPolicy "p": spec.validations[0].expression: Invalid value: "objekt.data.a == \"1\"": compilation failed: ERROR: <input>:1:1: undeclared reference to 'objekt'`},
		{name: "a validation that is no bool", policy: replace(`object.data.a == "1"`, `"1"`), want: "must evaluate to bool"},
		{name: "a match condition with a variable", policy: replace("  validations", "  variables: [{name: v, expression: 'true'}]\n  matchConditions: [{name: m, expression: variables.v}]\n  validations"), want: "spec.matchConditions[0].expression: Invalid value"},
		{name: "a message with the authorizer", policy: replace("message: a must be 1", "messageExpression: string(authorizer.path('/x').check('get').allowed())"), want: "spec.validations[0].messageExpression: Invalid value"},
		{name: "a parameter that is not declared", policy: replace("object.data.a", "params.data.a"), want: "undeclared reference to 'params'"},
		{name: "an unknown field", policy: replace("failurePolicy", "failurepolicy"), want: `unknown field "spec.failurepolicy"`, further: 1},
		{name: "an unknown failure policy", policy: replace("failurePolicy: Fail", "failurePolicy: Warn"), want: `spec.failurePolicy: Unsupported value: "Warn"`},
		{name: "an unknown operation", policy: replace("CREATE", "PATCH"), want: `operations[0]: Unsupported value: "PATCH"`},
		{name: "no rules", policy: replace("{resourceRules: [{operations: [CREATE, UPDATE, DELETE], apiGroups: [\"\"], apiVersions: [v1], resources: [configmaps]}]}", "{}"), want: "spec.matchConstraints.resourceRules: Required value"},
		{name: "two match conditions of one name", policy: replace("  validations", "  matchConditions: [{name: m, expression: 'true'}, {name: m, expression: 'true'}]\n  validations"), want: `spec.matchConditions[1].name: Duplicate value: "m"`},
		{name: "too many match conditions", policy: replace("  validations", "  matchConditions: ["+numbered(65, "{name: m%d, expression: 'true'}")+"]\n  validations"), want: "spec.matchConditions: Too many: 65: must have at most 64 items"},
		{name: "too many audit annotations", policy: replace("  validations", "  auditAnnotations: ["+numbered(21, "{key: k%d, valueExpression: \"'x'\"}")+"]\n  validations"), want: "spec.auditAnnotations: Too many: 21: must have at most 20 items"},
		{name: "a long audit annotation", policy: replace("  validations", "  auditAnnotations: [{key: k, valueExpression: \"'"+strings.Repeat("x", 5*1024)+"'\"}]\n  validations"), want: "spec.auditAnnotations[0].valueExpression: Too long"},
		{name: "a blank message", policy: replace("message: a must be 1", "message: '  '"), want: `spec.validations[0].message: Invalid value: "  ": must not be blank`},
		{name: "a reserved word as the name of a variable", policy: replace("  validations", "  variables: [{name: package, expression: 'true'}]\n  validations"), want: `spec.variables[0].name: Invalid value: "package"`},
		{name: "all resources and one", policy: replace("[configmaps]", `["*", configmaps]`), want: "resources: Invalid value"},
		{name: "all resources and subresources, and one", policy: replace("[configmaps]", `["*/*", configmaps]`), want: "resources: Invalid value"},
		{name: "all subresources and one", policy: replace("[configmaps]", "[pods/*, pods/exec]"), want: "resources[1]: Invalid value"},
		{name: "a subresource of all resources and of one", policy: replace("[configmaps]", `["*/status", pods/status]`), want: "resources[1]: Invalid value"},
		{name: "a name of an object twice", policy: replace("[configmaps]", "[configmaps], resourceNames: [a, a]"), want: `resourceNames[1]: Duplicate value: "a"`},
		{name: "a name that no object can have", policy: replace("[configmaps]", "[configmaps], resourceNames: [a/b]"), want: `resourceNames[0]: Invalid value: "a/b"`},
		{name: "a bad name of a policy", policy: replace("{name: p}", "{name: P_p}", "policyName: p", "policyName: P_p"), want: `ValidatingAdmissionPolicy "P_p": metadata.name: Invalid value: "P_p"`, further: 1},
		{name: "a bad label of a policy", policy: replace("{name: p}", "{name: p, labels: {'a b': c}}"), want: "metadata.labels: Invalid value"},
		{name: "a bad name of a binding", policy: replace("{name: b}", "{name: B_b}"), want: `ValidatingAdmissionPolicyBinding "B_b": metadata.name: Invalid value: "B_b"`},
		{name: "a bad name in a binding", policy: replace("{policyName: p", "{policyName: P_p"), want: `spec.policyName: Invalid value: "P_p"`, further: 1},
		{name: "a bad name of a parameter", policy: params("{apiVersion: v1, kind: ConfigMap}", "{name: a/b, parameterNotFoundAction: Deny}"), want: `spec.paramRef.name: Invalid value: "a/b"`},
		{name: "a bad kind of parameters", policy: params("{apiVersion: v1, kind: Config_Map}", "{name: q, parameterNotFoundAction: Deny}"), want: `spec.paramKind.kind: Invalid value: "Config_Map"`},
		{name: "a bad group of parameters", policy: params("{apiVersion: X_x/v1, kind: ConfigMap}", "{name: q, parameterNotFoundAction: Deny}"), want: "spec.paramKind.apiVersion: Invalid value"},
		{name: "no versions", policy: replace("apiVersions: [v1]", "apiVersions: []"), want: "apiVersions: Required value"},
		{name: "no validations", policy: replace(`[{expression: 'object.data.a == "1"', message: a must be 1}]`, "[]"), want: "spec.validations: Required value"},
		{name: "no actions", policy: replace("[Deny]", "[]"), want: "spec.validationActions: Required value"},
		{name: "actions that exclude each other", policy: replace("[Deny]", "[Deny, Warn]"), want: "must not contain both Deny and Warn"},
		{name: "an unknown action", policy: replace("[Deny]", "[Refuse]"), want: `spec.validationActions[0]: Unsupported value: "Refuse"`},
		{name: "a reference to no parameter", policy: params("{apiVersion: v1, kind: ConfigMap}", "{parameterNotFoundAction: Deny}"), want: "exactly one of name and selector is required"},
		{name: "a reference without an action", policy: params("{apiVersion: v1, kind: ConfigMap}", "{name: q}"), want: "spec.paramRef.parameterNotFoundAction: Required value"},
		{name: "a selector that is not valid", policy: replace("{resourceRules", "{objectSelector: {matchExpressions: [{key: a, operator: Is}]}, resourceRules"), want: "objectSelector.matchExpressions[0].operator"},
		{name: "two policies of one name", policy: replace("apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: b}\nspec: {policyName: p, validationActions: [Deny]}\n", strings.Split(vap, "---")[0]), want: `ValidatingAdmissionPolicy "p": the same object is in`},
		{name: "another version of the API", policy: replace("admissionregistration.k8s.io/v1", "admissionregistration.k8s.io/v1beta1"), want: `apiVersion "admissionregistration.k8s.io/v1beta1" is not read`, further: 1},
		{name: "a webhook", policy: replace("kind: ValidatingAdmissionPolicyBinding", "kind: ValidatingWebhookConfiguration"), want: `kind "ValidatingWebhookConfiguration" of apiVersion "admissionregistration.k8s.io/v1" is not read`},
		{name: "a parameter of another kind", policy: params("{apiVersion: v1, kind: ConfigMap}", "{name: q, parameterNotFoundAction: Deny}"), objects: "{apiVersion: v1, kind: Secret, metadata: {name: q, namespace: team}}", want: `kind "Secret" of apiVersion "v1" is the paramKind of no policy`},
		{name: "a parameter without a namespace", policy: params("{apiVersion: v1, kind: ConfigMap}", "{name: q, parameterNotFoundAction: Deny}"), objects: "{apiVersion: v1, kind: ConfigMap, metadata: {name: q}}", want: "metadata.namespace: Required value: the kind is namespaced"},
		{name: "a parameter with a mistake", policy: params("{apiVersion: v1, kind: ConfigMap}", "{name: q, parameterNotFoundAction: Deny}"), objects: "{apiVersion: v1, kind: ConfigMap, metadata: {name: q, namespace: team}, date: {}}", want: `unknown field "date"`},
		{name: "two audit annotations of one key", policy: replace("  validations", "  auditAnnotations: [{key: k, valueExpression: 'null'}, {key: k, valueExpression: 'null'}]\n  validations"), want: `spec.auditAnnotations[1].key: Duplicate value: "k"`},
		{name: "a bad key of an audit annotation", policy: replace("  validations", "  auditAnnotations: [{key: 'a b', valueExpression: 'null'}]\n  validations"), want: `spec.auditAnnotations[0].key: Invalid value: "a b"`},
		{name: "a message with two lines", policy: replace("message: a must be 1", `message: "a\nb"`), want: "spec.validations[0].message: Invalid value: \"a\\nb\": must not contain line breaks"},
		{name: "an unknown reason", policy: replace("message: a must be 1", "reason: Teapot"), want: `spec.validations[0].reason: Unsupported value: "Teapot"`},
		{name: "a blank expression", policy: replace(`object.data.a == "1"`, "  "), want: "spec.validations[0].expression: Required value"},
		{name: "a blank expression of a message", policy: replace("message: a must be 1", "messageExpression: '  '"), want: "spec.validations[0].messageExpression: Required value"},
		{name: "a name of a variable that is none", policy: replace("  validations", "  variables: [{name: 1v, expression: 'true'}]\n  validations"), want: `spec.variables[0].name: Invalid value: "1v"`},
		{name: "a variable that reads a later one", policy: replace("  validations", "  variables: [{name: a, expression: variables.b}, {name: b, expression: 'true'}]\n  validations"), want: "spec.variables[0].expression: Invalid value"},
		{name: "parameters without a kind", policy: params("{apiVersion: v1}", "{name: q, parameterNotFoundAction: Deny}"), want: "spec.paramKind.kind: Required value"},
		{name: "parameters without a version", policy: params("{kind: ConfigMap}", "{name: q, parameterNotFoundAction: Deny}"), want: `spec.paramKind.apiVersion: Invalid value: "": must be VERSION or GROUP/VERSION`},
		{name: "a version of parameters with three parts", policy: params("{apiVersion: a/b/c, kind: ConfigMap}", "{name: q, parameterNotFoundAction: Deny}"), want: `spec.paramKind.apiVersion: Invalid value: "a/b/c": must be VERSION or GROUP/VERSION`},
		{name: "a bad version of parameters", policy: params("{apiVersion: apps/V1, kind: ConfigMap}", "{name: q, parameterNotFoundAction: Deny}"), want: `spec.paramKind.apiVersion: Invalid value: "apps/V1"`},
		{name: "a binding without a policy", policy: replace("{policyName: p, ", "{"), want: "spec.policyName: Required value", further: 1},
		{name: "an action twice", policy: replace("[Deny]", "[Deny, Audit, Deny]"), want: `spec.validationActions[2]: Duplicate value: "Deny"`},
		{name: "a reference by name and by selector", policy: params("{apiVersion: v1, kind: ConfigMap}", "{name: q, selector: {}, parameterNotFoundAction: Deny}"), want: "exactly one of name and selector is required"},
		{name: "an unknown action for missing parameters", policy: params("{apiVersion: v1, kind: ConfigMap}", "{name: q, parameterNotFoundAction: Warn}"), want: `spec.paramRef.parameterNotFoundAction: Unsupported value: "Warn"`},
		{name: "a selector of parameters that is not valid", policy: params("{apiVersion: v1, kind: ConfigMap}", "{selector: {matchExpressions: [{key: a, operator: Is}]}, parameterNotFoundAction: Deny}"), want: "spec.paramRef.selector.matchExpressions[0].operator"},
		{name: "an unknown match policy", policy: replace("{resourceRules", "{matchPolicy: Similar, resourceRules"), want: `spec.matchConstraints.matchPolicy: Unsupported value: "Similar"`},
		{name: "an unknown scope of a binding", policy: replace("{policyName: p,", `{policyName: p, matchResources: {resourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], scope: World}]},`), want: `spec.matchResources.resourceRules[0].scope: Unsupported value: "World"`},
		{name: "all groups and one", policy: replace(`apiGroups: [""]`, `apiGroups: ["", "*"]`), want: "apiGroups: Invalid value"},
		{name: "an empty version", policy: replace("apiVersions: [v1]", `apiVersions: [""]`), want: "apiVersions: Required value: a value is empty"},
		{name: "an excluded rule without resources", policy: replace("{resourceRules", `{excludeResourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"]}], resourceRules`), want: "spec.matchConstraints.excludeResourceRules[0].resources: Required value"},
		{name: "two bindings of one name", policy: replace("spec: {policyName: p, validationActions: [Deny]}\n", "spec: {policyName: p, validationActions: [Deny]}\n---"+strings.Split(vap, "---")[1]), want: `ValidatingAdmissionPolicyBinding "b": the same object is in standard input, document 2, too`},
		{name: "a policy without a name", policy: replace("{name: p}", "{}"), want: `ValidatingAdmissionPolicy "": metadata.name: Required value`, further: 1},
		{name: "a binding without a name", policy: replace("{name: b}", "{}"), want: `ValidatingAdmissionPolicyBinding "": metadata.name: Required value`},
		{name: "a document without a kind", policy: replace("kind: ValidatingAdmissionPolicyBinding\n", ""), want: "document 2: is not an object with apiVersion and kind"},
		{name: "a document without an apiVersion", objects: "{kind: Namespace, metadata: {name: m}}", want: "document 1: is not an object with apiVersion and kind"},
		{name: "a document with another type of kind", objects: "{apiVersion: v1, kind: [Namespace], metadata: {name: m}}", want: "document 1: "},
		{name: "a list with something else", objects: "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Namespace, metadata: {name: m}}, 3]}", want: "document 1, item 2: is not an object with apiVersion and kind"},
		{name: "a list whose items are no list", objects: "{apiVersion: v1, kind: List, items: {}}", want: "document 1: "},
		{name: "an object without a name", objects: "{apiVersion: v1, kind: Namespace, metadata: {}}", want: `Namespace of v1 "": metadata.name: Required value`},
		{name: "a kind without metadata", objects: "{apiVersion: v1, kind: Status}", want: "Status: object does not implement the Object interfaces"},
		{name: "a Namespace twice", objects: namespaceTeam + "---\n" + namespaceTeam, want: `document 2: Namespace of v1 "team": the same object is in standard input, document 1, too`},
		{name: "a Namespace with a mistake", objects: "{apiVersion: v1, kind: Namespace, metadata: {name: m}, spek: {}}", want: `unknown field "spek"`},
		{
			name: "a parameter in no namespace, beside one in a namespace", policy: params("{apiVersion: x.example.com/v1, kind: Q}", "{name: q, parameterNotFoundAction: Deny}"),
			objects: "{apiVersion: x.example.com/v1, kind: Q, metadata: {name: q, namespace: team}}\n---\n{apiVersion: x.example.com/v1, kind: Q, metadata: {name: r}}", want: `document 2: Q "r": metadata.namespace: Required value`,
		},
		{
			name: "a parameter in no namespace, with a reference to one", policy: params("{apiVersion: x.example.com/v1, kind: Q}", "{name: q, namespace: team, parameterNotFoundAction: Deny}"),
			objects: "{apiVersion: x.example.com/v1, kind: Q, metadata: {name: q}}", want: `document 1: Q "q": metadata.namespace: Required value`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, _, errs := admissionpolicy.Load(documentsOf(t, changed(vap, tc.policy)), documentsOf(t, tc.objects))
			if len(errs) != 1+tc.further || !strings.HasPrefix(errs[0].Error(), "standard input, document ") || !strings.Contains(errs[0].Error(), tc.want) {
				t.Errorf("got %q, want %s", errs, tc.want)
			}
		})
	}
}

// TestOrderOfMistakes checks that a rule with several mistakes has its errors in one order, so that the output of commands stays.
func TestOrderOfMistakes(t *testing.T) {
	t.Parallel()
	text := changed(vap, replace(`{operations: [CREATE, UPDATE, DELETE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}`, "{}"))
	want := []string{"operations", "apiGroups", "apiVersions", "resources"}
	for range 20 {
		_, _, errs := admissionpolicy.Load(documentsOf(t, text), nil)
		var got []string
		for _, err := range errs {
			_, at, _ := strings.Cut(err.Error(), "resourceRules[0].")
			got = append(got, strings.TrimSuffix(at, ": Required value"))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("another order (-want +got):\n%s", diff)
		}
	}
}

// TestLists reads policies and objects in lists, and returns documents of other groups, in their order.
func TestLists(t *testing.T) {
	t.Parallel()
	policies := `
apiVersion: v1
kind: List
items:
- {apiVersion: policy.proviso.dev/v1alpha1, kind: AuthorizationPolicy, metadata: {name: other}}
- {apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: b}, spec: {policyName: p, validationActions: [Deny]}}
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingAdmissionPolicy
  metadata: {name: p}
  spec:
    matchConstraints: {namespaceSelector: {matchLabels: {tier: test}}, resourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}
    validations: [{expression: "false"}]
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}
`
	set, others, errs := admissionpolicy.Load(documentsOf(t, policies), documentsOf(t, "{apiVersion: v1, kind: List, items: ["+strings.TrimSpace(namespaceTeam)+"]}"))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var got []string
	for _, other := range others {
		got = append(got, other.Source.String())
	}
	if diff := cmp.Diff([]string{"standard input, document 1, item 1", "standard input, document 2"}, got); diff != "" {
		t.Errorf("other documents (-want +got):\n%s", diff)
	}
	d, err := decide(t, set, requestOf(t, create))
	if err != nil {
		t.Fatal(err)
	}
	denied.compare(t, d)
}

// TestWarnings reads policies that are valid, and decide nothing.
func TestWarnings(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		policies string
		isEmpty  bool
		want     []string
	}{
		{"a policy with a binding", vap, false, nil},
		{"a policy without a binding", strings.Split(vap, "---")[0], false, []string{`standard input, document 1: ValidatingAdmissionPolicy "p": no binding names the policy, so that it decides nothing`}},
		{
			"a reference without a kind of parameters", changed(vap, replace("{policyName: p,", "{policyName: p, paramRef: {name: q, parameterNotFoundAction: Deny},")), false,
			[]string{`standard input, document 2: ValidatingAdmissionPolicyBinding "b": paramRef is ignored, because the policy has no paramKind`},
		},
		{"nothing", "", true, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			set := mustLoad(t, tc.policies, "")
			if diff := cmp.Diff(tc.want, set.Warnings); diff != "" {
				t.Errorf("other warnings (-want +got):\n%s", diff)
			}
			if set.IsEmpty() != tc.isEmpty {
				t.Errorf("empty: got %v, want %v", set.IsEmpty(), tc.isEmpty)
			}
		})
	}
}
