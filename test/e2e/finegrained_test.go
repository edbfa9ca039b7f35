/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// TestFineGrained is both stories of KEP-3617 on machines, with roles of RBAC, at a replica
// whose gate is on: an operator that may touch what has its prefix only, and a field that
// even those who write machines may not set to true.
func TestFineGrained(t *testing.T) {
	t.Parallel()
	table := readRequests(t, "finegrained.yaml")
	runner := &requests.Runner{Sender: newSenderTo(t, startReplica(t, "--feature-gates=FineGrainedAuthorization=true"))}
	apply(t, table.Manifest())
	runner.Run(t, table.Rows["before"]) // the replica has a store of its own
	defer runner.Run(t, table.Rows["after"])
	awaitRows(t, runner, table.Rows["all"])
}

// grantMachines gives a user verbs on machines and their status. It adds get, since only users
// who may get an object are shown why a write of it is refused.
func grantMachines(t *testing.T, user string, verbs ...string) {
	t.Helper()
	grant(t, user, append([]string{"get"}, verbs...), []string{"demo.proviso.dev"}, "virtualmachines", "virtualmachines/status")
}

// grant gives a user verbs on resources in all namespaces by RBAC.
func grant(t *testing.T, user string, verbs, groups []string, resources ...string) {
	t.Helper()
	subject := map[string]any{"apiGroup": rbacv1.GroupName, "kind": rbacv1.UserKind, "name": user}
	for _, object := range []map[string]any{
		{"kind": "ClusterRole", "rules": []any{map[string]any{"verbs": verbs, "apiGroups": groups, "resources": resources}}},
		{"kind": "ClusterRoleBinding", "roleRef": map[string]any{"apiGroup": rbacv1.GroupName, "kind": "ClusterRole", "name": user}, "subjects": []any{subject}},
	} {
		object["apiVersion"], object["metadata"] = "rbac.authorization.k8s.io/v1", map[string]any{"name": user}
		apply(t, string(mustJSON(object)))
	}
}
