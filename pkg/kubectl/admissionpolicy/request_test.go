/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package admissionpolicy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
)

// TestBadRequests checks that a request about which kube-apiserver would not ask admission policies is an error, and is not decided.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		request *strings.Replacer
		want    string
	}{
		{name: "an object of another namespace", request: replace("{name: c,", "{name: c, namespace: other,"), want: "data.object: the namespace of the provided object does not match the namespace sent on the request"},
		{
			name: "a stored object of another namespace", request: replace("verb: create", "name: c, verb: delete", "operation: CREATE, object", "operation: DELETE, oldObject", "{name: c,", "{name: c, namespace: other,"),
			want: "data.oldObject: the namespace of the provided object does not match the namespace sent on the request",
		},
		{name: "a Namespace in another one", request: replace("resource: configmaps", "resource: namespaces", "kind: ConfigMap", "kind: Namespace", ", data: {a: \"2\"}", ""), want: `request.resourceAttributes.namespace: a Namespace is in itself: must be "c" or empty`},
		{name: "a name beside a collection", request: replace("verb: create", "name: c, verb: deletecollection", "operation: CREATE, object", "operation: DELETE, oldObject"), want: "deletecollection is about a collection: request.resourceAttributes.name and data.name must be empty"},
		{name: "no version", request: replace("version: v1, ", ""), want: "request.resourceAttributes.version: Required value"},
		{name: "no object", request: replace("{operation: CREATE, object", "{operation: CREATE, options"), want: "data.object: Required value"},
		{name: "no old object", request: replace("{operation: CREATE", "{operation: DELETE", "verb: create", "verb: delete"), want: "data.oldObject: Required value"},
		{name: "an object of another group", request: replace("apiVersion: v1, kind: ConfigMap", "apiVersion: apps/v1, kind: Deployment", ", data: {a: \"2\"}", ""), want: "data: the objects are of apps/v1, and the request is for v1"},
		{name: "an object with an unknown field", request: replace("data: {a:", "date: {a:"), want: `data.object: strict decoding error: unknown field "date"`},
		{name: "the Namespace of another request", request: replace("{operation", "{namespaceObject: {apiVersion: v1, kind: Namespace, metadata: {name: m}}, operation"), want: `data.namespaceObject: must be the Namespace "team" of v1`},
		{name: "all versions", request: replace("version: v1, ", "version: '*', "), want: "request.resourceAttributes.version: Required value"},
		{name: "no object of an update", request: replace("verb: create", "name: c, verb: update", "{operation: CREATE, object", "{operation: UPDATE, oldObject"), want: "data.object: Required value"},
		{name: "no stored object of an update", request: replace("verb: create", "name: c, verb: update", "{operation: CREATE", "{operation: UPDATE"), want: "data.oldObject: Required value"},
		{
			name: "objects of two kinds", request: replace("verb: create", "name: c, verb: update", "{operation: CREATE", "{operation: UPDATE, oldObject: {apiVersion: v1, kind: Secret, metadata: {name: c}}"),
			want: "data: object and oldObject must be of one kind and version",
		},
		{name: "a Namespace of the data with a mistake", request: replace("{operation", "{namespaceObject: {apiVersion: v1, kind: Namespace, metadata: {name: team}, spek: {}}, operation"), want: "data.namespaceObject: strict decoding error"},
		{name: "a Namespace of the data that is none", request: replace("{operation", "{namespaceObject: {apiVersion: v1, kind: ConfigMap, metadata: {name: team}}, operation"), want: `data.namespaceObject: must be the Namespace "team" of v1`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			set, r := mustLoad(t, vap, ""), requestOf(t, changed(create, tc.request))
			_, decided := decide(t, set, r)
			for name, err := range map[string]error{"validate": set.Validate(r), "decide": decided} {
				if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
					t.Errorf("%s: got %v, want %s", name, err, tc.want)
				}
			}
		})
	}
}

