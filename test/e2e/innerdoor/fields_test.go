/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/poll"
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
	rows, runner := table(t, "fields.yaml").Rows, r.runner()
	runner.Run(t, rows["before"])
	for _, row := range rows["wait"] {
		runner.Await(t, row)
	}
	runner.Run(t, rows["fields"])
	t.Run("selectors", func(t *testing.T) { testSelectors(t, r) })
	t.Run("audit", func(t *testing.T) {
		want := []string{
			`update.inner-door.proviso.static.k8s.io/include":"allowed"`, `update.inner-door.proviso.static.k8s.io/include":"refused"`,
			`update.inner-door.proviso.static.k8s.io/include-fields":"[\"metadata.labels.team\"]"`, `create.inner-door.proviso.static.k8s.io/exclude":"refused"`,
		}
		poll.Holds(t, "the audit log has the fields", func() bool {
			log, err := os.ReadFile(r.AuditLog())
			return err == nil && !slices.ContainsFunc(want, func(text string) bool { return !strings.Contains(string(log), text) })
		})
	})
}
