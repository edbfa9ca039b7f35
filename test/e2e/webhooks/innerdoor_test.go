/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhooks_test

import (
	"fmt"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// small lets two users create small ConfigMaps. RBAC lets one of them create all. The webhook denies that user all.
const small = `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: small}
spec:
  effect: Allow
  subjects: [{kind: User, name: closed-denied}, {kind: User, name: open-none}]
  rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  condition: object.data.size == "small"
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: writer, namespace: ` + namespace + `}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: writer, namespace: ` + namespace + `}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: writer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: closed-denied}]
`

// TestInnerDoorWithWebhooks creates ConfigMaps on conditions of policies and of webhooks, which the inner door evaluates.
func TestInnerDoorWithWebhooks(t *testing.T) {
	t.Parallel()
	for group, asksOthers := range map[string]bool{"inner door": false, "inner door that asks others": true} {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, &cluster.InnerDoor{Configuration: fmt.Sprintf("resources: [{resource: configmaps}]\naskOtherAuthorizers: %t", asksOthers)})
			if _, err := r.Kubectl(t.Context(), small, "apply", "-f", "-"); err != nil {
				t.Fatal(err)
			}
			runner, rows := &requests.Runner{Sender: r.sender}, r.rows[group]
			runner.Await(t, rows[0]) // until the first canaries have been answered, nothing passes
			runner.Run(t, rows)
		})
	}
}
