/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package typechecking

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/suggestion"
)

// all stands for every group, version, resource or verb of a rule.
const all = "*"

// maxNames bounds the names of resources that are looked up for one policy.
const maxNames = 1024

// ResourceVerbs are the verbs of requests for resources.
var ResourceVerbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// pathVerbs are the verbs of requests for paths.
var pathVerbs = []string{"get", "post", "put", "patch", "delete", "head", "options"}

// verbsMeant are the verbs of Kubernetes for verbs of other systems.
var verbsMeant = map[string][]string{
	"read": {"get", "list", "watch"}, "view": {"get", "list", "watch"}, "head": {"get"},
	"write": {"create", "update", "patch"}, "edit": {"update", "patch"}, "modify": {"update", "patch"}, "put": {"update"}, "apply": {"patch"},
	"post": {"create"}, "add": {"create"}, "remove": {"delete"}, "destroy": {"delete"}, "connect": {"get", "create"},
}

// otherResources are resources that no server publishes, but that authorizers are asked about.
var otherResources = map[string]sets.Set[string]{
	"":                      sets.New("users", "groups"),
	"authentication.k8s.io": sets.New("users", "groups", "uids", "userextras", "serviceaccounts", "nodes"),
	"certificates.k8s.io":   sets.New("signers"),
}

// otherSubresources are subresources that no server publishes, by the resource.
var otherSubresources = map[string]sets.Set[string]{
	all:              sets.New("finalizers"), // of every owner that blocks deletion
	"nodes":          sets.New("checkpoint", "configz", "healthz", "log", "metrics", "pods", "spec", "stats"),
	"resourceclaims": sets.New("binding", "driver"),
}

// names finds mistakes in the rules of a policy.
type names struct {
	published *Published
	// namespace is the namespace of the policy, or empty.
	namespace string
	warnings  []policyv1alpha1.ExpressionWarning
	failures  []error
	looked    int
}

// checkNames returns warnings about groups, resources, versions and verbs in the rules of a policy that no server publishes. It
// does not look up names in groups that are not known completely, and returns an error for each of these groups. In the rules of a policy of a
// namespace, it also warns of resources without a namespace.
func checkNames(published *Published, namespace string, rules []policyv1alpha1.PolicyRule) ([]policyv1alpha1.ExpressionWarning, []error) {
	n := &names{published: published, namespace: namespace}
	for i := range rules {
		if n.isOver() {
			break
		}
		path := field.NewPath("spec", "rules").Index(i)
		if len(rules[i].NonResourceURLs) > 0 {
			n.pathVerbs(rules[i].Verbs, path.Child("verbs"))
			continue
		}
		n.resourceRule(&rules[i], path)
	}
	return n.warnings[:min(len(n.warnings), MaxWarnings)], n.failures
}

func (n *names) isOver() bool {
	return len(n.warnings) >= MaxWarnings || len(n.failures) >= maxFailures || n.looked >= maxNames
}

func (n *names) warn(path *field.Path, format string, args ...any) {
	n.warnings = append(n.warnings, policyv1alpha1.ExpressionWarning{FieldRef: path.String(), Warning: fmt.Sprintf(format, args...)})
}

func (n *names) pathVerbs(verbs []string, path *field.Path) {
	for i, verb := range verbs {
		if verb != all && !slices.Contains(pathVerbs, verb) {
			n.warn(path.Index(i), "no request for a path has the verb %q: the verbs are %s", verb, strings.Join(pathVerbs, ", "))
		}
	}
}

func (n *names) resourceRule(rule *policyv1alpha1.PolicyRule, path *field.Path) {
	groups, known := n.groups(rule.APIGroups, path.Child("apiGroups"))
	verbs, versions, anything := sets.New[string](), sets.New[string](), !known
	for i, name := range rule.Resources {
		if !known || n.isOver() {
			break
		}
		n.looked++
		f, everything := n.resource(groups, name, path.Child("resources").Index(i))
		anything = anything || everything
		verbs, versions = verbs.Union(f.verbs), versions.Union(f.versions)
	}
	n.verbs(rule.Verbs, verbs, anything, path.Child("verbs"))
	if anything || len(versions) == 0 {
		return
	}
	for i, version := range rule.APIVersions {
		if version != all && !versions.Has(version) {
			n.warn(path.Child("apiVersions").Index(i), "no resource of the rule is served in the version %q: the versions are %s", version, strings.Join(sets.List(versions), ", "))
		}
	}
}

// groups returns the groups in which to look for the resources of a rule. It returns false if the resources may be in a group
// that is not known, or not known completely.
func (n *names) groups(groups []string, path *field.Path) ([]string, bool) {
	if slices.Contains(groups, all) {
		if err := n.published.failure; err != nil || len(n.published.failures) > 0 {
			return nil, false // a wildcard asks for nothing in particular
		}
		return n.published.names(), true
	}
	known := true
	for i, group := range groups {
		if n.isOver() {
			return nil, false
		}
		if err := n.published.failureOf(group); err != nil {
			known = false
			n.failures = append(n.failures, fmt.Errorf("the resources of the API group %q: %w", group, err))
			continue
		}
		if _, ok := n.published.groups[group]; !ok {
			known = false
			n.warn(path.Index(i), "no server has the API group %q%s", group, n.groupMeant(group))
		}
	}
	return groups, known
}

