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
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// testBoundary has users whom RBAC or a policy allows what the webhook denies, in every place in which Proviso decides: at kube-apiserver and on Proviso's own port,
// as authors of policies, in the checks of conditions, and in reviews. Beside each is a user whom the webhook does not deny.
func testBoundary(t *testing.T, r *rig) {
	r.MustApply(t, plane.TestData(t, "boundary.yaml"))
	runner := &requests.Runner{Sender: r.Sender}
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
