/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/proviso-authz/proviso/apis/authorization"
)

// areWellFormed reports whether conditions are sure to be valid but for their texts. It says
// what validation says, or false; it is for every decision, where validation, which makes
// the paths of fields and matches regular expressions, takes longer than deciding. What is
// not well-formed by it may still be valid.
func areWellFormed(conditions []Condition) bool {
	for _, c := range conditions {
		knownEffect := c.Effect == EffectAllow || c.Effect == EffectDeny || c.Effect == EffectNoOpinion
		knownType := c.Type == ConditionTypeCEL || c.Type == ConditionTypeCELBound
		if !knownEffect || !knownType || !isPlainID(c.ID) {
			return false
		}
	}
	return !hasDuplicates(conditions)
}

// hasDuplicates reports whether two conditions have the same ID.
func hasDuplicates(conditions []Condition) bool {
	if len(conditions) > authorization.MaxConditionsPerSet {
		seen := make(map[string]bool, len(conditions))
		for _, c := range conditions {
			seen[c.ID] = true
		}
		return len(seen) < len(conditions)
	}
	for i, c := range conditions {
		// At most a few thousand comparisons, of texts that are mostly of different lengths.
		if slices.ContainsFunc(conditions[:i], func(other Condition) bool { return other.ID == c.ID }) {
			return true
		}
	}
	return false
}

// isPlainID reports whether an ID is a label key with a domain that is not in k8s.io or
// kubernetes.io, like the IDs of policies.
func isPlainID(id string) bool {
	domain, name, ok := strings.Cut(id, "/")
	if !ok || len(domain) > content.DNS1123SubdomainMaxLength || len(name) > content.LabelValueMaxLength || isOfKubernetes(domain) {
		return false
	}
	for label := range strings.SplitSeq(domain, ".") {
		if !isMadeOf(label, isDomainEnd, isDomainMiddle) {
			return false
		}
	}
	return isMadeOf(name, isNameEnd, isNameMiddle)
}

// isOfKubernetes errs on the side of reserved.
func isOfKubernetes(domain string) bool {
	return strings.HasSuffix(domain, "k8s.io") || strings.HasSuffix(domain, "kubernetes.io")
}

// isMadeOf reports whether a text is not empty, begins and ends with characters of one kind,
// and has characters of either kind between them.
func isMadeOf(text string, end, middle func(byte) bool) bool {
	if text == "" || !end(text[0]) || !end(text[len(text)-1]) {
		return false
	}
	for i := range len(text) {
		if !end(text[i]) && !middle(text[i]) {
			return false
		}
	}
	return true
}

func isDomainEnd(c byte) bool    { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') }
func isDomainMiddle(c byte) bool { return c == '-' }
func isNameEnd(c byte) bool      { return isDomainEnd(c) || (c >= 'A' && c <= 'Z') }
func isNameMiddle(c byte) bool   { return c == '-' || c == '_' || c == '.' }
