/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
)

const fieldsConfiguration = `resources:
- resource: namespaces
- {resource: namespaces, subresource: finalize}
- resource: pods
- {resource: pods, subresource: binding}
- resource: configmaps
- {group: apps, resource: deployments}
- {group: apps, resource: deployments, subresource: status}
- {group: apps, resource: deployments, subresource: scale}`

// fieldPolicies have the users of the test. alice has permission on fields by policies and nothing by RBAC, olga has the same by RBAC, and
// rob has permission on whole objects by RBAC.
const fieldPolicies = `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: everyone-reads}
spec:
  effect: Allow
  subjects: [{kind: User, name: alice}, {kind: User, name: sam}, {kind: User, name: dora}]
  rules: [{verbs: [get], apiGroups: ["", apps], resources: [namespaces, pods, configmaps, deployments]}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: supersafe}
spec:
  effect: Allow
  subjects: [{kind: User, name: alice}, {kind: User, name: gus}]
  rules:
  - verbs: [granular, "granular:label(super.safe.com)", "granular:annotation(super.safe.com)", "granular:finalizer(super.safe.com)", "granular:condition(SuperSafe)"]
    apiGroups: ["", apps]
    resources: [namespaces, deployments, deployments/status]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: sam-scales}
spec:
  effect: Allow
  subjects: [{kind: User, name: sam}]
  rules:
  - {verbs: [granular, "granular:replicas"], apiGroups: [apps], resources: [deployments/scale]}
  - {verbs: [granular, "granular:label(super.safe.com)"], apiGroups: [""], resources: [namespaces/finalize]}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: dora-blue}
spec:
  effect: Allow
  subjects: [{kind: User, name: dora}]
  rules: [{verbs: [update, patch], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  condition: object.metadata.?labels["team"].orValue("") == "blue"
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: dora-notes}
spec:
  effect: Allow
  subjects: [{kind: User, name: dora}]
  rules: [{verbs: [granular, "granular:annotation(notes)"], apiGroups: [""], resources: [configmaps]}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: pod-writers}
spec:
  effect: Allow
  subjects: [{kind: User, name: alice}, {kind: User, name: pia}, {kind: User, name: una}]
  rules: [{verbs: [create, update, patch], apiGroups: [""], resources: [pods, pods/binding]}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: una-status}
spec:
  effect: Allow
  subjects: [{kind: User, name: una}]
  rules: [{verbs: [patch], apiGroups: [""], resources: [pods/status]}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: node-networks}
spec:
  effect: Allow
  subjects: [{kind: User, name: pia}]
  rules: [{verbs: ["granular:nodeNetworks", "granular:nodeAssignment"], apiGroups: [""], resources: [pods, pods/binding]}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: FieldPermissionMapping
metadata: {name: pods}
spec:
  description: who may give pods the network of the node
  resources: [{resource: pods}]
  fields:
  - {path: spec.hostNetwork, permission: nodeNetworks, exclusion: {newValues: value == true}}
  - {path: 'metadata.labels["example.com/tier"]', permission: tiers, exclusion: {}}
  - {path: spec.nodeName, permission: nodeAssignment, exclusion: {}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: supersafe}
rules:
- apiGroups: ["", apps]
  resources: [namespaces, deployments, deployments/status]
  verbs: [get, granular, "granular:label(super.safe.com)", "granular:condition(SuperSafe)"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: supersafe}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: supersafe}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: olga}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: whole-objects}
rules: [{verbs: [get, create, update, patch], apiGroups: ["", apps], resources: [pods, deployments, deployments/status]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: whole-objects}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: whole-objects}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: rob}]
`

const (
	deployD  = deploys + "/d"
	namedD   = `"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"`
	needs    = `permission on every field that changes: changing the field `
	claimsOf = "changing the managers of the field "
	safe     = "/api/v1/namespaces/safe"

	bindingOfA = `{"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}`
)

// fieldRequest is a row. For PUT, change makes the body of the current object; otherwise body is sent.
type fieldRequest struct {
	name, user, method, path, contentType, body string
	change                                      func(object map[string]any)
	code                                        int
	called                                      bool
	message                                     string
}

