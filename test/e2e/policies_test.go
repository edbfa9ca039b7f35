/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// TestPolicies applies policies, and sends what follows from each through kube-apiserver: what reviews say, which requests are refused, what authors may not write,
// which policies are not stored, and that nothing is left of a policy that is deleted.
func TestPolicies(t *testing.T) {
	t.Parallel()
	table, runner := readRequests(t, "policies.yaml"), &requests.Runner{Sender: newSender(t, "admin")}
	apply(t, table.Manifest())
	for _, group := range []string{"reviews", "requests", "authors", "bad policies", "withdrawn"} {
		t.Run(group, func(t *testing.T) {
			runner.Await(t, table.Rows[group][0])
			runner.Run(t, table.Rows[group])
		})
	}
	awaitRows(t, runner, table.Rows["is gone"])
}
