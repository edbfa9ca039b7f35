/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// testOverlay runs Proviso with the Deployment and the permissions of the overlay.
func testOverlay(t *testing.T, r *rig) {
	t.Helper()
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
	r.kubectl(t, conditionalPolicy+"---"+conditionsOnPolicies, "delete", "-f", "-")
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

// checkConditions creates objects that Proviso serves. kube-apiserver authorizes a request before it proxies it, so that conditions restrict
// users whom RBAC allows, and allow nothing that RBAC does not, except on Proviso's own port.
func checkConditions(t *testing.T, r *rig) {
	t.Helper()
	r.kubectl(t, conditionsOnPolicies, "apply", "-f", "-")
	r.kubectl(t, "", "wait", "--for=condition=Ready", "--timeout=1m", "clusterauthorizationpolicy/named-policies", "clusterauthorizationpolicy/carol-writes-policies")
	rows := requests.ReadFile(t, filepath.Join("testdata", "overlay.yaml"), nil).Rows
	(&requests.Runner{Sender: newSender(t, r)}).Run(t, rows["through kube-apiserver"])
	direct, err := r.Client(cluster.Admin + "-direct")
	if err != nil {
		t.Fatal(err)
	}
	(&requests.Runner{Sender: requests.NewSender(direct, r.NewUser)}).Run(t, rows["direct"])
}

// checkPermissions asks kube-apiserver what Proviso may do.
func checkPermissions(t *testing.T, r *rig) {
	t.Helper()
	rows := requests.ReadFile(t, filepath.Join("testdata", "overlay.yaml"), nil).Rows
	(&requests.Runner{Sender: newSender(t, r)}).Run(t, rows["permissions"])
}
