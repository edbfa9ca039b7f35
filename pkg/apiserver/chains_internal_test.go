/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/authorization/order"
	"github.com/proviso-authz/proviso/pkg/enforcement"
)

// TestArchitectureListsTheAuthorizers compares the table of authorizers in ARCHITECTURE.md with the
// one that the chains are built from: the same authorizers, in the same order, in the same chains.
func TestArchitectureListsTheAuthorizers(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(content), "| authorizer | member of the chains for |")
	if !found {
		t.Fatal("there is no table of authorizers")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	var documented, want [][]string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([a-z, ]+) \\|").FindAllStringSubmatch(table, -1) {
		documented = append(documented, row[1:])
	}
	for _, entry := range order.Authorizers() {
		want = append(want, []string{entry.Name, entry.In.String()})
	}
	if diff := cmp.Diff(want, documented); diff != "" {
		t.Errorf("ARCHITECTURE.md (-code +document):\n%s", diff)
	}
}

// TestRestrictionsComeFirst asks that nothing that can grant comes before the authorizers that can
// only deny, apart from what no policy binds, and that the webhooks come before all that only grants.
func TestRestrictionsComeFirst(t *testing.T) {
	t.Parallel()
	unbound := []string{order.PrivilegedGroupsName, order.PathsName}
	if diff := cmp.Diff(append(unbound, order.ReservedName, order.ExcludeName, engine.RestrictingName, order.DenialsName, order.WebhooksName), order.Reserved()[:7]); diff != "" {
		t.Errorf("the first authorizers (-want +got):\n%s", diff)
	}
}

// TestNamesAreSubdomains asks for names of authorizers that are DNS-1123 subdomains, as k8s.io/apiserver requires: a union with another name fails.
func TestNamesAreSubdomains(t *testing.T) {
	t.Parallel()
	for _, name := range append(order.Reserved(), enforcement.ResidualName) {
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			t.Errorf("%q: %s", name, problems)
		}
	}
}

// TestNewChainsRefuses asks for what no server may be without.
func TestNewChainsRefuses(t *testing.T) {
	t.Parallel()
	denies, policies := authorizerfactory.NewAlwaysDenyAuthorizer(), &engine.Source{}
	for missing, config := range map[string]AuthorizerConfig{
		"policies":            {Fresh: authorization.DeciderOf(denies), Cached: authorization.DeciderOf(denies)},
		"fresh answers":       {Cached: authorization.DeciderOf(denies), Policies: policies},
		"cached answers":      {Fresh: authorization.DeciderOf(denies), Policies: policies},
		"a path that matches": {Fresh: authorization.DeciderOf(denies), Cached: authorization.DeciderOf(denies), Policies: policies, AlwaysAllowPaths: []string{"/a/*/b"}},
	} {
		if chains, err := NewChains(config); err == nil {
			t.Errorf("without %s: got %v", missing, chains)
		}
	}
}

// TestAfterPoliciesNeedsMembers asks for a chain after the policies only if the gate is on and the server has a member for it.
func TestAfterPoliciesNeedsMembers(t *testing.T) {
	t.Parallel()
	denies := authorization.DeciderOf(authorizerfactory.NewAlwaysDenyAuthorizer())
	for name, node := range map[string]authorization.Decider{"no members": nil, "the example authorizer": denies} {
		for _, isOn := range []bool{false, true} {
			chains, err := NewChains(AuthorizerConfig{Fresh: denies, Cached: denies, Policies: &engine.Source{}, Node: node, WebhooksAtFrontDoor: isOn})
			if err != nil || (chains.AfterPolicies != nil) != (isOn && node != nil) {
				t.Errorf("%s, the gate is on: %t: got %v, %v", name, isOn, chains.AfterPolicies, err)
			}
		}
	}
}

// TestReferenceDeniesBeforeItsChainIsBuilt asks members that call their own chain too early.
func TestReferenceDeniesBeforeItsChainIsBuilt(t *testing.T) {
	t.Parallel()
	attributes := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "alice", Groups: []string{"system:masters"}}, Verb: "get", Path: "/"}
	early := reference(func() *authorization.Chain { return nil })
	if decision, _, err := early.Authorize(t.Context(), attributes); decision != authorizer.DecisionDeny || err == nil {
		t.Errorf("got %v, %v, want a denial", decision, err)
	}
}
