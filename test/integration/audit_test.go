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
	"github.com/proviso-authz/proviso/test/testutil/rows"
)

// TestPoliciesInAudit sends requests to two servers, one of which has policies in Audit, too: answers and stored objects are the same,
// but for warnings, and the policies have counted.
func TestPoliciesInAudit(t *testing.T) {
	t.Parallel()
	type row struct {
		Rights, Audited rights
		Method, Path    string
		Name, Image     string // of the machine in the body
		Want            map[string]engine.AuditDelta
		Warnings        int
	}
	rows.Run(t, "testdata/audit.yaml", func(t *testing.T, tc row) {
		both := rights{}
		maps.Copy(both, tc.Rights)
		maps.Copy(both, tc.Audited)
		body := ""
		if tc.Name != "" {
			body = machineJSON(fmt.Sprintf(`"name":%q`, tc.Name), tc.Image)
		}
		without, with := newEnforcing(t, tc.Rights), newEnforcing(t, both)
		var answers, stored []string
		var warnings []string
		for _, e := range []*enforcing{without, with} {
			e.must(t, http.MethodPost, machinesPath, machineJSON(named, "old"))
			got := send(e.Server, "alice", tc.Method, machinesPath+tc.Path, jsonType, body)
			refusal := ""
			if got.Code >= http.StatusBadRequest {
				refusal = got.Body.String()
			}
			answers, stored, warnings = append(answers, fmt.Sprint(got.Code, refusal)), append(stored, fmt.Sprint(e.stored(t))), got.Header().Values("Warning")
		}
		if diff := cmp.Diff(answers[0], answers[1]) + cmp.Diff(stored[0], stored[1]); diff != "" {
			t.Errorf("policies in Audit change what happens (-want +got):\n%s", diff)
		}
		if len(warnings) != tc.Warnings || tc.Warnings > 0 && !strings.Contains(warnings[0], "would be denied: policy=deny-") {
			t.Errorf("got the warnings %q, want %d", warnings, tc.Warnings)
		}
		for key := range tc.Audited.compile(t) {
			effect, _, _ := strings.Cut(key.Name, "-")
			got := with.builder.Get(key).AuditCounts().Take()
			want := tc.Want[effect]
			want.Last = got.Last
			if got != want {
				t.Errorf("%s: got %+v, want %+v", key.Name, got, want)
			}
		}
	})
}
