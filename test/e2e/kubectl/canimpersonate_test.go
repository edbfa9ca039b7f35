/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package kubectl_test

import (
	"path/filepath"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/golden"
)

// canImpersonateManifest lets agent ask for itself.
const canImpersonateManifest = `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: can-impersonate-reviewer}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "proviso:reviewer"}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: agent}]}
`

// TestKubectlCanImpersonate runs the plugin by kubectl, and compares what it prints.
func TestKubectlCanImpersonate(t *testing.T) {
	applyForTest(t, canImpersonateManifest)
	labelled := filepath.Join(stack.Repository, "artifacts", "impersonation", "labelled.yaml")
	mustKubectl(t, "admin", "apply", "-f", labelled)
	t.Cleanup(func() { mustKubectl(t, "admin", "delete", "-f", labelled) })
	mustKubectl(t, "admin", "wait", "--for=condition=Ready", "clusterauthorizationpolicy/agent-leaves-a-label")
	text := transcript(t, "can-impersonate", [][2]string{
		{"agent", "bob get virtualmachines/build-1 --subresource=console -n demo"},
		{"agent", "bob get virtualmachines -n demo"},
		{"agent", "alice get virtualmachines -n demo"},
		{"agent", "alice create virtualmachines -n demo"},
		{"agent", "alice delete virtualmachines -n demo"},
		{"bob", "alice list virtualmachines -n demo"},
		{"bob", "alice list virtualmachines -n demo --quiet"},
		{"bob", "alice delete virtualmachines -n demo"},
		{"bob", "alice list virtualmachines -n demo --group=operators"},
		{"bob", "alice get /version"},
		{"alice", "system:serviceaccount:demo:node-agent list pods -A"},
		{"admin", "system:serviceaccount:demo:node-agent list pods -A"},
		{"admin", "alice create virtualmachines -n demo --group=operators --uid=1 --extra=reason=incident"},
		{"admin", "alice list virtualmachines -n demo --as bob"},
		{"admin", "alice list virtualmachines -n demo --as carol"},
		{"alice", "bob get"},
		{"alice", "bob get pods --extra=x"},
		{"alice", "bob get pods --server https://127.0.0.1:1"},
		{"alice", "bob get pods --group=system:masters"},
	})
	golden.Compare(t, filepath.Join("testdata", "can-impersonate.golden.txt"), text)
	checkDocument(t, "agent", "can-impersonate", text)
}
