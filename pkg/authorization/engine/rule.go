/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// all stands for every verb, group, version or resource, in rules and in attributes.
const all = "*"

// few is how many entries of a list are compared one by one. Longer lists are searched: 64 rules have thousands of entries, which
// are looked at for every request of a namespace, whoever its authors are.
const few = 8

// rule describes requests. It is immutable, and shares no slice with the object that it
// was made from. All lists are sorted.
type rule struct {
	verbs         []string
	apiGroups     []string
	apiVersions   []string
	resources     []string
	resourceNames []string
	paths         []string
	// grants says that a version outside apiVersions is not matched.
	grants bool
}

func newRule(r *policyv1alpha1.PolicyRule, effect policyv1alpha1.PolicyEffect) rule {
	return rule{
		verbs: sorted(r.Verbs), apiGroups: sorted(r.APIGroups), apiVersions: sorted(r.APIVersions),
		resources: sorted(r.Resources), resourceNames: sorted(r.ResourceNames), paths: sorted(r.NonResourceURLs),
		grants: effect == policyv1alpha1.PolicyEffectAllow,
	}
}

func sorted(entries []string) []string { return slices.Sorted(slices.Values(entries)) }

// contains reports whether a sorted list has an entry.
func contains(entries []string, entry string) bool {
	if len(entries) <= few {
		return slices.Contains(entries, entry)
	}
	_, found := slices.BinarySearch(entries, entry)
	return found
}

// match says how a policy matches a request.
type match uint8

const (
	noMatch match = iota
	// matchOutsideVersions is a match by a rule that was written for other versions: the
	// condition does not count, and the policy applies unconditionally.
	matchOutsideVersions
	// matchSomeVersions is a match of a review about all versions by a rule that was written for some of them. The
	// policy applies on a condition: the answer differs between versions.
	matchSomeVersions
	fullMatch
)

// matches says how a rule matches. Attributes with * match only a rule for
// every value, except for versions: see matchSomeVersions.
func (r *rule) matches(a authorizer.Attributes) match {
	if !holds(r.verbs, a.GetVerb()) {
		return noMatch
	}
	if !a.IsResourceRequest() {
		if slices.ContainsFunc(r.paths, func(pattern string) bool { return pathMatches(pattern, a.GetPath()) }) {
			return fullMatch
		}
		return noMatch
	}
	if !holds(r.apiGroups, a.GetAPIGroup()) || !r.matchesResource(a.GetResource(), a.GetSubresource()) {
		return noMatch
	}
	if len(r.resourceNames) > 0 && !contains(r.resourceNames, a.GetName()) {
		return noMatch
	}
	switch {
	case len(r.apiVersions) == 0 || holds(r.apiVersions, a.GetAPIVersion()):
		return fullMatch
	case a.GetAPIVersion() == all || a.GetAPIVersion() == "":
		return matchSomeVersions
	case r.grants:
		return noMatch
	}
	return matchOutsideVersions
}

func holds(values []string, value string) bool {
	if len(values) > few {
		return contains(values, value) || contains(values, all)
	}
	for _, v := range values {
		if v == value || v == all {
			return true
		}
	}
	return false
}

// matchesResource has the rules of RBAC: * matches every resource and subresource, and
// */scale the subresource scale of every resource. A resource without subresource does
// not match its subresources.
func (r *rule) matchesResource(resource, subresource string) bool {
	if len(r.resources) > few {
		if subresource == "" {
			return holds(r.resources, resource)
		}
		return holds(r.resources, resource+"/"+subresource) || contains(r.resources, all+"/"+subresource)
	}
	for _, pattern := range r.resources {
		if pattern == all || namesResource(pattern, resource, subresource) {
			return true
		}
	}
	return false
}

func namesResource(pattern, resource, subresource string) bool {
	if subresource == "" {
		return pattern == resource
	}
	name, ok := strings.CutSuffix(pattern, subresource)
	if !ok {
		return false
	}
	name, ok = strings.CutSuffix(name, "/")
	return ok && (name == resource || name == all)
}

// pathMatches has the rules of RBAC: a * at the end stands for whatever follows.
func pathMatches(pattern, path string) bool {
	if strings.HasSuffix(pattern, all) {
		return strings.HasPrefix(path, strings.TrimRight(pattern, all))
	}
	return pattern == path
}

// matches says how the policy matches a request of one of its subjects.
func (p *Policy) matches(a authorizer.Attributes) match {
	if p.key.Namespace != "" && (!a.IsResourceRequest() || a.GetNamespace() != p.key.Namespace) {
		return noMatch
	}
	best := noMatch
	for i := range p.rules {
		best = max(best, p.rules[i].matches(a))
	}
	return best
}
