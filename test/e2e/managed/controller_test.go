/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// infra denies the network of the host outside the namespace infra, also to users whom RBAC allows the write. A ConfigMap stands for
// a pod.
const infra = `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: host-network}
spec:
  effect: Deny
  description: the network of the host is for infra
  rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  condition: object.?data["network"].orValue("") == "host" && request.namespace != "infra"
`

// writer lets carol write ConfigMaps by RBAC.
const writer = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "managed:writer"}
rules: [{apiGroups: [""], resources: [configmaps], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "managed:writer"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "managed:writer"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: carol}]
`

const hostNetwork = `
apiVersion: v1
kind: ConfigMap
metadata: {name: pod, namespace: default}
data: {network: host}
`

// tries reports whether carol may create the ConfigMap that the policy denies, as a dry run, and what she reads.
func (r *rig) tries(t *testing.T) (isAllowed bool, output string) {
	t.Helper()
	output, err := r.Kubectl(t.Context(), hostNetwork, "--context=carol", "create", "--dry-run=server", "-f", "-")
	return err == nil, output
}

// testController follows a Deny policy from its creation to its deletion, on a cluster whose kube-apiserver knows nothing of Proviso.
func testController(t *testing.T, r *rig) {
	t.Helper()
	r.kubectl(t, writer, "apply", "-f", "-")
	poll.Eventually(t, "RBAC allows carol", func() string {
		if isAllowed, output := r.tries(t); !isAllowed {
			return output
		}
		return ""
	})
	r.kubectl(t, infra, "apply", "-f", "-")
	took := poll.Eventually(t, "the barrier denies", func() string {
		isAllowed, output := r.tries(t)
		if isAllowed || !strings.Contains(output, "the network of the host is for infra") {
			return output
		}
		return ""
	})
	t.Logf("a written policy denies after %s", took)
	r.kubectl(t, "", "wait", "--for=condition=Effective", "--timeout=1m", "clusterauthorizationpolicy/host-network")
	if got := r.kubectl(t, "", "get", "clusterauthorizationpolicy/host-network", "-o=jsonpath={.status.enforcement[*]['at','result']}"); got != "Barrier Enforced" {
		t.Errorf("got the status %q", got)
	}
	events := func() string {
		return r.kubectl(t, "", "get", "events", "-n=default", "-o=jsonpath={range .items[*]}{.involvedObject.name} {.reason}\n{end}")
	}
	poll.Eventually(t, "an event tells", func() string {
		if got := events(); !strings.Contains(got, "host-network BarrierWritten") {
			return got
		}
		return ""
	})
	name := "validatingadmissionpolicy/host-network.cluster.policy.proviso.dev"
	r.kubectl(t, "", "patch", name, "--type=merge", `-p={"spec":{"validations":[{"expression":"true"}]}}`)
	took = poll.Eventually(t, "a change is undone", func() string {
		got := r.kubectl(t, "", "get", name, "-o=jsonpath={.spec.validations[0].expression}")
		if got == "true" {
			return got
		}
		return ""
	})
	t.Logf("a change of others is undone after %s", took)
	poll.Eventually(t, "an event tells", func() string {
		if got := events(); !strings.Contains(got, "host-network BarrierRestored") {
			return got
		}
		return ""
	})
	r.kubectl(t, "", "delete", "clusterauthorizationpolicy/host-network", "--timeout=1m")
	if got, err := r.Kubectl(t.Context(), "", "get", name); err == nil {
		t.Errorf("the policy is gone before its barrier: %s", got)
	}
	took = poll.Eventually(t, "a deleted policy denies nothing", func() string {
		if isAllowed, output := r.tries(t); !isAllowed {
			return output
		}
		return ""
	})
	t.Logf("a deleted policy denies nothing after %s", took)
	r.kubectl(t, writer, "delete", "-f", "-")
}
