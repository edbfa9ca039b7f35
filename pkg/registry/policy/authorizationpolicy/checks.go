/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationpolicy

import (
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/apis/policy"
)

const all = "*"

// orElse returns entries, or, if the list is omitted, a list with the given entry.
func orElse(entries []string, omitted string) []string {
	if len(entries) == 0 {
		return []string{omitted}
	}
	return entries
}

// checkCount returns the number of checks. It cannot overflow, because of the bounds of a
// policy.
func checkCount(spec *policy.AuthorizationPolicySpec) int {
	n := 0
	for _, rule := range spec.Rules {
		if len(rule.NonResourceURLs) > 0 {
			n += len(rule.Verbs) * len(rule.NonResourceURLs)
			continue
		}
		n += len(rule.Verbs) * len(rule.APIGroups) * len(orElse(rule.APIVersions, all)) * len(rule.Resources) * len(orElse(rule.ResourceNames, ""))
	}
	return n
}

// checks returns the requests that a specification describes. A wildcard is asked about
// literally, so that only users with permission for the wildcard may grant it. An empty name means
// every name.
func checks(spec *policy.AuthorizationPolicySpec, namespace string) (described []authorizer.AttributesRecord) {
	for i := range spec.Rules {
		rule := &spec.Rules[i]
		for _, verb := range rule.Verbs {
			for _, path := range rule.NonResourceURLs {
				described = append(described, authorizer.AttributesRecord{Verb: verb, Path: path})
			}
			if len(rule.NonResourceURLs) > 0 {
				continue
			}
			for _, group := range rule.APIGroups {
				for _, version := range orElse(rule.APIVersions, all) {
					for _, combined := range rule.Resources {
						resource, subresource, _ := strings.Cut(combined, "/")
						for _, name := range orElse(rule.ResourceNames, "") {
							described = append(described, authorizer.AttributesRecord{
								Verb: verb, APIGroup: group, APIVersion: version, Resource: resource, Subresource: subresource,
								Namespace: namespace, Name: name, ResourceRequest: true,
							})
						}
					}
				}
			}
		}
	}
	return described
}

// describe prints a check as a rule, much as the error messages of RBAC print a rule.
func describe(check authorizer.AttributesRecord) string {
	if !check.ResourceRequest {
		return fmt.Sprintf("{Verbs:[%q], NonResourceURLs:[%q]}", check.Verb, check.Path)
	}
	resource := check.Resource
	if check.Subresource != "" {
		resource += "/" + check.Subresource
	}
	text := fmt.Sprintf("Verbs:[%q], APIGroups:[%q], Resources:[%q]", check.Verb, check.APIGroup, resource)
	if check.APIVersion != all {
		text += fmt.Sprintf(", APIVersions:[%q]", check.APIVersion)
	}
	if check.Name != "" {
		text += fmt.Sprintf(", ResourceNames:[%q]", check.Name)
	}
	if check.Namespace != "" {
		return fmt.Sprintf("{%s} in namespace %q", text, check.Namespace)
	}
	return "{" + text + "}"
}
