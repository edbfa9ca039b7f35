/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package order has the authorizers of a server in the order in which chains call them. The server and the kubectl plugin build their chains from it.
//
// The package must not import what builds the authorizers.
package order

import (
	"slices"
	"strings"

	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// The names of the authorizers, as they appear in conditions and messages. Package engine has the
// names of the authorizers for policies.
const (
	PrivilegedGroupsName = "always-allow-groups.proviso.dev"
	PathsName            = "always-allow-paths.proviso.dev"
	// ReservedName is the authorizer that denies to impersonate what is reserved for Proviso.
	ReservedName = "reserved.proviso.dev"
	ExcludeName  = "exclude.granular.proviso.dev"
	// DenialsName is kube-apiserver for its Deny only, before the webhooks.
	DenialsName       = "deny.kube-apiserver"
	KubeAPIServerName = "kube-apiserver"
	// WebhooksName is a placeholder for the webhooks of --authorization-config. A chain replaces
	// it by the webhooks, which have their own names.
	WebhooksName = "webhooks.proviso.dev"
	NodeName     = "node.proviso.dev"
	IncludeName  = "include.granular.proviso.dev"
)

// Chains is a set of chains of a server.
type Chains uint8

// The chains.
const (
	InReviews Chains = 1 << iota
	InRequests
	InChecks
	InRestrictions
	InFrontDoor
	InAfterPolicies
	InInnerDoor
)

// InServer are the chains for requests and reviews of a server, and for their secondary checks.
const InServer = InReviews | InRequests | InChecks

// String lists the chains by the names that ARCHITECTURE.md uses.
func (c Chains) String() string {
	var names []string
	for i, name := range []string{"reviews", "requests", "checks", "restrictions", "front door", "after policies", "inner door"} {
		if c&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// Authorizer is a row of the table: an authorizer, and the chains that have it as a member.
type Authorizer struct {
	Name string
	In   Chains
}

// table lists all authorizers in the order in which a chain calls them: what can only deny, then the webhooks, which can do both, and then what
// only allows. So no Allow hides a Deny, except for an Allow of a webhook before another webhook, and for every Allow at the inner door, where kube-apiserver comes
// last. ARCHITECTURE.md has the same list with reasons.
var table = []Authorizer{
	{Name: PrivilegedGroupsName, In: InServer | InRestrictions},
	{Name: PathsName, In: InRequests},
	{Name: ReservedName, In: InServer | InRestrictions},
	{Name: ExcludeName, In: InServer | InInnerDoor},
	//guard:inner-door-deny-policies
	{Name: engine.RestrictingName, In: InServer | InRestrictions | InFrontDoor | InInnerDoor},
	{Name: DenialsName, In: InServer},
	//guard:chains-webhooks-decide-checks-conditions
	{Name: WebhooksName, In: InServer | InAfterPolicies | InInnerDoor},
	//guard:inner-door-kube-apiserver-asked-last
	{Name: KubeAPIServerName, In: InServer},
	{Name: engine.GrantingName, In: InServer | InFrontDoor | InInnerDoor},
	{Name: engine.NamespacedName, In: InServer | InFrontDoor | InInnerDoor},
	{Name: NodeName, In: InServer | InAfterPolicies},
	{Name: IncludeName, In: InServer | InInnerDoor},
	// kube-apiserver asks the front door before its other authorizers, so that they decide what Proviso leaves open.
	{Name: KubeAPIServerName, In: InInnerDoor},
}

// Authorizers returns all authorizers in their order.
func Authorizers() []Authorizer { return slices.Clone(table) }

// Reserved returns the names of all authorizers in their order. A webhook must not have one of these names.
func Reserved() []string { return Members(^Chains(0)) }

// Members returns the names of the members of chains in their order.
func Members(in Chains) (names []string) {
	for _, entry := range table {
		if entry.In&in != 0 {
			names = append(names, entry.Name)
		}
	}
	return names
}
