/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcementstatus

import (
	"cmp"
	"maps"
	"slices"

	"github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// The order of places, and of the results in one place, in which a status has them for one rule.
var (
	orderOfPlaces = []policyv1alpha1.EnforcementPlace{
		policyv1alpha1.EnforcedAtServer, policyv1alpha1.EnforcedAtAggregatedServer, policyv1alpha1.EnforcedAtKubeAPIServer, policyv1alpha1.EnforcedAtInnerDoor, policyv1alpha1.EnforcedAtBarrier, policyv1alpha1.EnforcedAtFrontDoor, policyv1alpha1.EnforcedAtReviews,
	}
	orderOfResults = []policyv1alpha1.EnforcementResult{
		policyv1alpha1.ResultEnforced, policyv1alpha1.ResultPending, policyv1alpha1.ResultInnerDoorUnknown, policyv1alpha1.ResultGrantsNothing,
		policyv1alpha1.ResultWithholdsUnconditionally, policyv1alpha1.ResultDeniesUnconditionally, policyv1alpha1.ResultNotEnforced,
		policyv1alpha1.ResultAudited,
	}
)

// severity orders results: the greatest one among the entries is the reason of the condition Effective.
var severity = []policyv1alpha1.EnforcementResult{
	policyv1alpha1.ResultEnforced, policyv1alpha1.ResultPending, policyv1alpha1.ResultNotEnforced, policyv1alpha1.ResultInnerDoorUnknown, policyv1alpha1.ResultGrantsNothing,
	policyv1alpha1.ResultWithholdsUnconditionally, policyv1alpha1.ResultDeniesUnconditionally, policyv1alpha1.ResultAudited,
}

// PlacesInOrder returns the places in which requests are decided, in the order in which a status has them for one rule.
func PlacesInOrder() []policyv1alpha1.EnforcementPlace { return slices.Clone(orderOfPlaces) }

// Severity returns the results, the least severe one first. The most severe one among the entries of a status is the reason of the condition Effective.
func Severity() []policyv1alpha1.EnforcementResult { return slices.Clone(severity) }

// findings are the verbs of each resource that have an outcome, in the order in which they were found.
type findings map[Outcome]*part

// part is some verbs of some resources.
type part struct {
	resources []string
	verbs     []string
	// byResource has the verbs of each resource, before resources with the same verbs are put together.
	byResource map[string][]string
}

// outcomes returns the outcomes that were found, in order.
func (f findings) outcomes() []Outcome {
	return slices.SortedFunc(maps.Keys(f), func(a, b Outcome) int {
		return cmp.Or(
			cmp.Compare(slices.Index(orderOfPlaces, a.At), slices.Index(orderOfPlaces, b.At)),
			cmp.Compare(slices.Index(orderOfResults, a.Result), slices.Index(orderOfResults, b.Result)),
			cmp.Compare(a.Note, b.Note))
	})
}

// addAll adds verbs of a resource that have the outcome o, each once. The findings keep the slice verbs: the caller must not change
// it afterwards.
func (f findings) addAll(resource string, verbs []string, o Outcome) {
	if len(verbs) == 0 {
		return
	}
	p := f[o]
	if p == nil {
		p = &part{byResource: map[string][]string{}}
		f[o] = p
	}
	before, known := p.byResource[resource]
	if !known {
		p.resources = append(p.resources, resource)
		p.byResource[resource] = slices.Clip(verbs) // a rule may have thousands of resources: they share the list
		return
	}
	for _, verb := range verbs {
		if !slices.Contains(before, verb) {
			before = append(before, verb)
		}
	}
	p.byResource[resource] = before
}

// parts returns the resources and verbs that have the outcome o, which was found. Each part becomes one entry
// of a policy's status. Resources with equal lists of verbs share a part, until it has policy.MaxRuleEntries resources;
// the next resource then begins another part.
func (f findings) parts(o Outcome) []part {
	var parts []part
	for _, resource := range f[o].resources {
		verbs := f[o].byResource[resource]
		same := func(p part) bool { return len(p.resources) < policy.MaxRuleEntries && slices.Equal(p.verbs, verbs) }
		if i := slices.IndexFunc(parts, same); i >= 0 {
			parts[i].resources = append(parts[i].resources, resource)
			continue
		}
		parts = append(parts, part{resources: []string{resource}, verbs: slices.Clone(verbs)})
	}
	return parts
}