// TestUnknownPolicies checks that a decision that depends on data that only a server has is an error, and no guess.
func TestUnknownPolicies(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		policy  *strings.Replacer
		request *strings.Replacer
		want    string
	}{
		{name: "a selector without the Namespace", policy: replace("{resourceRules", "{namespaceSelector: {matchLabels: {a: b}}, resourceRules"), want: `ValidatingAdmissionPolicy "p": the decision depends on the Namespace of the request`},
		{name: "a selector of a binding without the Namespace", policy: replace("{policyName: p,", "{policyName: p, matchResources: {namespaceSelector: {matchLabels: {a: b}}},"), want: "the decision depends on the Namespace of the request"},
		{name: "an expression about the Namespace without it", policy: replace(`object.data.a == "1"`, `namespaceObject.metadata.name == "team"`), want: "the decision depends on the Namespace of the request"},
		{name: "an expression about the options without them", policy: replace(`object.data.a == "1"`, `request.options.fieldManager == "kubectl"`), want: "the decision depends on the options of the request"},
		{name: "another version of the resource in a rule", policy: replace("apiVersions: [v1]", "apiVersions: [v2]"), want: "whether a server has the objects as configmaps of v2, too"},
		{name: "another version of the resource in an excluded rule", policy: replace("{resourceRules", `{excludeResourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: [v2], resources: [configmaps]}], resourceRules`), want: "whether a server has the objects as configmaps of v2, too"},
		{
			name: "events, which are in two groups", policy: replace(`[""]`, "[events.k8s.io]", "configmaps", "events"), request: replace("configmaps", "events", "kind: ConfigMap", "kind: Event", "metadata: {name: c, labels: {l: x}}, data: {a: \"2\"}", "metadata: {name: c}"),
			want: "whether a server has the objects as events of events.k8s.io/v1, too",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			set, r := mustLoad(t, changed(vap, tc.policy), ""), requestOf(t, changed(create, tc.request))
			if err := set.Validate(r); err != nil {
				t.Fatal(err)
			}
			if d, err := decide(t, set, r); err == nil || !strings.HasPrefix(err.Error(), `ValidatingAdmissionPolicy "p": `) || !strings.Contains(err.Error(), tc.want) || d.Admission != nil {
				t.Errorf("got %+v, %v, want %s", d, err, tc.want)
			}
		})
	}
}

// TestReachesAdmission checks which requests admission policies decide about: those with data that the authorizers allow.
func TestReachesAdmission(t *testing.T) {
	t.Parallel()
	const policies = "{verbs: ['*'], apiGroups: ['*'], resources: ['*']}"
	for _, tc := range []struct {
		name    string
		empty   bool
		request *strings.Replacer
		want    answer.Verdict
		reaches bool
		by      []string
	}{
		{"allowed", false, nil, answer.No, true, []string{"p"}},
		{"allowed, without admission policies", true, nil, answer.Yes, false, nil},
		{"allowed, without data", false, replace("data: {operation: CREATE, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {l: x}}, data: {a: \"2\"}}}", ""), answer.YesIf, false, nil},
		{"not allowed", false, replace(policies, ""), answer.No, false, nil},
		{"denied by a policy of Proviso", false, replace(`a: "2"`, `a: "4"`), answer.No, false, []string{"deny"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c, err := compilers()
			if err != nil {
				t.Fatal(err)
			}
			source, err := c.SourceOf(map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec{{Name: "deny"}: {
				Effect: policyv1alpha1.PolicyEffectDeny, Condition: `object.data.a == "4"`, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "alice"}},
				Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			set := mustLoad(t, vap, "")
			if tc.empty {
				set = mustLoad(t, "", "")
			}
			d, err := decideBy(t, set, c, source, requestOf(t, changed(create, tc.request)))
			if err != nil {
				t.Fatal(err)
			}
			if d.Last() != tc.want || (d.Admission != nil) != tc.reaches {
				t.Errorf("got %s: %s, admission: %+v; want %s, admission: %v", d.Last(), d.Reason, d.Admission, tc.want, tc.reaches)
			}
			if diff := cmp.Diff(tc.by, d.Policies()); diff != "" {
				t.Errorf("other policies (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUndecidable checks that a request that the authorizers cannot decide has an error and no decision.
func TestUndecidable(t *testing.T) {
	t.Parallel()
	r := requestOf(t, changed(create, replace("kind: ConfigMap, ", "")))
	if d, err := decide(t, mustLoad(t, vap, ""), r); err == nil || d.Decisions != nil || d.Admission != nil {
		t.Errorf("got %+v, %v, want an error", d, err)
	}
}
