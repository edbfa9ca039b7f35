/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package admissionpolicy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/proviso-authz/proviso/pkg/kubectl/admissionpolicy"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
)

// result is the expected result of the policy p.
type result struct {
	denies bool
	// message is a part of the message of a denial.
	message           string
	warnings, audited []string
	annotations       map[string]string
}

var denied = result{denies: true}

// compare compares a decision with the result.
func (want result) compare(t *testing.T, got *admissionpolicy.Decisions) {
	t.Helper()
	outcome, denying := answer.Yes, []string(nil)
	if want.denies {
		outcome, denying = answer.No, []string{"p"}
	}
	if got.Admission == nil {
		t.Fatalf("got %+v, want a request that reaches admission", got)
	}
	if got.Outcome != outcome || !strings.Contains(got.Reason, want.message) {
		t.Errorf("got %s: %q, want %s: %q", got.Outcome, got.Reason, outcome, want.message)
	}
	if diff := cmp.Diff(denying, got.Policies()); diff != "" {
		t.Errorf("other policies deny (-want +got):\n%s", diff)
	}
	wantResult := &admissionpolicy.Result{Warnings: want.warnings, Audited: want.audited, AuditAnnotations: want.annotations}
	if diff := cmp.Diff(wantResult, got.Admission, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(admissionpolicy.Result{}, "Refusals", "Traces")); diff != "" {
		t.Errorf("another result (-want +got):\n%s", diff)
	}
}

