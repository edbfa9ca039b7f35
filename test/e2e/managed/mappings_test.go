/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// mappings exclude fields of Deployments and ReplicaSets. RBAC allows erin and frank to write both. frank has the verbs of the fields, too.
const mappings = `
apiVersion: policy.proviso.dev/v1alpha1
kind: FieldPermissionMapping
metadata: {name: rollouts}
spec:
  description: who may pause rollouts, and set the tier
  resources: [{apiGroup: apps, apiVersions: [v1], resource: deployments}]
  fields:
  - {path: spec.paused, permission: pauses, exclusion: {}}
  - {path: 'metadata.labels["tier"]', permission: tier, exclusion: {newValues: value == "prod" || oldValue == "prod"}}
  - {path: status.observedGeneration, permission: observations, exclusion: {}}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: FieldPermissionMapping
metadata: {name: scaling}
spec:
  description: who may scale
  resources: [{apiGroup: apps, apiVersions: [v1], resource: replicasets}]
  fields:
  - {path: spec.replicas, permission: replicas, exclusion: {}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "mappings:writer"}
rules: [{apiGroups: [apps], resources: [deployments, deployments/status, replicasets, replicasets/scale], verbs: [get, list, create, update, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "mappings:fields"}
rules: [{apiGroups: [apps], resources: [deployments, deployments/status, replicasets, replicasets/scale], verbs: ["granular:pauses", "granular:tier", "granular:observations", "granular:replicas"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "mappings:writer"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "mappings:writer"}
subjects: [{kind: User, name: erin, apiGroup: rbac.authorization.k8s.io}, {kind: User, name: frank, apiGroup: rbac.authorization.k8s.io}, {kind: ServiceAccount, name: deployment-controller, namespace: kube-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "mappings:fields"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "mappings:fields"}
subjects: [{kind: User, name: frank, apiGroup: rbac.authorization.k8s.io}]
`

// TestMappings has users whom RBAC allows everything change excluded fields in each way, with and without the verb of the field, and other
// fields without it. Then another server takes over a group.
func TestMappings(t *testing.T) {
	t.Parallel()
	for _, kubernetes := range cluster.BuiltKubernetes(filepath.Join("..", "..", "..", "_output", "bin")) {
		t.Run(kubernetes.Name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, cluster.Config{Managed: true, Oldest: kubernetes.Oldest, Args: []string{"--barriers", "--feature-gates=FineGrainedAuthorization=true"}}, (*cluster.Cluster).Up)
			testMappings(t, r)
			testTakenOver(t, r)
		})
	}
}

// TestMappingsWithFrontDoor is TestMappings where kube-apiserver asks the front door before RBAC, also for the verb of a field.
func TestMappingsWithFrontDoor(t *testing.T) {
	t.Parallel()
	testMappings(t, newRig(t, cluster.Config{}, func(c *cluster.Cluster, ctx context.Context) error {
		c.Args = []string{"--barriers", "--feature-gates=FineGrainedAuthorization=true", "--kube-apiserver-servers=" + c.KubeAPIServerURL()}
		return c.Up(ctx)
	}))
}

func testMappings(t *testing.T, r *rig) {
	t.Helper()
	if got := r.kubectl(t, mappings, "apply", "--dry-run=server", "-f", "-"); !strings.Contains(got, "kube-apiserver will enforce the exclusion with the ValidatingAdmissionPolicy rollouts.mapping.policy.proviso.dev") {
		t.Errorf("a dry run tells %s", got)
	}
	table := requests.ReadFile(t, filepath.Join("testdata", "mappings.yaml"), nil)
	erin, frank := mappingRunners(t, r, table)
	erin.Run(t, table.Rows["before"])
	r.kubectl(t, mappings, "apply", "-f", "-")
	r.kubectl(t, "", "wait", "--for=condition=Effective", "--timeout=1m", "fieldpermissionmapping/rollouts", "fieldpermissionmapping/scaling")
	for _, row := range table.Rows["wait"] {
		erin.Await(t, row)
		frank.Await(t, row)
	}
	pause := table.Rows["wait"][0]
	erin.Run(t, table.Rows["mappings"])
	frank.Run(t, table.Rows["mappings"])
	testIndirectWrites(t, r, table)
	controller := []string{"--as=system:serviceaccount:kube-system:deployment-controller", "--as-group=system:serviceaccounts:kube-system", "--as-group=system:authenticated"}
	r.kubectl(t, "", append(controller, "patch", "deployment/web", "--subresource=status", "--type=merge", `-p={"status":{"observedGeneration":9}}`)...)

	r.kubectl(t, "", "patch", "validatingadmissionpolicy/rollouts.mapping.policy.proviso.dev", "--type=merge", `-p={"spec":{"validations":[{"expression":"true"}]}}`)
	erin.Await(t, pause)
	poll.Eventually(t, "an event tells", func() string {
		if got := r.kubectl(t, "", "get", "events", "-n=default", "-o=jsonpath={range .items[*]}{.involvedObject.kind} {.involvedObject.name} {.reason}\n{end}"); !strings.Contains(got, "FieldPermissionMapping rollouts BarrierRestored") {
			return got
		}
		return ""
	})
	r.kubectl(t, "", "delete", "fieldpermissionmapping/rollouts", "--timeout=1m")
	erin.Want = func(row *requests.Row) *requests.Outcome { return &requests.Outcome{Code: row.Allowed} }
	erin.Await(t, pause)
}

// mappingRunners returns a runner for erin, who lacks the verbs of the fields, and one for frank, who has them and sends dry runs.
func mappingRunners(t *testing.T, r *rig, table *requests.Table) (erin, frank *requests.Runner) {
	t.Helper()
	erin = &requests.Runner{Sender: newSender(t, r)}
	frank = &requests.Runner{Sender: erin.Sender, DryRun: true}
	frank.As = func(*requests.Row) *requests.User { return table.Users["frank"] }
	frank.Want = func(row *requests.Row) *requests.Outcome { return &requests.Outcome{Code: row.Allowed} }
	return erin, frank
}
