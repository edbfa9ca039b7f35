/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationpolicy

import (
	"fmt"
	"iter"
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

// questionsIn returns the number of questions. It cannot overflow, because of the bounds of a
// policy.
func questionsIn(spec *policy.AuthorizationPolicySpec) int {
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

// questions returns the requests that a specification describes. A wildcard is asked about
// literally, so that only users with permission for the wildcard may grant it. An empty name means
// every name.
func questions(spec *policy.AuthorizationPolicySpec, namespace string) iter.Seq[authorizer.AttributesRecord] {
	return func(yield func(authorizer.AttributesRecord) bool) {
		for i := range spec.Rules {
			ask := questionsOfPaths
			if len(spec.Rules[i].NonResourceURLs) == 0 {
				ask = questionsOfResources
			}
			for question := range ask(&spec.Rules[i]) {
				if question.ResourceRequest {
					question.Namespace = namespace
				}
				if !yield(question) {
					return
				}
			}
		}
	}
}

func questionsOfPaths(rule *policy.PolicyRule) iter.Seq[authorizer.AttributesRecord] {
	return func(yield func(authorizer.AttributesRecord) bool) {
		for _, verb := range rule.Verbs {
			for _, path := range rule.NonResourceURLs {
				if !yield(authorizer.AttributesRecord{Verb: verb, Path: path}) {
					return
				}
			}
		}
	}
}

func questionsOfResources(rule *policy.PolicyRule) iter.Seq[authorizer.AttributesRecord] {
	return func(yield func(authorizer.AttributesRecord) bool) {
		for _, verb := range rule.Verbs {
			for _, group := range rule.APIGroups {
				for _, version := range orElse(rule.APIVersions, all) {
					for _, combined := range rule.Resources {
						resource, subresource, _ := strings.Cut(combined, "/")
						for _, name := range orElse(rule.ResourceNames, "") {
							if !yield(authorizer.AttributesRecord{
								Verb: verb, APIGroup: group, APIVersion: version, Resource: resource, Subresource: subresource, Name: name, ResourceRequest: true,
							}) {
								return
							}
						}
					}
				}
			}
		}
	}
}

// describe writes a question as a rule, as RBAC does.
func describe(question authorizer.AttributesRecord) string {
	if !question.ResourceRequest {
		return fmt.Sprintf("{Verbs:[%q], NonResourceURLs:[%q]}", question.Verb, question.Path)
	}
	resource := question.Resource
	if question.Subresource != "" {
		resource += "/" + question.Subresource
	}
	text := fmt.Sprintf("Verbs:[%q], APIGroups:[%q], Resources:[%q]", question.Verb, question.APIGroup, resource)
	if question.APIVersion != all {
		text += fmt.Sprintf(", APIVersions:[%q]", question.APIVersion)
	}
	if question.Name != "" {
		text += fmt.Sprintf(", ResourceNames:[%q]", question.Name)
	}
	if question.Namespace != "" {
		return fmt.Sprintf("{%s} in namespace %q", text, question.Namespace)
	}
	return "{" + text + "}"
}
