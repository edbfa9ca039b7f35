/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"context"
	"errors"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// Restriction returns a policy that may deny, or hold back, some request that attributes describe,
// for their user. Decide matches * in attributes only with rules for every value, so that a Deny of
// one verb does not show in its decision, but an author who grants a wildcard must not be restricted
// in any part of it. An empty name in attributes is every name, an empty namespace every namespace. Of
// several such policies it returns the first by namespace and name. Before the first snapshot nothing is
// known: found is true, and the key is empty.
func (s *Source) Restriction(ctx context.Context, a authorizer.Attributes) (policy Key, found bool) {
	snapshot := s.StateOf(ctx).Value
	if snapshot == nil {
		return Key{}, true
	}
	var restrictions []Key
	for _, x := range []*index{&snapshot.restricting, &snapshot.granting} {
		for _, p := range x.policiesOf(a) {
			if p.conditionEffect() != authorization.EffectAllow && p.overlaps(a) {
				restrictions = append(restrictions, p.key)
			}
		}
	}
	if len(restrictions) == 0 {
		return Key{}, false
	}
	return slices.MinFunc(restrictions, Key.Compare), true
}

// policiesOf returns all policies about the user of attributes.
func (x *index) policiesOf(a authorizer.Attributes) []*Policy {
	policies := x.everybody.all()
	if u := a.GetUser(); u != nil {
		policies = append(policies, x.shards[shardOf(subject{name: u.GetName()})][subject{name: u.GetName()}].all()...)
		for _, group := range u.GetGroups() {
			of := subject{group: true, name: group}
			policies = append(policies, x.shards[shardOf(of)][of].all()...)
		}
	}
	return policies
}

func (b *bucket) all() []*Policy {
	if b == nil {
		return nil
	}
	return slices.Clone(b.policies)
}

// overlaps reports whether a policy matches some request that attributes describe.
func (p *Policy) overlaps(a authorizer.Attributes) bool {
	if p.key.Namespace != "" && (!a.IsResourceRequest() || a.GetNamespace() != "" && a.GetNamespace() != p.key.Namespace) {
		return false
	}
	return slices.ContainsFunc(p.rules, func(r rule) bool { return r.overlaps(a) })
}

// overlaps reports whether the rule matches some request that attributes describe. It ignores versions, because a
// restriction also applies in versions that its rule does not name.
func (r *rule) overlaps(a authorizer.Attributes) bool {
	if !meets(r.verbs, a.GetVerb()) {
		return false
	}
	if !a.IsResourceRequest() {
		return slices.ContainsFunc(r.paths, func(pattern string) bool { return pathsOverlap(pattern, a.GetPath()) })
	}
	return meets(r.apiGroups, a.GetAPIGroup()) &&
		slices.ContainsFunc(r.resources, func(pattern string) bool { return resourcesOverlap(pattern, a.GetResource(), a.GetSubresource()) }) &&
		(len(r.resourceNames) == 0 || a.GetName() == "" || slices.Contains(r.resourceNames, a.GetName()))
}

// meets reports whether values has the value or *. If the value is *, it reports whether values has any entry.
func meets(values []string, value string) bool {
	return len(values) > 0 && value == all || holds(values, value)
}

func resourcesOverlap(pattern, resource, subresource string) bool {
	if pattern == all || resource == all && subresource == "" {
		return true
	}
	name, sub, _ := strings.Cut(pattern, "/")
	return (name == resource || name == all || resource == all) && (sub == subresource || sub == all || subresource == all)
}

func pathsOverlap(a, b string) bool {
	return pathMatches(a, strings.TrimRight(b, all)) || pathMatches(b, strings.TrimRight(a, all))
}

// ForAnyName returns the attributes of a request whose name is not known: the name in attributes does not count. Policies that
// restrict some names restrict the request, and so do policies whose condition reads the name. Policies that allow only some
// names, or whose condition reads the name, do not allow it. Without a namespace, the same is true of conditions that read the
// namespace: by name, a namespace is in itself.
func ForAnyName(attributes authorizer.Attributes) authorizer.Attributes { return anyName{attributes} }

type anyName struct{ authorizer.Attributes }

func isForAnyName(a authorizer.Attributes) bool {
	_, ok := a.(anyName)
	return ok
}

var errAnyName = errors.New("the condition reads the name of the request, which is not known yet")
