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
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// testIndirectWrites has users change excluded fields by requests whose objects do not show them. The users are those of mappings.
func testIndirectWrites(t *testing.T, r *rig, table *requests.Table) {
	t.Helper()
	r.MustApply(t, plane.TestData(t, "engines.yaml"))
	erin, frank := mappingRunners(t, r, table)
	for _, row := range table.Rows["before-indirect"] { // the custom resource may not be served yet
		poll.Eventually(t, row.String(), func() string { return erin.Try(t, row) })
	}
	r.MustApply(t, plane.TestData(t, "indirect.yaml"))
	r.effective(t, "fieldpermissionmapping/engines", "fieldpermissionmapping/fuels", "fieldpermissionmapping/pods")
	for name, isNamed := range map[string]bool{"engines": false, "fuels": true, "pods": false} {
		message := r.MustKubectl(t, "get", "fieldpermissionmapping/"+name, `-o=jsonpath={.status.conditions[?(@.type=="Effective")].message}`)
		if strings.Contains(message, "name the apiVersions in which the objects have it") != isNamed || strings.Contains(message, "all requests") {
			t.Errorf("%s: the status says %s", name, message)
		}
	}
	for _, row := range table.Rows["indirect"] {
		erin.Await(t, row)
	}
	frank.Run(t, table.Rows["indirect"])
}
