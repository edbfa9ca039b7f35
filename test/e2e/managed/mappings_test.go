/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"context"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// TestMappings has users whom RBAC allows everything change excluded fields in each way, with and without the verb of the field, and other
// fields without it. Then another server takes over a group.
func TestMappings(t *testing.T) {
	t.Parallel()
	onEach(t, cluster.Config{Args: []string{"--barriers", "--feature-gates=FineGrainedAuthorization=true"}}, (*cluster.Cluster).Up, func(t *testing.T, r *rig) {
		testMappings(t, r)
		testTakenOver(t, r)
	})
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
	table := table(t, "mappings.yaml")
	if got, err := r.Kubectl(t.Context(), table.Manifest(), "apply", "--dry-run=server", "-f", "-"); err != nil || strings.Contains(got, "no ValidatingAdmissionPolicy enforces the exclusion") {
		t.Errorf("a dry run tells %s, %v", got, err)
	}
	erin, frank := mappingRunners(t, r, table)
	erin.Run(t, table.Rows["before"])
	r.MustApply(t, table.Manifest())
	r.effective(t, "fieldpermissionmapping/rollouts", "fieldpermissionmapping/scaling")
	for _, row := range table.Rows["wait"] {
		erin.Await(t, row)
		frank.Await(t, row)
	}
	pause := table.Rows["wait"][0]
	erin.Run(t, table.Rows["mappings"])
	frank.Run(t, table.Rows["mappings"])
	testIndirectWrites(t, r, table)
	controller := []string{"--as=system:serviceaccount:kube-system:deployment-controller", "--as-group=system:serviceaccounts:kube-system", "--as-group=system:authenticated"}
	r.MustKubectl(t, append(controller, "patch", "deployment/web", "--subresource=status", "--type=merge", `-p={"status":{"observedGeneration":9}}`)...)

	r.MustKubectl(t, "patch", "validatingadmissionpolicy/rollouts.mapping.policy.proviso.dev", "--type=merge", `-p={"spec":{"validations":[{"expression":"true"}]}}`)
	erin.Await(t, pause)
	r.tells(t, "FieldPermissionMapping rollouts BarrierRestored")
	r.MustKubectl(t, "delete", "fieldpermissionmapping/rollouts", "--timeout=1m")
	erin.Want = func(row *requests.Row) *requests.Outcome { return &requests.Outcome{Code: row.Allowed} }
	erin.Await(t, pause)
}

// mappingRunners returns a runner for erin, who lacks the verbs of the fields, and one for frank, who has them and sends dry runs.
func mappingRunners(t *testing.T, r *rig, table *requests.Table) (erin, frank *requests.Runner) {
	t.Helper()
	erin = r.runner()
	frank = &requests.Runner{Sender: erin.Sender, DryRun: true}
	frank.As = func(*requests.Row) *requests.User { return table.Users["frank"] }
	frank.Want = func(row *requests.Row) *requests.Outcome { return &requests.Outcome{Code: row.Allowed} }
	return erin, frank
}
