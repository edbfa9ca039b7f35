/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/proviso-authz/proviso/test/testutil/barriertable"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
)

func newSender(t *testing.T, r *rig) *barriertable.Sender {
	t.Helper()
	config, err := r.Client(cluster.Admin)
	if err != nil {
		t.Fatal(err)
	}
	sender, err := barriertable.NewSender(config)
	if err != nil {
		t.Fatal(err)
	}
	return sender
}

// waitForTable waits until the barriers of all policies are loaded: until one request of each policy is denied.
func waitForTable(t *testing.T, sender *barriertable.Sender) {
	t.Helper()
	first := map[string]*barriertable.Row{}
	rows := barriertable.Rows()
	for i := range rows {
		if row := &rows[i]; row.Denied != "" && first[row.Denied] == nil {
			first[row.Denied] = row
		}
	}
	for policy, row := range first {
		if !strings.Contains(row.Path, "dryRun") && !strings.Contains(row.Path, "/pods/") {
			separator := "?"
			if strings.Contains(row.Path, "?") {
				separator = "&"
			}
			row.Path += separator + "dryRun=All"
		}
		sender.Prepare(t, row)
		problem, deadline := "", time.Now().Add(time.Minute)
		for problem = sender.Try(t, row); problem != "" && time.Now().Before(deadline); problem = sender.Try(t, row) {
			time.Sleep(100 * time.Millisecond)
		}
		if problem != "" {
			t.Fatalf("the barrier of %s is not loaded: %s", policy, problem)
		}
	}
}

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
	r.kubectl(t, barriertable.Setup, "apply", "-f", "-")
	r.kubectl(t, barriertable.Policies, "apply", "-f", "-")
	sender := newSender(t, r)
	waitForTable(t, sender)
	if out, err := r.Kubectl(t.Context(), "", "wait", "--for=condition=Effective", "clusterauthorizationpolicies", "prod-secrets", "protected-namespaces", "--timeout=60s"); err != nil {
		t.Fatal(out, err, r.kubectl(t, "", "get", "clusterauthorizationpolicies", "prod-secrets", "-o", "yaml"))
	}
	config, err := r.Client(cluster.Admin)
	if err != nil {
		t.Fatal(err)
	}
	reviewer, err := barriertable.NewReviewer(config, sender)
	if err != nil {
		t.Fatal(err)
	}
	// Where there is a front door, it goes on folding until all barriers are in effect.
	rows := barriertable.Rows()
	for i := range rows {
		if row := &rows[i]; row.Denied == "" && strings.Contains(row.Path, "dryRun=All") {
			sender.Prepare(t, row)
			eventually(t, row.String()+" passes", func() string { return sender.Try(t, row) })
		}
	}
	barriertable.Run(t, sender, reviewer)
}
