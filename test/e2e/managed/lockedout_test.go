/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// testLockedOut has a policy deny everything to everybody. A cluster administrator can change neither it, nor Proviso, and gets out as docs/operations.md says.
func testLockedOut(t *testing.T, r *rig) {
	t.Helper()
	certificate, key, err := r.NewUser("operator")
	if err != nil {
		t.Fatal(err)
	}
	operator := func(command string) (string, error) {
		return r.Kubectl(t.Context(), "", append(strings.Fields(command), "--client-certificate="+certificate, "--client-key="+key)...)
	}
	manifest := plane.TestData(t, "locked-out.yaml")
	r.MustApply(t, manifest)
	const write = "create configmap written --namespace=default --dry-run=server"
	poll.Holds(t, "the policy refuses the writes of the operator", func() bool {
		_, err := operator(write)
		return err != nil && strings.Contains(err.Error(), "policy=locked-out")
	})
	for _, command := range []string{
		"delete clusterauthorizationpolicy/locked-out",
		"patch clusterauthorizationpolicy/locked-out --type=merge --patch={\"spec\":{\"enforcement\":\"Audit\"}}",
		"delete deployment/proviso-apiserver --namespace=proviso-system",
	} {
		if out, err := operator(command); err == nil || !strings.Contains(err.Error(), "policy=locked-out") {
			t.Errorf("%s: got %v %s, want a refusal by the policy", command, err, out)
		}
	}
	if out, err := operator("delete clusterauthorizationpolicy/locked-out --as=operator --as-group=system:masters"); err != nil {
		t.Errorf("as a member of system:masters: got %v %s", err, out)
	}
	poll.Eventually(t, "the operator writes again", func() string {
		if _, err := operator(write); err != nil {
			return err.Error()
		}
		return ""
	})
	r.MustDelete(t, manifest)
}
