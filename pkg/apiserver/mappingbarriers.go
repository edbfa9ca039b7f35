/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyapi "github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/barrier/barriercontroller"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
	"github.com/proviso-authz/proviso/pkg/registry/policy/fieldpermissionmapping"
)

// mappingChecker returns the checker of mappings. With barriers, mappingWarner has the warnings about excluded fields.
func (b *barriers) mappingChecker(without fieldpermissionmapping.Checker) fieldpermissionmapping.Checker {
	if b == nil {
		return without
	}
	return func(name string, spec *policyapi.FieldPermissionMappingSpec) ([]string, field.ErrorList) {
		_, warnings, errs := mapping.Compile(name, spec)
		return warnings, errs
	}
}

// mappingWarner returns a function that warns of exclusions without a barrier. It returns nil without barriers.
func (b *barriers) mappingWarner(door *manifest.Config) fieldpermissionmapping.Warner {
	if b == nil {
		return nil
	}
	return func(_ context.Context, m *policyapi.FieldPermissionMapping) []string {
		exclusions, err := mapping.NewTable(m).Exclusions(m.Name)
		if err != nil {
			return nil // the checker has returned the error
		}
		var warnings []string
		hasAll := true
		for _, entry := range b.compiler.CompileMapping(m.Name, exclusions).Report {
			if isOwn(entry) {
				continue
			}
			entry.Reason = cmp.Or(entry.Reason, b.remoteReason(entry.Resources, m.Spec.Resources))
			where := fmt.Sprintf("spec.fields[%d] (%s %s): ", entry.Rule, strings.Join(entry.Verbs, ", "), strings.Join(entry.Resources, ", "))
			for _, unseen := range entry.Unseen {
				warnings = append(warnings, where+"some writes are not checked: "+unseen)
			}
			//guard:mapping-effects-warnings-about-exclusions-without-barrier
			if entry.Reason != "" {
				hasAll = false
				warnings = append(warnings, where+"no ValidatingAdmissionPolicy enforces the exclusion: "+entry.Reason)
			}
		}
		if !hasAll {
			warnings = append(warnings, exclusionWarnings(&m.Spec, door)...)
		}
		return warnings
	}
}

// isOwn reports whether an entry is about resources that this server serves. It checks their fields itself.
func isOwn(entry barrier.RuleReport) bool {
	return !slices.ContainsFunc(entry.Resources, func(resource string) bool { return !MayServe(schema.ParseGroupResource(resource).Group) })
}

// mappingEffect returns a function for the condition Effective of a mapping, nil for a mapping that excludes nothing. It returns false if
// the condition is not known yet. Without barriers mappingEffect returns nil.
func (b *barriers) mappingEffect() func(*policyv1alpha1.FieldPermissionMapping) (*metav1.Condition, bool) {
	if b == nil {
		return nil
	}
	return func(m *policyv1alpha1.FieldPermissionMapping) (*metav1.Condition, bool) {
		if !slices.ContainsFunc(m.Spec.Fields, func(f policyv1alpha1.FieldPermission) bool { return f.Exclusion != nil }) {
			return nil, true
		}
		if !b.areKnown() {
			return nil, false
		}
		state, ok := b.controller.MappingState(m)
		if !ok {
			return nil, false
		}
		spec := &policyapi.FieldPermissionMapping{}
		if err := policyv1alpha1.Convert_v1alpha1_FieldPermissionMapping_To_policy_FieldPermissionMapping(m.DeepCopy(), spec, nil); err != nil {
			return nil, false
		}
		if b.frontDoor {
			state = withSight(state, b.rollout.Blind())
		}
		state.Report = slices.Clone(state.Report)
		for i := range state.Report {
			r := &state.Report[i]
			r.Reason = cmp.Or(r.Reason, b.remoteReason(r.Resources, spec.Spec.Resources))
		}
		return effectOf(m.Generation, state), true
	}
}

// withSight returns the state of a barrier that was written, if nothing is known for a reason about what kube-apiserver stores now.
func withSight(state barriercontroller.State, blind string) barriercontroller.State {
	//guard:mapping-effects-sight-lost
	if blind != "" && state.Phase == barriercontroller.Written {
		state.Phase, state.Message = barriercontroller.Pending, blind
	}
	return state
}

// remoteReason returns why no barrier enforces an exclusion of some resources, if another server serves one of them, or "".
func (b *barriers) remoteReason(resources []string, of []policyapi.FieldPermissionResource) string {
	for _, resource := range resources {
		name, _, _ := strings.Cut(resource, "/")
		group := schema.ParseGroupResource(name).Group
		for i := range of {
			if of[i].APIGroup == group && !MayServe(group) && len(b.remote(group)) > 0 {
				return "another server serves " + group + ", whose requests admission policies do not see"
			}
		}
	}
	return ""
}

// effectOf returns the condition Effective of a mapping whose barrier has a state.
func effectOf(generation int64, state barriercontroller.State) *metav1.Condition {
	//guard:mapping-effects-requests-not-refused
	condition := &metav1.Condition{
		Type: policyv1alpha1.PolicyEffective, Status: metav1.ConditionTrue, Reason: string(policyv1alpha1.ResultEnforced), ObservedGeneration: generation,
		Message: "kube-apiserver, or Proviso for what it serves, refuses creations, updates and patches that change an excluded field without its verb" + unseenIn(state.Report),
	}
	//guard:mapping-effects-proviso-serves
	without := slices.IndexFunc(state.Report, func(r barrier.RuleReport) bool { return r.Reason != "" && !isOwn(r) })
	isBarred := slices.ContainsFunc(state.Report, func(r barrier.RuleReport) bool { return r.Reason == "" })
	fail := func(result policyv1alpha1.EnforcementResult, message string) {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, string(result), message
	}
	switch {
	case isBarred && state.Phase == barriercontroller.Pending:
		fail(policyv1alpha1.ResultPending, state.Message)
	//guard:mapping-effects-barriers-not-stored
	case (isBarred || len(state.Report) == 0) && state.Phase != barriercontroller.Written:
		fail(policyv1alpha1.ResultNotEnforced, state.Message)
	//guard:mapping-effects-exclusions-without-barrier
	case without >= 0:
		r := &state.Report[without]
		fail(policyv1alpha1.ResultNotEnforced, fmt.Sprintf("fields[%d] (%s): kube-apiserver does not enforce the exclusion: %s", r.Rule, strings.Join(r.Resources, ", "), r.Reason))
	}
	return condition
}

// unseenIn returns the part of a message about the requests that no entry refuses, each reason once.
func unseenIn(report []barrier.RuleReport) string {
	fields := map[string][]string{}
	for _, r := range report {
		for _, reason := range r.Unseen {
			fields[reason] = append(fields[reason], fmt.Sprintf("fields[%d]", r.Rule))
		}
	}
	var text strings.Builder
	for _, reason := range slices.Sorted(maps.Keys(fields)) {
		fmt.Fprintf(&text, "; not refused, of %s: %s", strings.Join(fields[reason], ", "), reason)
	}
	return text.String()
}
