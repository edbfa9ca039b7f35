/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// TestImpersonationDelegation is KEP-5284, "Permission delegation", with policies in the
// place of roles: who may write policies hands on the permissions to impersonate that they
// have, and no more. agent has those of the dev cluster, on bob and on consoles.
func TestImpersonationDelegation(t *testing.T) {
	t.Parallel()
	const rights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: e2e-impersonation-delegator}
rules:
- {apiGroups: [policy.proviso.dev], resources: [clusterauthorizationpolicies], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: e2e-impersonation-delegator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: e2e-impersonation-delegator}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: agent}]
`
	if _, errs, err := kubectlWithInput(t, "admin", rights, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	poll.Holds(t, "agent may not create policies", func() bool {
		_, _, err := kubectl(t, "agent", "auth", "can-i", "create", "clusterauthorizationpolicies.policy.proviso.dev")
		return err == nil
	})
	for _, tc := range []struct {
		name, verb, group, resource, names, condition string
		want                                          bool
	}{
		{name: "impersonating bob", verb: "impersonate:user-info", group: "authentication.k8s.io", resource: "users", names: "bob", want: true},
		{name: "impersonating bob, on a condition", verb: "impersonate:user-info", group: "authentication.k8s.io", resource: "users", names: "bob", condition: `request.userInfo.username != "mallory"`, want: true},
		{name: "impersonating alice", verb: "impersonate:user-info", group: "authentication.k8s.io", resource: "users", names: "alice"},
		{name: "impersonating everybody", verb: "impersonate:user-info", group: "authentication.k8s.io", resource: "users"},
		{name: "impersonating bob in another mode", verb: "impersonate:serviceaccount", group: "authentication.k8s.io", resource: "users", names: "bob"},
		{name: "impersonating bob for everything", verb: "impersonate", resource: "users", names: "bob"},
		{name: "impersonating bob conditionally", verb: "constrainedimpersonate", group: "authentication.k8s.io", resource: "users", names: "bob", condition: `impersonatedRequest.verb == "get"`},
		{name: "impersonating nodes", verb: "impersonate:arbitrary-node", group: "authentication.k8s.io", resource: "nodes"},
		{name: "impersonating on consoles", verb: "impersonate-on:user-info:get", group: "demo.proviso.dev", resource: "virtualmachines/console", want: true},
		{name: "impersonating on consoles with another verb", verb: "impersonate-on:user-info:update", group: "demo.proviso.dev", resource: "virtualmachines/console"},
		{name: "impersonating on machines", verb: "impersonate-on:user-info:get", group: "demo.proviso.dev", resource: "virtualmachines"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			manifest := fmt.Sprintf(`
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: e2e-impersonation-delegated}
spec:
  effect: Allow
  subjects: [{kind: User, name: alice}]
  rules: [{verbs: [%q], apiGroups: [%q], resources: [%q], resourceNames: [%s]}]
  condition: %q
`, tc.verb, tc.group, tc.resource, tc.names, tc.condition)
			_, errs, err := kubectlWithInput(t, "agent", manifest, "create", "--dry-run=server", "-f", "-")
			switch {
			case tc.want && err != nil:
				t.Errorf("got %v: %s", err, errs)
			case !tc.want && (err == nil || !strings.Contains(errs, "attempting to grant permissions not currently held")):
				t.Errorf("got %v: %s\nwant a refusal to hand on what agent does not have", err, errs)
			}
		})
	}
}
