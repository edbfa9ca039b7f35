/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestOverlay runs Proviso with the Deployment and the permissions of the overlay.
func TestOverlay(t *testing.T) {
	t.Parallel()
	onEachKubernetes(t, func(t *testing.T, r *rig) {
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", r.KubeAPIServerPid()))
		if err != nil {
			t.Fatal(err)
		}
		for argument := range strings.SplitSeq(string(cmdline), "\x00") {
			for _, flag := range []string{"--authorization-config", "--authorization-webhook", "--admission-control-config-file", "--feature-gates", "--runtime-config"} {
				if strings.HasPrefix(argument, flag) {
					t.Errorf("kube-apiserver has %s", argument)
				}
			}
		}
		checkReview(t, r)
		checkConditions(t, r)
		checkPermissions(t, r)
		r.checkForbidden(t)
	})
}

const conditionalPolicy = `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: carol-dev-configmaps}
spec:
  effect: Allow
  subjects: [{kind: User, name: carol}]
  rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  condition: object.metadata.?labels["env"].orValue("") == "dev"
`

const conditionalReview = `
apiVersion: authorization.k8s.io/v1alpha1
kind: SubjectAccessReview
spec:
  user: carol
  conditionalAuthorization: {mode: HumanReadable}
  resourceAttributes: {verb: create, version: v1, resource: configmaps, namespace: demo}
`

// checkReview writes a policy and reviews its condition, through kube-apiserver.
func checkReview(t *testing.T, r *rig) {
	t.Helper()
	r.kubectl(t, conditionalPolicy, "apply", "-f", "-")
	r.kubectl(t, "", "wait", "--for=condition=Ready", "--timeout=1m", "clusterauthorizationpolicy/carol-dev-configmaps")
	got := r.kubectl(t, conditionalReview, "--context=alice", "create", "-f", "-", "-o=jsonpath={.status.conditionsChain[*].conditions[*].condition}")
	if want := `object.metadata.?labels["env"].orValue("") == "dev"`; !strings.HasSuffix(got, want) { // before it is a warning
		t.Errorf("got %q, want the condition %q", got, want)
	}
}

// conditionsOnPolicies has a condition for alice, whom RBAC allows to write policies, and one for carol, whom RBAC allows nothing.
const conditionsOnPolicies = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "managed:authors"}
rules: [{apiGroups: [policy.proviso.dev], resources: [authorizationpolicies], verbs: [create, escalate]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "managed:authors"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "managed:authors"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: named-policies}
spec:
  effect: Deny
  subjects: [{kind: User, name: alice}]
  rules: [{verbs: [create], apiGroups: [policy.proviso.dev], apiVersions: [v1alpha1], resources: [authorizationpolicies]}]
  condition: object.metadata.name == "bad"
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: carol-writes-policies}
spec:
  effect: Allow
  subjects: [{kind: User, name: carol}]
  rules:
  - {verbs: [create], apiGroups: [policy.proviso.dev], apiVersions: [v1alpha1], resources: [authorizationpolicies]}
  - {verbs: [escalate], apiGroups: [policy.proviso.dev], apiVersions: [v1alpha1], resources: [authorizationpolicies]}
  condition: request.verb == "escalate" || object.metadata.name == "good"
`

const policyToCreate = `
apiVersion: policy.proviso.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: NAME, namespace: demo}
spec:
  effect: Allow
  subjects: [{kind: User, name: dan}]
  rules: [{verbs: [get], apiGroups: [""], resources: [pods]}]
`

// checkConditions creates objects that Proviso serves. kube-apiserver authorizes a request before it proxies it, so that conditions restrict
// users whom RBAC allows, and allow nothing that RBAC does not, except on Proviso's own port.
func checkConditions(t *testing.T, r *rig) {
	t.Helper()
	r.kubectl(t, conditionsOnPolicies, "apply", "-f", "-")
	r.kubectl(t, "", "wait", "--for=condition=Ready", "--timeout=1m", "clusterauthorizationpolicy/named-policies", "clusterauthorizationpolicy/carol-writes-policies")
	for _, row := range []struct {
		context, object string
		want            bool
	}{
		{"alice", "good", true},
		{"alice", "bad", false},
		{"alice-direct", "bad", false},
		{"carol", "good", false},
		{"carol-direct", "good", true},
		{"carol-direct", "bad", false},
	} {
		object := strings.Replace(policyToCreate, "NAME", row.object, 1)
		_, err := r.Kubectl(t.Context(), object, "--context="+row.context, "create", "--validate=false", "--dry-run=server", "-f", "-")
		if (err == nil) != row.want {
			t.Errorf("%s creates %s: got %v, want %t", row.context, row.object, err, row.want)
		}
	}
}

// checkPermissions asks kube-apiserver what Proviso may do.
func checkPermissions(t *testing.T, r *rig) {
	t.Helper()
	const barriers = "validatingadmissionpolicies.admissionregistration.k8s.io"
	for _, row := range []struct {
		permission string
		want       bool
	}{
		{"create subjectaccessreviews.authorization.k8s.io", true},
		{"create tokenreviews.authentication.k8s.io", true},
		{"watch namespaces", true},
		{"get apiservices.apiregistration.k8s.io/v1alpha1.policy.proviso.dev", true},
		{"create " + barriers, true},
		{"patch " + barriers, true},
		{"delete validatingadmissionpolicybindings.admissionregistration.k8s.io", true},
		{"create events --namespace=demo", true},
		{"update leases.coordination.k8s.io --namespace=proviso-system", true},

		{"get secrets --namespace=proviso-system", false},
		{"list secrets --namespace=demo", false},
		{"get pods --namespace=demo", false},
		{"update namespaces", false},
		{"update leases.coordination.k8s.io --namespace=kube-system", false},
		{"list leases.coordination.k8s.io --namespace=kube-node-lease", false},
		{"create validatingwebhookconfigurations.admissionregistration.k8s.io", false},
		{"update mutatingadmissionpolicies.admissionregistration.k8s.io", false},
		{"update apiservices.apiregistration.k8s.io", false},
		{"create clusterroles.rbac.authorization.k8s.io", false},
		{"impersonate users", false},
		{"update clusterauthorizationpolicies.policy.proviso.dev", false},
	} {
		args := append([]string{"auth", "can-i", "--quiet", "--as=" + proviso, "--as-group=system:authenticated"}, strings.Fields(row.permission)...)
		if _, err := r.Kubectl(t.Context(), "", args...); (err == nil) != row.want {
			t.Errorf("%s: got %v, want %t", row.permission, err, row.want)
		}
	}
}
