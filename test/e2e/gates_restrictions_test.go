/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// TestRestrictionsAndGates turns each gate off and on again, on one store. What is forbidden by an
// exclusion, by the second verb of a connection, and by a Deny policy for the mode conditional of
// impersonation is as the table of gates in docs/operations.md says.
func TestRestrictionsAndGates(t *testing.T) {
	t.Parallel()
	const (
		allGates = "--feature-gates=FineGrainedAuthorization=true,ConditionalImpersonation=true,ConditionalAuthorization=true,AuthorizeConnectWithCreate=true"
		ignore   = "--ignore-field-exclusions"
	)
	s, table := newSeparate(t, "restrictions", "--enable-demo-api", allGates), readRequests(t, "restrictions.yaml")
	s.apply(t, table.Manifest())
	start := func(args ...string) error {
		if err := s.KillProviso(); err != nil {
			return err
		}
		s.SetArgs(append([]string{"--enable-demo-api"}, args...)...)
		return s.StartProviso(t.Context(), "/readyz")
	}
	for _, tc := range []struct {
		name, gates string
		flag        []string
		refuses     bool     // to start
		allowed     []string // of the rows, which are forbidden otherwise
	}{
		{name: "all gates", gates: allGates},
		{name: "no FineGrainedAuthorization", gates: "--feature-gates=FineGrainedAuthorization=false,ConditionalImpersonation=true", refuses: true},
		{name: "no FineGrainedAuthorization, exclusions ignored", gates: "--feature-gates=FineGrainedAuthorization=false,ConditionalImpersonation=true", flag: []string{ignore}, allowed: []string{"exclusion"}},
		{name: "all gates again", gates: allGates},
		{name: "all gates, and a flag that means nothing then", gates: allGates, flag: []string{ignore}},
		{name: "no AuthorizeConnectWithCreate", gates: strings.Replace(allGates, "AuthorizeConnectWithCreate=true", "AuthorizeConnectWithCreate=false", 1), allowed: []string{"connection"}},
		{name: "no ConditionalImpersonation", gates: "--feature-gates=FineGrainedAuthorization=true,ConditionalImpersonation=false", allowed: []string{"impersonation"}},
		{name: "no ConditionalAuthorization", gates: "--feature-gates=ConditionalAuthorization=false", refuses: true},
		{name: "no ConditionalAuthorization, exclusions ignored", gates: "--feature-gates=ConditionalAuthorization=false", flag: []string{ignore}, allowed: []string{"exclusion", "impersonation"}},
		{name: "all gates at the end", gates: allGates},
	} {
		err := start(append(tc.flag, tc.gates)...)
		if tc.refuses {
			if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), `\"`, `"`), `enforcing them (FieldPermissionMapping "admin-access")`) {
				t.Errorf("%s: got %v, want the server to refuse to start, and to say why", tc.name, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		t.Log(tc.name)
		runner := s.runner()
		runner.Want = func(row *requests.Row) *requests.Outcome {
			if slices.Contains(tc.allowed, row.Name) {
				return &requests.Outcome{Code: http.StatusOK}
			}
			return &row.Outcome
		}
		awaitRows(t, runner, table.Rows["all"])
	}
}

// TestExclusionsThatCannotBeRead starts servers without the gate where it cannot be told whether
// fields are excluded.
func TestExclusionsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	m := newMapped(t, "unread-exclusions")
	must(t, m.KillProviso())
	m.SetArgs("--enable-demo-api")

	// A store out of reach does not keep the server from starting; then the mapping is found.
	must(t, m.KillEtcd())
	ended := make(chan error, 1)
	go func() { ended <- m.StartProviso(context.WithoutCancel(t.Context()), "/readyz") }()
	poll.Holds(t, "the server says that the store does not answer", func() bool {
		log, _ := m.Log()
		return strings.Contains(log, storeDoesNotAnswer)
	})
	must(t, m.StartEtcd(t.Context()))
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "set --ignore-field-exclusions") {
		t.Errorf("a store that was out of reach: got %v, want the server to end", err)
	}

	// What cannot be decoded may exclude anything.
	store := m.store(t)
	if _, err := store.Put(t.Context(), mappingKey+"admin-access", "garbage"); err != nil {
		t.Fatal(err)
	}
	if err := m.StartProviso(t.Context(), "/readyz"); err == nil || !strings.Contains(err.Error(), "reading FieldPermissionMappings") {
		t.Errorf("a mapping that cannot be decoded: got %v, want the server to refuse to start", err)
	}
	if _, err := store.Delete(t.Context(), mappingKey+"admin-access"); err != nil {
		t.Fatal(err)
	}
	if err := m.StartProviso(t.Context(), "/readyz"); err != nil {
		t.Errorf("no mapping: %v", err)
	}

	// The server becomes ready when a store that was out of reach tells that nothing is excluded.
	must(t, m.KillProviso())
	must(t, m.KillEtcd())
	log, _ := m.Log()
	before := strings.Count(log, storeDoesNotAnswer)
	go func() { ended <- m.StartProviso(context.WithoutCancel(t.Context()), "/readyz") }()
	poll.Holds(t, "the server says again that the store does not answer", func() bool {
		log, _ := m.Log()
		return strings.Count(log, storeDoesNotAnswer) > before
	})
	must(t, m.StartEtcd(t.Context()))
	if err := <-ended; err != nil {
		t.Errorf("a store without mappings that was out of reach: %v", err)
	}
}

const storeDoesNotAnswer = "The store does not answer, so that it is unknown whether fields are excluded"
