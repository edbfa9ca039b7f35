/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package integration_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// TestPoliciesInAudit sends requests to two servers, one of which has policies in Audit, too: answers and stored objects are the same,
// but for warnings, and the policies have counted.
func TestPoliciesInAudit(t *testing.T) {
	t.Parallel()
	const (
		good = `object.spec.image == "good"`
		bad  = `object.spec.image == "bad"`
		all  = "Allow create,update,patch,delete,deletecollection,get,list virtualmachines"
	)
	type counts = map[string]engine.AuditDelta
	decided, undetermined := engine.AuditDelta{Decided: 1}, engine.AuditDelta{Undetermined: 1}
	for _, tc := range []struct {
		name         string
		rights       rights
		audited      rights
		method, path string
		body         string
		want         counts // by the beginning of the name of the policy
		warnings     int
	}{
		{"a Deny of a create", rights{all: ""}, rights{"Deny create virtualmachines Audit": good}, http.MethodPost, machinesPath, machineJSON(`"name":"two"`, "good"), counts{"deny": decided}, 1},
		{"a Deny of another object", rights{all: ""}, rights{"Deny create virtualmachines Audit": bad}, http.MethodPost, machinesPath, machineJSON(`"name":"two"`, "good"), counts{"deny": {}}, 0},
		{"a Deny of an update, by the stored object", rights{all: good}, rights{"Deny update virtualmachines Audit": `oldObject.spec.image == "old"`}, http.MethodPut, alicesMachine, machineJSON(named, "good"), counts{"deny": decided}, 1},
		{"a Deny of an update that is refused", rights{all: good}, rights{"Deny update virtualmachines Audit": `oldObject.spec.image == "old"`}, http.MethodPut, alicesMachine, machineJSON(named, "bad"), counts{"deny": decided}, 0},
		{"a Deny of an update that creates", rights{all: ""}, rights{"Deny create virtualmachines Audit": good}, http.MethodPut, machinesPath + "/two", machineJSON(`"name":"two"`, "good"), counts{"deny": decided}, 1},
		{"a Deny of a read", rights{all: ""}, rights{"Deny get virtualmachines Audit": ""}, http.MethodGet, alicesMachine, "", counts{"deny": decided}, 1},
		{"a Deny of a collection", rights{all: ""}, rights{"Deny deletecollection virtualmachines Audit": `oldObject.spec.image == "old"`}, http.MethodDelete, machinesPath, "", counts{"deny": decided}, 1},
		{"an Allow of a request without permission", nil, rights{"Allow create virtualmachines Audit": good}, http.MethodPost, machinesPath, machineJSON(`"name":"two"`, "good"), counts{"allow": undetermined}, 0},
		{"an Allow without a condition", nil, rights{"Allow create virtualmachines Audit": ""}, http.MethodPost, machinesPath, machineJSON(`"name":"two"`, "good"), counts{"allow": decided}, 0},
		{"a NoOpinion", rights{all: ""}, rights{"NoOpinion create virtualmachines Audit": good}, http.MethodPost, machinesPath, machineJSON(`"name":"two"`, "good"), counts{"noopinion": decided}, 0},
		{"errors", rights{all: ""}, rights{"Deny create virtualmachines Audit": `object.spec.disks[7].name == "x"`}, http.MethodPost, machinesPath, machineJSON(`"name":"two"`, "good"), counts{"deny": {Decided: 1, Errors: 1}}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			both := rights{}
			maps.Copy(both, tc.rights)
			maps.Copy(both, tc.audited)
			without, with := newEnforcing(t, tc.rights), newEnforcing(t, both)
			var answers, stored []string
			var warnings []string
			for _, e := range []*enforcing{without, with} {
				e.must(t, http.MethodPost, machinesPath, machineJSON(named, "old"))
				got := send(e.Server, "alice", tc.method, tc.path, jsonType, tc.body)
				body := ""
				if got.Code >= http.StatusBadRequest {
					body = got.Body.String()
				}
				answers, stored, warnings = append(answers, fmt.Sprint(got.Code, body)), append(stored, fmt.Sprint(e.stored(t))), got.Header().Values("Warning")
			}
			if diff := cmp.Diff(answers[0], answers[1]) + cmp.Diff(stored[0], stored[1]); diff != "" {
				t.Errorf("policies in Audit change what happens (-want +got):\n%s", diff)
			}
			if len(warnings) != tc.warnings || tc.warnings > 0 && !strings.Contains(warnings[0], "would be denied: policy=deny-") {
				t.Errorf("got the warnings %q, want %d", warnings, tc.warnings)
			}
			for key := range tc.audited.compile(t) {
				effect, _, _ := strings.Cut(key.Name, "-")
				got := with.builder.Get(key).AuditCounts().Take()
				want := tc.want[effect]
				want.Last = got.Last
				if got != want {
					t.Errorf("%s: got %+v, want %+v", key.Name, got, want)
				}
			}
		})
	}
}