// TestAdmit tries each part of policies and bindings.
func TestAdmit(t *testing.T) {
	t.Parallel()
	const configMap = "{apiVersion: v1, kind: ConfigMap}"
	for _, tc := range []struct {
		name    string
		policy  *strings.Replacer
		request *strings.Replacer
		objects string
		want    result
	}{
		{name: "a validation that is false", want: result{denies: true, message: "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: a must be 1"}},
		{name: "a validation that is true", request: replace(`a: "2"`, `a: "1"`)},
		{name: "another operation", policy: replace("CREATE, ", "")},
		{name: "another scope", policy: replace("resources: [configmaps]", "resources: [configmaps], scope: Cluster")},
		{name: "another name", policy: replace("resources: [configmaps]", "resources: [configmaps], resourceNames: [d]")},
		{name: "the name of the object", policy: replace("resources: [configmaps]", "resources: [configmaps], resourceNames: [c]"), want: denied},
		{name: "an excluded rule", policy: replace("{resourceRules", `{excludeResourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: [configmaps]}], resourceRules`)},
		{name: "an object selector", policy: replace("{resourceRules", "{objectSelector: {matchLabels: {l: other}}, resourceRules")},
		{name: "an object selector of a binding", policy: replace("{policyName: p,", "{policyName: p, matchResources: {objectSelector: {matchLabels: {l: other}}},")},
		{name: "a namespace selector", policy: replace("{resourceRules", "{namespaceSelector: {matchLabels: {tier: prod}}, resourceRules"), objects: namespaceTeam},
		{name: "a namespace selector that selects", policy: replace("{resourceRules", "{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: team}}, resourceRules"), objects: namespaceTeam, want: denied},
		{
			name: "the Namespace of the data comes first", policy: replace("{resourceRules", "{namespaceSelector: {matchLabels: {tier: prod}}, resourceRules"),
			request: replace("{operation: CREATE", "{namespaceObject: {apiVersion: v1, kind: Namespace, metadata: {name: team, labels: {tier: prod}}}, operation: CREATE"), objects: namespaceTeam, want: denied,
		},
		{name: "an expression about the Namespace", policy: replace(`object.data.a == "1"`, `namespaceObject.metadata.labels.tier == "test"`), objects: namespaceTeam},
		{name: "an expression that fails", policy: replace("object.data.a", "object.data.b"), want: result{denies: true, message: "no such key: b"}},
		{name: "an expression that fails, and is ignored", policy: replace("object.data.a", "object.data.b", "failurePolicy: Fail", "failurePolicy: Ignore")},
		{name: "failurePolicy has the default Fail", policy: replace("object.data.a", "object.data.b", "  failurePolicy: Fail\n", ""), want: denied},
		{name: "a match condition that fails", policy: replace("  validations", "  matchConditions: [{name: m, expression: object.data.b == '1'}]\n  validations"), want: denied},
		{name: "a match condition that fails, of a policy without validations", policy: replace(`[{expression: 'object.data.a == "1"', message: a must be 1}]`, "[]\n  auditAnnotations: [{key: k, valueExpression: string(object.data.a)}]\n  matchConditions: [{name: m, expression: object.data.b == '1'}]"), want: denied},
		{name: "a match condition that is false", policy: replace("  validations", "  matchConditions: [{name: m, expression: object.data.a == '1'}]\n  validations")},
		{name: "no binding of this policy denies", policy: replace("[Deny]", "[Warn]"), want: result{warnings: []string{"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': a must be 1"}}},
		{
			name: "bindings in the order of their names", policy: replace("[Deny]}\n", "[Warn]}\n---\n{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: a}, spec: {policyName: p, validationActions: [Warn]}}\n"),
			want: result{warnings: []string{"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'a': a must be 1", "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': a must be 1"}},
		},
		{name: "a failure that is recorded", policy: replace("[Deny]", "[Audit]"), want: result{audited: []string{"p"}}},
		{name: "a failure that denies and is recorded", policy: replace("[Deny]", "[Deny, Audit]"), want: result{denies: true, audited: []string{"p"}}},
		{name: "an audit annotation that fails denies", policy: replace("  validations", "  auditAnnotations: [{key: k, valueExpression: string(object.data.b)}]\n  validations"), request: replace(`a: "2"`, `a: "1"`), want: denied},
		{name: "an audit annotation", policy: replace("  validations", "  auditAnnotations: [{key: k, valueExpression: string(object.data.a)}]\n  validations"), request: replace(`a: "2"`, `a: "1"`), want: result{annotations: map[string]string{"p/k": "1"}}},
		{name: "the variables of the request", policy: replace(`object.data.a == "1"`, `request.userInfo.username == "alice" && "system:authenticated" in request.userInfo.groups && request.operation == "CREATE" && request.namespace == "team" && request.name == "c" && request.dryRun && oldObject == null`), request: replace("{operation", "{dryRun: true, operation")},
		{name: "a check that RBAC allows", policy: replace(`object.data.a == "1"`, `authorizer.group("x").resource("y").check("z").allowed()`)},
		{name: "a check that RBAC does not allow", policy: replace(`object.data.a == "1"`, `authorizer.group("x").resource("y").check("z").allowed()`), request: replace("{verbs: ['*'], apiGroups: ['*'], resources: ['*']}", "{verbs: [create], apiGroups: [''], resources: [configmaps]}"), want: denied},
		{name: "a check of a service account without permissions", policy: replace(`object.data.a == "1"`, `authorizer.serviceAccount("team", "s").group("x").resource("y").check("z").allowed()`), want: denied},
		{name: "the old object", policy: replace("object.data.a", "oldObject.data.a"), request: replace("verb: create", "name: c, verb: delete", "operation: CREATE, object", "operation: DELETE, oldObject"), want: denied},
		{name: "64 match conditions and 20 audit annotations", policy: replace("  validations", "  matchConditions: ["+numbered(64, "{name: m%d, expression: 'true'}")+"]\n  auditAnnotations: ["+numbered(20, "{key: k%d, valueExpression: 'null'}")+"]\n  validations"), want: denied},
		{name: "one resource and all, which kube-apiserver accepts in this order", policy: replace("[configmaps]", `[configmaps, "*"]`), want: denied},
		{name: "all resources and a subresource", policy: replace("[configmaps]", `["*", pods/exec]`), want: denied},
		{name: "a policy with a namespace, which kube-apiserver takes away", policy: replace("{name: p}", "{name: p, namespace: team}"), want: denied},
		{
			name: "an object has the namespace of the request", policy: replace(`object.data.a == "1"`, `object.metadata.namespace == "team"`),
		},
		{
			name: "the stored object has the namespace of the request", policy: replace(`object.data.a == "1"`, `oldObject.metadata.namespace == "team"`),
			request: replace("verb: create", "name: c, verb: delete", "operation: CREATE, object", "operation: DELETE, oldObject"),
		},
		{
			name: "a custom resource has the namespace of the request", policy: replace(`[""]`, "[x.example.com]", "[configmaps]", "[qs]", `object.data.a == "1"`, `object.metadata.namespace == "team"`),
			request: replace("version: v1, resource: configmaps", "group: x.example.com, version: v1, resource: qs", "apiVersion: v1, kind: ConfigMap", "apiVersion: x.example.com/v1, kind: Q"),
		},
		{
			name: "a cluster-scoped object has no namespace", policy: replace("configmaps", "nodes", `object.data.a == "1"`, `!has(object.metadata.namespace)`),
			request: replace("resource: configmaps, namespace: team", "resource: nodes", "kind: ConfigMap", "kind: Node", "{name: c,", "{name: c, namespace: team,", ", data: {a: \"2\"}", ""),
		},
		{
			name: "a Namespace is in itself, and its object is not", policy: replace("configmaps", "namespaces", `object.data.a == "1"`, `request.namespace == "c" && !has(object.metadata.namespace)`),
			request: replace("verb: create, version: v1, resource: configmaps, namespace: team", "verb: update, version: v1, resource: namespaces, namespace: c, name: c", "operation: CREATE, object", "operation: UPDATE, oldObject: {apiVersion: v1, kind: Namespace, metadata: {name: c}}, object", "kind: ConfigMap", "kind: Namespace", ", data: {a: \"2\"}", ""),
		},
		{
			name: "the status of a Namespace is in the Namespace", policy: replace("configmaps", "namespaces/status", `object.data.a == "1"`, `request.namespace == "c"`),
			request: replace("verb: create, version: v1, resource: configmaps, namespace: team", "verb: update, version: v1, resource: namespaces, subresource: status, name: c", "operation: CREATE, object", "operation: UPDATE, oldObject: {apiVersion: v1, kind: Namespace, metadata: {name: c}}, object", "kind: ConfigMap", "kind: Namespace", ", data: {a: \"2\"}", ""),
		},
		{
			name: "the label with the name of a Namespace cannot be another", policy: replace("{resourceRules", "{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: team}}, resourceRules"),
			objects: "{apiVersion: v1, kind: Namespace, metadata: {name: team, labels: {kubernetes.io/metadata.name: other}}}", want: denied,
		},
		{
			name: "a connection with the verb get", policy: replace("CREATE", "CREATE, CONNECT", "configmaps", "pods/exec", "object.data.a", "object.kind"),
			request: replace("verb: create, version: v1, resource: configmaps", "verb: get, version: v1, resource: pods, subresource: exec, name: c", "operation: CREATE", "operation: CONNECT", "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {l: x}}, data: {a: \"2\"}}", "{apiVersion: v1, kind: PodExecOptions}"), want: denied,
		},
		{name: "a patch that creates", request: replace("verb: create", "name: c, verb: patch"), want: denied},
		{
			name: "an object of a collection has no name in the request", policy: replace(`object.data.a == "1"`, `!has(request.name) || request.name == ""`),
			request: replace("verb: create", "verb: deletecollection", "operation: CREATE, object", "operation: DELETE, oldObject"),
		},
		{
			name: "a rule with names matches no object of a collection", policy: replace("resources: [configmaps]", "resources: [configmaps], resourceNames: [c]", "object.data.a", "oldObject.data.a"),
			request: replace("verb: create", "verb: deletecollection", "operation: CREATE, object", "operation: DELETE, oldObject"),
		},
		{name: "another version than the rule, with matchPolicy Exact", policy: replace("apiVersions: [v1]", "apiVersions: [v2]", "{resourceRules", "{matchPolicy: Exact, resourceRules")},
		{name: "all versions", policy: replace("apiVersions: [v1]", `apiVersions: ["*"]`), want: denied},
		{name: "a resource that no admission policy of the API decides about", policy: replace(`[""]`, `["*"]`, "[configmaps]", `["*"]`, "object.data.a", "object.metadata.name"), request: replace("{verb: create, version: v1, resource: configmaps, namespace: team}", "{verb: create, group: authentication.k8s.io, version: v1, resource: tokenreviews}", "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {l: x}}, data: {a: \"2\"}}", "{apiVersion: authentication.k8s.io/v1, kind: TokenReview}")},

		{name: "the options of the request", policy: replace(`object.data.a == "1"`, `request.options.fieldManager == "kubectl"`), request: replace("{operation", "{options: {apiVersion: meta.k8s.io/v1, kind: CreateOptions, fieldManager: kubectl}, operation")},
		{
			name:    "a new Namespace has its label, and is in itself",
			policy:  replace("configmaps", "namespaces", "{resourceRules", "{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: c}}, resourceRules", `object.data.a == "1"`, `request.namespace != "c" || namespaceObject != null`),
			request: replace("resource: configmaps, namespace: team", "resource: namespaces", "kind: ConfigMap", "kind: Namespace", ", data: {a: \"2\"}", ""), want: denied,
		},
		{
			name: "a Namespace that is deleted", policy: replace("configmaps", "namespaces", "{resourceRules", "{namespaceSelector: {matchLabels: {l: x}}, resourceRules", `object.data.a == "1"`, "false"),
			request: replace("verb: create, version: v1, resource: configmaps, namespace: team", "verb: delete, version: v1, resource: namespaces, name: c", "operation: CREATE, object", "operation: DELETE, oldObject", "kind: ConfigMap", "kind: Namespace", ", data: {a: \"2\"}", ""), want: denied,
		},

		{name: "a parameter", policy: params(configMap, "{name: q, namespace: team, parameterNotFoundAction: Deny}"), objects: "{apiVersion: v1, kind: ConfigMap, metadata: {name: q, namespace: team}, data: {a: '2'}}"},
		{name: "a parameter that differs", policy: params(configMap, "{name: q, namespace: team, parameterNotFoundAction: Deny}"), objects: "{apiVersion: v1, kind: ConfigMap, metadata: {name: q, namespace: team}, data: {a: '3'}}", want: denied},
		{name: "a parameter in the namespace of the request", policy: params(configMap, "{name: q, parameterNotFoundAction: Deny}"), objects: "{apiVersion: v1, kind: ConfigMap, metadata: {name: q, namespace: team}, data: {a: '2'}}"},
		{name: "a parameter in another namespace", policy: params(configMap, "{name: q, parameterNotFoundAction: Deny}"), objects: "{apiVersion: v1, kind: ConfigMap, metadata: {name: q, namespace: m}, data: {a: '2'}}", want: result{denies: true, message: "no params found"}},
		{name: "a parameter that may be missing", policy: params(configMap, "{name: q, parameterNotFoundAction: Allow}")},
		{name: "no reference", policy: replace("  failurePolicy", "  paramKind: {apiVersion: v1, kind: ConfigMap}\n  failurePolicy", `object.data.a == "1"`, "params != null"), want: denied},
		{
			name: "all selected parameters must hold", policy: params(configMap, "{selector: {matchLabels: {q: x}}, parameterNotFoundAction: Deny}"),
			objects: "{apiVersion: v1, kind: ConfigMap, metadata: {name: q1, namespace: team, labels: {q: x}}, data: {a: '2'}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: q2, namespace: team, labels: {q: x}}, data: {a: '3'}}", want: denied,
		},
		{
			name: "a parameter that is not selected", policy: params(configMap, "{selector: {matchLabels: {q: x}}, parameterNotFoundAction: Deny}"),
			objects: "{apiVersion: v1, kind: ConfigMap, metadata: {name: q1, namespace: team, labels: {q: x}}, data: {a: '2'}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: q2, namespace: team, labels: {q: other}}, data: {a: '3'}}",
		},
		{
			name: "a selected parameter is in the namespace of the request", policy: params(configMap, "{selector: {matchLabels: {q: x}}, parameterNotFoundAction: Deny}"),
			objects: "{apiVersion: v1, kind: ConfigMap, metadata: {name: q, namespace: m, labels: {q: x}}, data: {a: '2'}}", want: result{denies: true, message: "no params found"},
		},
		{
			name: "a kind of the core group without namespaces", policy: replace("  failurePolicy", "  paramKind: {apiVersion: v1, kind: Node}\n  failurePolicy", `object.data.a == "1"`, `params.metadata.name == "q"`, "{policyName: p,", "{policyName: p, paramRef: {name: q, parameterNotFoundAction: Deny},"),
			objects: "{apiVersion: v1, kind: Node, metadata: {name: q}}",
		},
		{name: "a custom resource without a namespace", policy: params("{apiVersion: x.example.com/v1, kind: Q}", "{name: q, parameterNotFoundAction: Deny}"), objects: "{apiVersion: x.example.com/v1, kind: Q, metadata: {name: q}, data: {a: '2'}}"},
		{name: "a custom resource in a namespace", policy: params("{apiVersion: x.example.com/v1, kind: Q}", "{name: q, parameterNotFoundAction: Deny}"), objects: "{apiVersion: x.example.com/v1, kind: Q, metadata: {name: q, namespace: team}, data: {a: '2'}}"},
		{name: "the kind of a parameter", policy: replace("  failurePolicy", "  paramKind: {apiVersion: v1, kind: ConfigMap}\n  failurePolicy", `object.data.a == "1"`, `params.kind == "ConfigMap" && params.apiVersion == "v1"`, "{policyName: p,", "{policyName: p, paramRef: {name: q, parameterNotFoundAction: Deny},"), objects: "{apiVersion: v1, kind: ConfigMap, metadata: {name: q, namespace: team}}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			set, r := mustLoad(t, changed(vap, tc.policy), tc.objects), requestOf(t, changed(create, tc.request))
			if err := set.Validate(r); err != nil {
				t.Fatal(err)
			}
			got, err := decide(t, set, r)
			if err != nil {
				t.Fatal(err)
			}
			tc.want.compare(t, got)
		})
	}
}
