/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"context"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/barriertable"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// TestTable has Proviso write the barriers of the table. Its reviews agree with the outcomes.
func TestTable(t *testing.T) {
	t.Parallel()
	onEachKubernetes(t, testTable)
}

// TestTableWithFrontDoor is TestTable where kube-apiserver asks the front door, which folds conditional Deny to Deny until the barriers are in
// effect.
func TestTableWithFrontDoor(t *testing.T) {
	t.Parallel()
	testTable(t, newRig(t, cluster.Config{}, func(c *cluster.Cluster, ctx context.Context) error {
		// The Service kubernetes has no endpoints here, because kube-apiserver is on a loopback address.
		c.Args = []string{"--barriers", "--kube-apiserver-servers=" + c.KubeAPIServerURL()}
		return c.Up(ctx)
	}))
}

func testTable(t *testing.T, r *rig) {
	r.MustApply(t, barriertable.Setup)
	r.MustApply(t, barriertable.Policies)
	runner, rows := r.runner(), barriertable.Rows(t)
	runner.AwaitEach(t, rows)
	r.effective(t, "clusterauthorizationpolicy/prod-secrets", "clusterauthorizationpolicy/protected-namespaces")
	config, err := r.Client(cluster.Admin)
	if err != nil {
		t.Fatal(err)
	}
	// Where there is a front door, it goes on folding until all barriers are in effect.
	for _, row := range rows {
		if row.By == "" && strings.Contains(row.To, "dryRun=All") {
			runner.Await(t, row)
		}
	}
	if runner.Reviewer, err = requests.NewReviewer(config); err != nil {
		t.Fatal(err)
	}
	runner.Run(t, rows)
}
