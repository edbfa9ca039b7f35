/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"fmt"
	"slices"
	"strings"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
)

// form is a wire form of conditional authorization.
type form string

const (
	// formKEP is the form in the text of KEP-5681.
	formKEP form = "kep"
	// formUpstream is the form that is proposed for Kubernetes.
	formUpstream form = "upstream"
	// formNone is the form of reviews that request no conditions.
	formNone form = "none"
)

// The domains, before the name of the webhook, of IDs and types that came without a domain, and the whole type of a condition that
// came without a type. No webhook uses these domains itself, so that its own IDs and types are never changed when conditions are sent back.
const (
	domainUnqualified = "unqualified."
	domainUntyped     = "untyped."
	typeUntyped       = "condition"
)

// qualified returns sets of the webhook name in which each ID and each type has a domain (KEP-5681, "Condition and ConditionSet data
// model", lets both go without). It is an error if the webhook uses the domains that it adds.
func qualified(name string, sets []authorizationapi.SubjectAccessReviewConditionSet) ([]authorizationapi.SubjectAccessReviewConditionSet, error) {
	domain, untyped := domainUnqualified+name+"/", domainUntyped+name+"/"
	qualify := func(text string) (string, error) {
		switch {
		//guard:webhook-reserved-domain
		case strings.HasPrefix(text, domain), strings.HasPrefix(text, untyped):
			return "", fmt.Errorf("the domain of %.64q is reserved", text)
		case text == "" || strings.Contains(text, "/"):
			return text, nil
		}
		return domain + text, nil
	}
	return eachCondition(sets, func(c *authorizationapi.SubjectAccessReviewCondition) (err error) {
		if c.ID, err = qualify(c.ID); err != nil {
			return err
		}
		if c.Type, err = qualify(c.Type); err == nil && c.Type == "" {
			c.Type = untyped + typeUntyped
		}
		return err
	})
}

// unqualified is the inverse of qualified: it returns sets as they came.
func unqualified(name string, sets []authorizationapi.SubjectAccessReviewConditionSet) []authorizationapi.SubjectAccessReviewConditionSet {
	domain := domainUnqualified + name + "/"
	// The function returns no error.
	sets, _ = eachCondition(sets, func(c *authorizationapi.SubjectAccessReviewCondition) error {
		c.ID, c.Type = strings.TrimPrefix(c.ID, domain), strings.TrimPrefix(c.Type, domain)
		if c.Type == domainUntyped+name+"/"+typeUntyped {
			c.Type = ""
		}
		return nil
	})
	return sets
}

// eachCondition returns a copy of sets with changed conditions, or the first error.
func eachCondition(sets []authorizationapi.SubjectAccessReviewConditionSet, change func(*authorizationapi.SubjectAccessReviewCondition) error) (_ []authorizationapi.SubjectAccessReviewConditionSet, err error) {
	sets = slices.Clone(sets)
	for i := range sets {
		sets[i].Conditions = slices.Clone(sets[i].Conditions)
		for j := range sets[i].Conditions {
			if err := change(&sets[i].Conditions[j]); err != nil {
				return nil, err
			}
		}
		if sets[i].ConditionsChain, err = eachCondition(sets[i].ConditionsChain, change); err != nil {
			return nil, err
		}
	}
	return sets, nil
}
