/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/apis/demo"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// servedGroups are the groups whose requests this server decides without the front door. That
// of the demo API counts whether or not it is served.
var servedGroups = []string{authorization.GroupName, demo.GroupName, policyv1alpha1.GroupName, "*"}

// effectiveness says whether something can come of a policy, and of its condition if that
// reads more than the request.
func (c *Controller) effectiveness(spec *policyv1alpha1.AuthorizationPolicySpec, readsMore bool) metav1.Condition {
	effective := metav1.Condition{Type: policyv1alpha1.PolicyEffective, Status: metav1.ConditionTrue, Reason: ReasonEnforced, Message: "requests are decided by the policy"}
	if readsMore {
		effective.Message = "requests are decided by the policy, and its condition is enforced on what they write"
	}
	var elsewhere, unenforced []string
	for i := range spec.Rules {
		rule := &spec.Rules[i]
		if len(rule.Resources) > 0 && !slices.ContainsFunc(rule.APIGroups, func(group string) bool { return slices.Contains(servedGroups, group) }) {
			elsewhere = append(elsewhere, fmt.Sprintf("rules[%d]", i))
		}
		if readsMore {
			unenforced = append(unenforced, c.unenforced(fmt.Sprintf("rules[%d]", i), rule)...)
		}
	}
	switch {
	case len(elsewhere) > 0:
		effective.Status, effective.Reason = metav1.ConditionFalse, ReasonNotEnforced
		effective.Message = strings.Join(elsewhere, ", ") + ": the resources are served by others, who ask this server through the front door only; reviews show the policy"
	case len(unenforced) > 0:
		effective.Status, effective.Reason = metav1.ConditionFalse, ReasonConditionNotEnforced
		effective.Message = abridged(unenforced) + ": the condition is not enforced there, because it depends on more than the request. An Allow policy grants nothing there, and other policies apply as if the condition were true. Reviews show it"
	}
	return effective
}

// unenforced returns what a rule names on which conditions are not enforced. What it
// names by * is enforced if some of it is.
func (c *Controller) unenforced(name string, rule *policyv1alpha1.PolicyRule) []string {
	if len(rule.NonResourceURLs) > 0 {
		return []string{name + " (paths)"}
	}
	var found []string
	for _, path := range rule.Resources {
		for _, verb := range rule.Verbs {
			if !c.enforces(verb, path, rule) {
				found = append(found, fmt.Sprintf("%s (%s %s)", name, verb, path))
			}
		}
	}
	return found
}

// enforces reports whether conditions are enforced on a verb of a resource in one of the
// groups and versions of a rule.
func (c *Controller) enforces(verb, path string, rule *policyv1alpha1.PolicyRule) bool {
	if c.config.Enforced == nil {
		return false
	}
	resource, subresource, _ := strings.Cut(path, "/")
	if path == "*" { // subresources, too
		subresource = "*"
	}
	versions := rule.APIVersions
	if len(versions) == 0 {
		versions = []string{"*"}
	}
	for _, group := range rule.APIGroups {
		for _, version := range versions {
			if c.config.Enforced(authorizer.AttributesRecord{
				Verb: verb, APIGroup: group, APIVersion: version, Resource: resource, Subresource: subresource, ResourceRequest: true,
			}) {
				return true
			}
		}
	}
	return false
}

// maxListed bounds how many parts of rules a message lists.
const maxListed = 8

func abridged(names []string) string {
	if len(names) > maxListed {
		names = append(slices.Clone(names[:maxListed]), "…")
	}
	return strings.Join(names, ", ")
}
