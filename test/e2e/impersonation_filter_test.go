/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// auditedReplica starts a replica that keeps an audit log.
func auditedReplica(t *testing.T, args ...string) (url, log string) {
	t.Helper()
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log = filepath.Join(dir, "audit.log")
	url, stop, err := stack.Replica(t.Context(), append([]string{"--audit-policy-file=" + policy, "--audit-log-path=" + log}, args...)...)
	t.Cleanup(stop)
	if err != nil {
		t.Fatal(err)
	}
	return url, log
}

// checkFilter makes the requests to the filter of Proviso. Nobody has permissions of the mode
// conditional here, so that it must do what kube-apiserver did.
func (m *impersonationMatrix) checkFilter(t *testing.T, events map[string]auditv1.Event) {
	t.Helper()
	url, log := auditedReplica(t, "--feature-gates=ConditionalImpersonation=true")
	messages := m.makeRequests(t, url)
	got := impersonationEvents(t, log, m.rows)
	for i, row := range m.rows {
		want, did := wantedStatus(events[row.auditID()], m.messages[i]), wantedStatus(got[row.auditID()], messages[i])
		if diff := cmp.Diff(want, did, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: (-kube-apiserver +proviso)\n%s", row, diff)
		}
		if user := got[row.auditID()].User.Username; user != events[row.auditID()].User.Username {
			t.Errorf("%s: audit has the requester %q, want %q", row, user, events[row.auditID()].User.Username)
		}
	}
}
