/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/plane"
)

// TestFields has permission on fields of resources that kube-apiserver serves: both stories of KEP-3617.
func TestFields(t *testing.T) {
	r := newRig(t, "", func(c *cluster.Config) {
		c.InnerDoor, c.Args = &cluster.InnerDoor{Configuration: plane.TestData(t, "inner-door-fields.yaml")}, []string{"--feature-gates=FineGrainedAuthorization=true"}
	})
	fields, runner := table(t, "fields.yaml"), r.runner()
	out, err := r.Kubectl(t.Context(), fields.Manifest(), "apply", "-f", "-")
	if want := "Warning: spec.resources[0]: the excluded fields of pods are checked only for users whom no other authorizer"; err != nil || !strings.Contains(out, want) {
		t.Fatalf("got %s, %v, want %s", out, err, want)
	}
	r.MustKubectl(t, "wait", "--for=condition=Ready", "clusterauthorizationpolicies,fieldpermissionmappings", "--all")
	rows := fields.Rows
	r.begin(t, rows)
	runner.Run(t, rows["fields"])
	t.Run("selectors", func(t *testing.T) { testSelectors(t, r) })
	t.Run("audit", func(t *testing.T) {
		r.audits(t, `update.inner-door.proviso.static.k8s.io/include":"allowed"`, `update.inner-door.proviso.static.k8s.io/include":"refused"`,
			`update.inner-door.proviso.static.k8s.io/include-fields":"[\"metadata.labels.team\"]"`, `create.inner-door.proviso.static.k8s.io/exclude":"refused"`)
	})
}