func set(value any, fields ...string) func(map[string]any) {
	return func(object map[string]any) { _ = unstructured.SetNestedField(object, value, fields...) }
}

func condition(kind string) string { return fmt.Sprintf(`{"type": %q, "status": "True"}`, kind) }

// claimed adds a field to the entry of a manager, as if that manager had set it.
func claimed(manager string, field ...string) func(map[string]any) {
	return func(object map[string]any) {
		entries, _, _ := unstructured.NestedSlice(object, "metadata", "managedFields")
		for _, entry := range entries {
			if fields := entry.(map[string]any); fields["manager"] == manager {
				_ = unstructured.SetNestedField(fields, map[string]any{}, append([]string{"fieldsV1"}, field...)...)
			}
		}
		_ = unstructured.SetNestedSlice(object, entries, "metadata", "managedFields")
	}
}

func pod(name, rest string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q}, "spec": {"containers": [{"name": "c", "image": "i"}]%s}}`, name, rest)
}

const (
	pods         = core + "pods"
	onHost       = `, "hostNetwork": true`
	isExcluded   = `the field spec.hostNetwork is excluded from general permission: changing it also needs the verb "granular:nodeNetworks"`
	tierExcluded = `the field metadata.labels["example.com/tier"] is excluded from general permission`
)

// fieldRequests are sent in this order.
var fieldRequests = []fieldRequest{
	// Story 1: labels, annotations and finalizers with a prefix, by every kind of write.
	{name: "merge patch of a label", user: "alice", method: "PATCH", path: deployD, contentType: mergeType, body: `{"metadata": {"labels": {"super.safe.com/a": "1"}}}`, code: 200, called: true},
	{name: "merge patch of another label", user: "alice", method: "PATCH", path: deployD, contentType: mergeType, body: `{"metadata": {"labels": {"team": "red"}}}`, code: 403, called: true, message: needs + "metadata.labels.team needs the verb"},
	{name: "merge patch of both", user: "alice", method: "PATCH", path: deployD, contentType: mergeType, body: `{"metadata": {"labels": {"super.safe.com/a": "2", "team": "red"}}}`, code: 403, called: true, message: needs + "metadata.labels.team"},
	{name: "JSON patch of an annotation", user: "alice", method: "PATCH", path: deployD, contentType: patchType, body: `[{"op": "add", "path": "/metadata/annotations/super.safe.com~1a", "value": "1"}]`, code: 200, called: true},
	{name: "JSON patch of another annotation", user: "alice", method: "PATCH", path: deployD, contentType: patchType, body: `[{"op": "remove", "path": "/metadata/annotations/note"}]`, code: 403, called: true, message: needs + "metadata.annotations.note"},
	{name: "strategic merge patch of a finalizer", user: "alice", method: "PATCH", path: deployD, contentType: smpType, body: `{"metadata": {"finalizers": ["super.safe.com/f"]}}`, code: 200, called: true},
	{name: "strategic merge patch of another finalizer", user: "alice", method: "PATCH", path: deployD, contentType: smpType, body: `{"metadata": {"finalizers": ["example.com/f"]}}`, code: 403, called: true, message: needs + "metadata.finalizers"},
	{name: "PUT of a label", user: "alice", method: "PUT", path: deployD, change: set("3", "metadata", "labels", "super.safe.com/a"), code: 200, called: true},
	{name: "PUT of the specification", user: "alice", method: "PUT", path: deployD, change: set(int64(5), "spec", "replicas"), code: 403, called: true, message: needs + "spec.replicas"},
	{name: "PUT without finalizers", user: "alice", method: "PUT", path: deployD, change: set([]any{}, "metadata", "finalizers"), code: 200, called: true},
	{name: "apply of a label", user: "alice", method: "PATCH", path: deployD + "?fieldManager=supersafe", contentType: applyType, body: `{` + namedD + `, "labels": {"super.safe.com/b": "1"}}}`, code: 200, called: true},
	{name: "apply of the specification", user: "alice", method: "PATCH", path: deployD + "?fieldManager=supersafe&force=true", contentType: applyType, body: `{` + namedD + `}, "spec": {"replicas": 5}}`, code: 403, called: true, message: needs + "spec.replicas"},
	{name: "apply of a value that is there", user: "alice", method: "PATCH", path: deployD + "?fieldManager=supersafe", contentType: applyType, body: `{` + namedD + `, "labels": {"team": "blue"}}}`, code: 403, called: true, message: claimsOf + "metadata.labels.team"},
	{name: "dry run", user: "alice", method: "PATCH", path: deployD + "?dryRun=All", contentType: mergeType, body: `{"metadata": {"labels": {"super.safe.com/a": "4"}}}`, code: 200, called: true},
	{name: "nothing changes", user: "alice", method: "PATCH", path: deployD, contentType: mergeType, body: `{}`, code: 200, called: true},
	{name: "an object that does not exist", user: "alice", method: "PATCH", path: deploys + "/none?fieldManager=supersafe", contentType: applyType, body: strings.Replace(deployment, `"name": "d"`, `"name": "none"`, 1), code: 403, called: true, message: needs + "metadata"},
	{name: "a creation", user: "alice", method: "POST", path: "/api/v1/namespaces", contentType: jsonType, body: `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}`, code: 403, called: true, message: needs},
	{name: "a deletion", user: "alice", method: "DELETE", path: deployD, code: 403, message: "cannot delete resource"},
	{name: "another resource", user: "alice", method: "PATCH", path: maps + "/m", contentType: mergeType, body: `{"metadata": {"labels": {"super.safe.com/a": "1"}}}`, code: 403, message: "cannot patch resource"},

	// The entries of managers.
	{name: "the claim of another manager on a permitted field", user: "alice", method: "PUT", path: deployD + "?fieldManager=mine", change: claimed("setup", "f:metadata", "f:labels", "f:super.safe.com/a"), code: 403, called: true, message: "the request changes what other field managers own"},
	{name: "the claim of another manager on another field", user: "alice", method: "PUT", path: deployD, change: claimed("setup", "f:spec", "f:paused"), code: 403, called: true, message: "manager"},
	{name: "the claim of the own manager on another field", user: "alice", method: "PUT", path: deployD + "?fieldManager=supersafe", change: claimed("supersafe", "f:spec", "f:replicas"), code: 403, called: true, message: claimsOf + "spec.replicas"},
	{name: "no claim of another manager any more", user: "alice", method: "PATCH", path: deployD, contentType: mergeType, body: `{"metadata": {"managedFields": [{}]}}`, code: 403, called: true, message: "manager"},

	// Subresources.
	{name: "merge patch of a condition", user: "alice", method: "PATCH", path: deployD + "/status", contentType: mergeType, body: `{"status": {"conditions": [` + condition("SuperSafe") + `]}}`, code: 200, called: true},
	{name: "merge patch of another condition", user: "alice", method: "PATCH", path: deployD + "/status", contentType: mergeType, body: `{"status": {"conditions": [` + condition("SuperSafe") + `, ` + condition("Available") + `]}}`, code: 403, called: true, message: needs + "status.conditions[type="},
	{name: "strategic merge patch of another condition", user: "alice", method: "PATCH", path: deployD + "/status", contentType: smpType, body: `{"status": {"conditions": [` + condition("Available") + `]}}`, code: 403, called: true, message: needs + "status.conditions[type="},
	{name: "JSON patch of the replicas in the status", user: "alice", method: "PATCH", path: deployD + "/status", contentType: patchType, body: `[{"op": "add", "path": "/status/replicas", "value": 1}]`, code: 403, called: true, message: needs + "status.replicas"},
	{name: "PUT of a status", user: "alice", method: "PUT", path: deployD + "/status", change: set(int64(1), "status", "observedGeneration"), code: 403, called: true, message: needs + "status.observedGeneration"},
	{name: "apply of a condition", user: "alice", method: "PATCH", path: deployD + "/status?fieldManager=supersafe&force=true", contentType: applyType, body: `{` + namedD + `}, "status": {"conditions": [` + strings.Replace(condition("SuperSafe"), "True", "False", 1) + `]}}`, code: 200, called: true},
	{name: "apply of another condition", user: "alice", method: "PATCH", path: deployD + "/status?fieldManager=supersafe", contentType: applyType, body: `{` + namedD + `}, "status": {"conditions": [` + condition("Available") + `]}}`, code: 403, called: true, message: "status.conditions[type="},
	{name: "scale without permission", user: "alice", method: "PATCH", path: deployD + "/scale", contentType: mergeType, body: `{"spec": {"replicas": 2}}`, code: 403, message: "cannot patch resource"},
	{name: "merge patch of a scale", user: "sam", method: "PATCH", path: deployD + "/scale", contentType: mergeType, body: `{"spec": {"replicas": 2}}`, code: 200, called: true},
	{name: "PUT of a scale", user: "sam", method: "PUT", path: deployD + "/scale", change: set(int64(3), "spec", "replicas"), code: 200, called: true},
	{name: "the deployment of a scale", user: "sam", method: "PATCH", path: deployD, contentType: mergeType, body: `{"spec": {"replicas": 2}}`, code: 403, message: "cannot patch resource"},
	{name: "finalize without permission on the field", user: "sam", method: "PUT", path: safe + "/finalize", change: set([]any{}, "spec", "finalizers"), code: 403, called: true, message: needs + "spec.finalizers"},
	{name: "finalize without permission", user: "alice", method: "PUT", path: safe + "/finalize", change: set([]any{}, "spec", "finalizers"), code: 403, message: "cannot update resource"},

	// Namespaces, which are in themselves.
	{name: "label of a namespace", user: "alice", method: "PATCH", path: safe, contentType: mergeType, body: `{"metadata": {"labels": {"super.safe.com/a": "1"}}}`, code: 200, called: true},
	{name: "annotation of a namespace", user: "alice", method: "PATCH", path: safe, contentType: smpType, body: `{"metadata": {"annotations": {"super.safe.com/a": "1"}}}`, code: 200, called: true},
	{name: "finalizer of a namespace", user: "alice", method: "PUT", path: safe, change: set([]any{"super.safe.com/f"}, "metadata", "finalizers"), code: 200, called: true},
	{name: "apply of a namespace", user: "alice", method: "PATCH", path: safe + "?fieldManager=supersafe", contentType: applyType, body: `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "safe", "labels": {"super.safe.com/b": "1"}}}`, code: 200, called: true},
	{name: "another label of a namespace", user: "alice", method: "PATCH", path: safe, contentType: mergeType, body: `{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}`, code: 403, called: true, message: needs + `metadata.labels["pod-security.kubernetes.io/enforce"]`},

	// Whom RBAC gives the same, who may not read, and who has other permissions.
	{name: "by RBAC", user: "olga", method: "PATCH", path: deployD, contentType: mergeType, body: `{"metadata": {"labels": {"super.safe.com/a": "5"}}}`, code: 200, called: true},
	{name: "another label, by RBAC", user: "olga", method: "PATCH", path: deployD, contentType: mergeType, body: `{"metadata": {"labels": {"team": "red"}}}`, code: 403, called: true, message: needs + "metadata.labels.team"},
	{name: "without get", user: "gus", method: "PATCH", path: deployD, contentType: mergeType, body: `{"metadata": {"labels": {"super.safe.com/a": "6"}}}`, code: 403, message: "the answer may show objects, which the user may not read"},
	{name: "what RBAC allows", user: "rob", method: "PATCH", path: deployD, contentType: mergeType, body: `{"metadata": {"labels": {"team": "green"}}, "spec": {"replicas": 7}}`, code: 200},
	{name: "what a policy allows on a condition", user: "dora", method: "PATCH", path: maps + "/m", contentType: mergeType, body: `{"metadata": {"labels": {"team": "blue"}}, "data": {"k": "1"}}`, code: 200, called: true},
	{name: "what a policy does not allow, but permission on a field", user: "dora", method: "PATCH", path: maps + "/red", contentType: mergeType, body: `{"metadata": {"annotations": {"notes/a": "1"}}}`, code: 200, called: true},
	{name: "neither", user: "dora", method: "PATCH", path: maps + "/red", contentType: mergeType, body: `{"metadata": {"annotations": {"notes/a": "1"}}, "data": {"k": "1"}}`, code: 403, called: true, message: "policy=dora-blue reason=NotMet"},

	// Story 2: a value of a field of pods that only some may set.
	{name: "POST of a pod", user: "alice", method: "POST", path: pods, contentType: jsonType, body: pod("a", ""), code: 201, called: true},
	{name: "POST of a pod on the network of the node", user: "alice", method: "POST", path: pods, contentType: jsonType, body: pod("b", onHost), code: 403, called: true, message: isExcluded},
	{name: "apply of such a pod", user: "alice", method: "PATCH", path: pods + "/b?fieldManager=t", contentType: applyType, body: pod("b", onHost), code: 403, called: true, message: isExcluded},
	{name: "such a pod of a user who may", user: "pia", method: "POST", path: pods, contentType: jsonType, body: pod("p", onHost), code: 201, called: true},
	{name: "such a pod of a user whom RBAC allows", user: "rob", method: "POST", path: pods, contentType: jsonType, body: pod("r", onHost), code: 201},
	{name: "another field of such a pod", user: "alice", method: "PATCH", path: pods + "/p", contentType: mergeType, body: `{"metadata": {"labels": {"a": "1"}}}`, code: 200, called: true},
	{name: "merge patch of an excluded label", user: "alice", method: "PATCH", path: pods + "/a", contentType: mergeType, body: `{"metadata": {"labels": {"example.com/tier": "1"}}}`, code: 403, called: true, message: tierExcluded},
	{name: "JSON patch of an excluded label", user: "alice", method: "PATCH", path: pods + "/a", contentType: patchType, body: `[{"op": "add", "path": "/metadata/labels", "value": {"example.com/tier": "1"}}]`, code: 403, called: true, message: tierExcluded},
	{name: "strategic merge patch of an excluded label", user: "alice", method: "PATCH", path: pods + "/a", contentType: smpType, body: `{"metadata": {"labels": {"example.com/tier": "1"}}}`, code: 403, called: true, message: tierExcluded},
	{name: "PUT of an excluded label", user: "alice", method: "PUT", path: pods + "/a", change: set("1", "metadata", "labels", "example.com/tier"), code: 403, called: true, message: tierExcluded},
	{name: "apply of an excluded label", user: "alice", method: "PATCH", path: pods + "/a?fieldManager=t", contentType: applyType, body: `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"example.com/tier": "1"}}}`, code: 403, called: true, message: tierExcluded},
	{name: "the node of a pod, by a binding", user: "alice", method: "POST", path: pods + "/a/binding", contentType: jsonType, body: bindingOfA, code: 403, called: true,
		message: `the request may change an excluded field that its object does not show: it also needs the verb "granular:nodeAssignment"`},
	{name: "such a binding of a user who may", user: "pia", method: "POST", path: pods + "/a/binding?dryRun=All", contentType: jsonType, body: bindingOfA, code: 201, called: true},
	{name: "PUT of another label", user: "alice", method: "PUT", path: pods + "/a", change: set("1", "metadata", "labels", "a"), code: 200, called: true},
	{name: "an excluded label, by a user who may not read", user: "una", method: "PATCH", path: pods + "/a", contentType: mergeType, body: `{"metadata": {"labels": {"example.com/tier": "1"}}}`, code: 403, called: true,
		message: "does not meet them (details are shown to users who may get the object): condition=granular.proviso.dev/exclude"},
	{name: "an excluded label, by a subresource that is not listed", user: "una", method: "PATCH", path: pods + "/a/status", contentType: mergeType, body: `{"metadata": {"labels": {"example.com/tier": "1"}}}`, code: 200},
}

// TestFields has permission on fields of resources that kube-apiserver serves: both stories of KEP-3617.
func TestFields(t *testing.T) {
	r := newRig(t, "", func(c *cluster.Config) {
		c.InnerDoor, c.Args = &cluster.InnerDoor{Configuration: fieldsConfiguration}, []string{"--feature-gates=FineGrainedAuthorization=true"}
	})
	out, err := r.Kubectl(t.Context(), fieldPolicies, "apply", "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	if want := "Warning: spec.resources[0]: the excluded fields of pods are checked only for users whom no other authorizer"; !strings.Contains(out, want) {
		t.Errorf("got %s, want %s", out, want)
	}
	for _, args := range [][]string{
		{"create", "namespace", demo}, {"create", "namespace", "safe"}, {"create", "serviceaccount", "default", "--namespace", demo},
		{"create", "configmap", "m", "--namespace", demo}, {"create", "configmap", "red", "--namespace", demo},
		{"wait", "--for=condition=Ready", "clusterauthorizationpolicies,fieldpermissionmappings", "--all"},
	} {
		if _, err := r.Kubectl(t.Context(), "", args...); err != nil {
			t.Fatal(err)
		}
	}
	object := strings.Replace(deployment, `"name": "d"`, `"name": "d", "labels": {"team": "blue"}, "annotations": {"note": "x"}`, 1)
	if code, answer := r.send(t, "admin", "POST", deploys+"?fieldManager=setup", jsonType, object); code != http.StatusCreated {
		t.Fatalf("got %d %s", code, answer)
	}
	eventually(t, "policies and roles are in effect", func() bool {
		for _, user := range []string{"alice", "olga"} {
			if code, _ := r.send(t, user, "PATCH", deployD+"?dryRun=All", mergeType, `{"metadata": {"labels": {"super.safe.com/x": "1"}}}`); code != http.StatusOK {
				return false
			}
		}
		code, _ := r.send(t, "rob", "POST", pods+"?dryRun=All", jsonType, pod("x", ""))
		return code == http.StatusCreated
	})
	for _, row := range fieldRequests {
		contentType, body := row.contentType, row.body
		if row.change != nil {
			contentType, body = jsonType, r.changed(t, strings.Split(row.path, "?")[0], row.change)
		}
		r.proxy.reset()
		code, answer := r.send(t, row.user, row.method, row.path, contentType, body)
		calls := len(r.proxy.calls())
		var status struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal([]byte(answer), &status)
		if code != row.code || calls > 0 != row.called || !strings.Contains(status.Message, row.message) {
			t.Errorf("%s: %s %s: got %d after %d calls: %.700s\nwant %d, the inner door called: %t (%s)", row.name, row.user, row.method, code, calls, answer, row.code, row.called, row.message)
		}
	}
	t.Run("selectors", func(t *testing.T) { testSelectors(t, r) })
	t.Run("audit", func(t *testing.T) {
		want := []string{
			`update.inner-door.proviso.static.k8s.io/include":"allowed"`, `update.inner-door.proviso.static.k8s.io/include":"refused"`,
			`update.inner-door.proviso.static.k8s.io/include-fields":"[\"metadata.labels.team\"]"`, `create.inner-door.proviso.static.k8s.io/exclude":"refused"`,
		}
		eventually(t, "the audit log has the fields", func() bool {
			log, err := os.ReadFile(r.AuditLog())
			return err == nil && !slices.ContainsFunc(want, func(text string) bool { return !strings.Contains(string(log), text) })
		})
	})
}

// changed returns an object with a change.
func (r *rig) changed(t *testing.T, path string, change func(map[string]any)) string {
	t.Helper()
	_, answer := r.send(t, "admin", "GET", strings.TrimSuffix(path, "/finalize"), "", "")
	object := map[string]any{}
	if err := json.Unmarshal([]byte(answer), &object); err != nil {
		t.Fatal(err)
	}
	change(object)
	body, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
