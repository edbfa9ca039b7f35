/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// all stands for every verb, group, version or resource, in rules and in attributes.
const all = "*"

// scanLimit is the length of the longest list whose entries are compared one by one. Longer lists use a binary search: a policy of
// a namespace may have 64 rules with thousands of entries, and they are compared with each request in the namespace.
const scanLimit = 8

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
	// servedVersion is the only version that the rule matches. If it is empty, apiVersions alone decides.
	servedVersion string
}

func newRule(r *policyv1alpha1.PolicyRule, effect policyv1alpha1.PolicyEffect) rule {
	return rule{
		verbs: sorted(policy.VerbsOf(effect, r.Resources, r.Verbs)), apiGroups: sorted(r.APIGroups), apiVersions: sorted(r.APIVersions),
		resources: sorted(r.Resources), resourceNames: sorted(r.ResourceNames), paths: sorted(r.NonResourceURLs),
		grants: effect == policyv1alpha1.PolicyEffectAllow,
	}
}

func sorted(entries []string) []string { return slices.Sorted(slices.Values(entries)) }

// contains reports whether a sorted list has an entry.
func contains(entries []string, entry string) bool {
	if len(entries) <= scanLimit {
		return slices.Contains(entries, entry)
	}
	_, found := slices.BinarySearch(entries, entry)
	return found
}

// rulesOf returns the rules of a policy. The same reviews are served in two groups: a policy that restricts them in one of the
// groups restricts them in both. An Allow policy grants only what it names.
func rulesOf(spec *policyv1alpha1.AuthorizationPolicySpec) []rule {
	rules := make([]rule, 0, len(spec.Rules))
	for i := range spec.Rules {
		r := newRule(&spec.Rules[i], spec.Effect)
		rules = append(rules, r)
		//guard:engine-restrictions-reviews-other-group
		if !r.grants {
			rules = append(rules, r.inOtherGroup()...)
		}
	}
	return rules
}

// inOtherGroup returns a rule for the reviews of the group that the rule does not name, or none. In authorization.k8s.io, that
// rule applies only to the version that has the same reviews: kube-apiserver serves the others.
func (r *rule) inOtherGroup() []rule {
	official, own := slices.Contains(r.apiGroups, authorizationapi.GroupName), slices.Contains(r.apiGroups, authorizationapi.ProvisoGroupName)
	other := *r
	switch {
	case official == own || slices.Contains(r.apiGroups, all):
		return nil
	case official:
		other.apiGroups = []string{authorizationapi.ProvisoGroupName}
	default:
		other.apiGroups, other.servedVersion = []string{authorizationapi.GroupName}, authorizationv1alpha1.SchemeGroupVersion.Version
	}
	return []rule{other}
}

// match is the way in which a policy, or a rule, matches a request.
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

// matches returns how a rule matches a request. Attributes with * match only a rule for
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
	//guard:engine-restrictions-names-not-known
	if len(r.resourceNames) > 0 && !contains(r.resourceNames, a.GetName()) && (r.grants || !isForAnyName(a)) && !isForEveryName(a) {
		return noMatch
	}
	switch allVersions := a.GetAPIVersion() == all || a.GetAPIVersion() == ""; {
	case r.servedVersion != "" && allVersions:
		return matchSomeVersions
	//guard:engine-reviews-kube-apiserver
	case r.servedVersion != "" && a.GetAPIVersion() != r.servedVersion:
		return noMatch
	case len(r.apiVersions) == 0 || holds(r.apiVersions, a.GetAPIVersion()):
		return fullMatch
	case allVersions:
		return matchSomeVersions
	case r.grants:
		return noMatch
	}
	return matchOutsideVersions
}

func holds(values []string, value string) bool {
	if len(values) > scanLimit {
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
	if len(r.resources) > scanLimit {
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

// matches returns the best match of the rules of a policy for a request of one of its subjects.
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

// Rules are the rules of a specification, for code that must match requests as policies do.
type Rules struct {
	namespace string
	rules     []rule
}

// RulesOf returns the rules of a policy in the order of the specification. Of the reviews, which are served in two groups, they match
// only those in the group that the policy names.
func RulesOf(key Key, spec *policyv1alpha1.AuthorizationPolicySpec) Rules {
	rules := Rules{namespace: key.Namespace}
	for i := range spec.Rules {
		rules.rules = append(rules.rules, newRule(&spec.Rules[i], spec.Effect))
	}
	return rules
}

// Matching returns the indexes of the rules that match a request. A rule for other versions also matches if the effect of the policy
// is not Allow.
func (r Rules) Matching(a authorizer.Attributes) []int {
	if r.namespace != "" && (!a.IsResourceRequest() || a.GetNamespace() != r.namespace) {
		return nil
	}
	var matching []int
	for i := range r.rules {
		if r.rules[i].matches(a) != noMatch {
			matching = append(matching, i)
		}
	}
	return matching
}
