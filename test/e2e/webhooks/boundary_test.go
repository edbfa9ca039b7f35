/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhooks_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// generous lets all users of the test create machines and policies by RBAC, and has policies that allow some users what the webhook denies them.
const generous = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: generous, namespace: ` + namespace + `}
rules:
- {apiGroups: [demo.proviso.dev], resources: [virtualmachines], verbs: [create]}
- {apiGroups: [""], resources: ["*"], verbs: [list]}
- {apiGroups: [policy.proviso.dev], resources: [authorizationpolicies], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: generous, namespace: ` + namespace + `}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: generous}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: hooked}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: pods-for-all}
spec:
  effect: Allow
  subjects: [{kind: User, name: closed-denied}, {kind: User, name: open-none}, {kind: User, name: closed-slow}]
  rules: [{verbs: [list], apiGroups: [""], resources: [pods]}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: only-debian}
spec:
  effect: Allow
  subjects: [{kind: User, name: closed-nomachines}]
  rules: [{verbs: [create], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}]
  condition: object.spec.image == 'debian-12'
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: none-without-maps}
spec:
  effect: Deny
  description: who may not list ConfigMaps makes no machines
  subjects: [{kind: User, name: closed-nomaps}, {kind: User, name: open-none}]
  rules: [{verbs: [create], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}]
  condition: "!authorizer.group('').resource('configmaps').namespace('hooked').check('list').allowed()"
`

// testBoundary has users whom RBAC or a policy allows what the webhook denies, in every place in which Proviso decides: at kube-apiserver and on Proviso's own port,
// as authors of policies, in the checks of conditions, and in reviews. Beside each is a user whom the webhook does not deny.
func testBoundary(t *testing.T, r *rig) {
	if out, err := r.Kubectl(t.Context(), generous, "apply", "-f", "-"); err != nil {
		t.Fatal(out, err)
	}
	if out, err := r.Kubectl(t.Context(), "", "wait", "--for=condition=Ready", "clusterauthorizationpolicies", "--all"); err != nil {
		t.Fatal(out, err)
	}
	runner := &requests.Runner{Sender: r.sender}
	rows := r.rows["boundary"]
	runner.Await(t, rows[0]) // the policies become effective in their own time
	for _, row := range rows {
		if strings.Contains(row.Name, "a check of a condition") {
			runner.Await(t, row)
		}
	}
	t.Run("kube-apiserver", func(t *testing.T) { runner.Run(t, rows) })
	t.Run("Proviso's own port", func(t *testing.T) {
		config, err := r.Client(cluster.Admin + "-direct")
		if err != nil {
			t.Fatal(err)
		}
		direct := &requests.Runner{Sender: requests.NewSender(config, r.NewUser)}
		direct.Run(t, slices.DeleteFunc(slices.Clone(rows), func(row *requests.Row) bool { return row.Is(isForeign) }))
	})
	t.Run("reviews", func(t *testing.T) { runner.Run(t, r.rows["reviews"]) })
	t.Run("health", func(t *testing.T) { runner.Run(t, r.rows["health"]) })
}