func (n *names) groupMeant(group string) string {
	name, _, hasVersion := strings.Cut(group, "/")
	switch _, ok := n.published.groups[name]; {
	case group == "core" || group == "v1":
		return `; the core group is ""`
	case hasVersion && ok:
		return fmt.Sprintf("; did you mean %q? Versions belong into apiVersions", name)
	}
	var candidates []string
	for _, other := range n.published.names() {
		if prefix, _, ok := strings.Cut(other, "."); ok && prefix == group {
			candidates = append(candidates, other)
		}
	}
	if len(candidates) > 0 {
		return "; did you mean " + suggestion.Quoted(candidates[:min(len(candidates), 3)], "or") + "?"
	}
	return suggestion.DidYouMean(group, n.published.names())
}

// resource looks up one entry of the resources of a rule. It returns true if the versions and verbs of the entry cannot be
// checked: it has a wildcard, or no server publishes it.
func (n *names) resource(groups []string, entry string, path *field.Path) (f found, everything bool) {
	name, sub, hasSub := strings.Cut(entry, "/")
	f, ok := n.published.find(groups, name)
	isOther := slices.ContainsFunc(groups, func(g string) bool { return otherResources[g].Has(name) })
	// A request for a namespace is in the namespace with its name.
	if n.namespace != "" && (ok || isOther) && !f.isNamespaced && name != "namespaces" && name != "serviceaccounts" {
		n.warn(path, "%q has no namespace, so that this policy, which is about requests in the namespace %q, never matches: write a ClusterAuthorizationPolicy", entry, n.namespace)
	}
	if entry == all || isOther {
		return found{}, true
	}
	if !ok && name != all {
		n.warn(path, "no resource %q in %s%s", name, inGroups(groups), n.resourceMeant(groups, name))
		return found{}, true // the other names cannot be checked
	}
	if !hasSub {
		return f, false
	}
	if otherSubresources[all].Has(sub) || otherSubresources[name].Has(sub) {
		return found{}, true
	}
	subresources := n.published.subresources(groups, name)
	if !slices.Contains(subresources, sub) {
		n.warn(path, "no subresource %q of %s%s", sub, describe(name, groups), subresourceMeant(sub, subresources))
		return found{}, true
	}
	if name == all {
		return found{}, true
	}
	f, _ = n.published.find(groups, entry)
	return f, false
}

func describe(resource string, groups []string) string {
	if resource == all {
		return "any resource in " + inGroups(groups)
	}
	return fmt.Sprintf("%q", resource)
}

func subresourceMeant(name string, there []string) string {
	if meant := suggestion.DidYouMean(name, there); meant != "" {
		return meant
	}
	if len(there) == 0 {
		return ", which has none"
	}
	return "; there are " + suggestion.Quoted(there[:min(len(there), 8)], "and")
}

// inGroups names groups.
func inGroups(groups []string) string {
	switch {
	case len(groups) == 1 && groups[0] == "":
		return `the core API group ""`
	case len(groups) == 1:
		return fmt.Sprintf("the API group %q", groups[0])
	case len(groups) <= 4:
		return "the API groups " + suggestion.Quoted(groups, "or")
	}
	return fmt.Sprintf("the %d API groups", len(groups))
}

func (n *names) resourceMeant(groups []string, name string) string {
	if resource, group, ok := strings.Cut(name, "."); ok && slices.Contains(groups, group) {
		if _, ok := n.published.find(groups, resource); ok {
			return fmt.Sprintf("; did you mean %q? Groups belong into apiGroups", resource)
		}
	}
	if called := n.published.called(groups, name); len(called) > 0 {
		return "; did you mean " + suggestion.Quoted(called[:min(len(called), 3)], "or") + "?"
	}
	if of := n.published.withSubresource(groups, name); len(of) > 0 && len(of) <= 3 {
		return "; did you mean " + suggestion.Quoted(of, "or") + "?"
	}
	if others := n.published.groupsWith(name); len(others) > 0 {
		return "; it is in " + inGroups(others)
	}
	if meant := suggestion.DidYouMean(name, n.published.resources(groups)); meant != "" {
		return meant
	}
	return suggestion.DidYouMean(name, n.published.resources(n.published.names()))
}

// verbs warns about verbs of requests that no resource of the rule has, and about other verbs that look like a verb of requests.
// It accepts all further verbs, because other authorizers and conditions define verbs of their own.
func (n *names) verbs(verbs []string, there sets.Set[string], anything bool, path *field.Path) {
	for i, verb := range verbs {
		meant, isOther := verbsMeant[verb]
		switch {
		case slices.Contains(ResourceVerbs, verb):
			if !anything && len(there) > 0 && !there.Has(verb) {
				n.warn(path.Index(i), "no resource of the rule has the verb %q: the verbs are %s", verb, strings.Join(sets.List(there), ", "))
			}
		case there.Has(verb), strings.Contains(verb, ":"):
		case isOther:
			n.warn(path.Index(i), "no request for a resource has the verb %q; did you mean %s?", verb, suggestion.Quoted(meant, "and"))
		default:
			if near := suggestion.DidYouMean(verb, ResourceVerbs); near != "" {
				n.warn(path.Index(i), "no request for a resource has the verb %q%s", verb, near)
			}
		}
	}
}
