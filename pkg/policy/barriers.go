/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
)

type dryRunKey struct{}

// WithDryRun returns a context for a write that stores nothing. In it, the warnings of Checker.Warn also say what the barrier of a
// policy will be.
func WithDryRun(ctx context.Context) context.Context {
	return context.WithValue(ctx, dryRunKey{}, true)
}

// IsDryRun reports whether ctx is of a write that stores nothing.
func IsDryRun(ctx context.Context) bool {
	value, _ := ctx.Value(dryRunKey{}).(bool)
	return value
}

// CheckChange returns an error for a change after which the work of barriers for one write would exceed the bound: the policy would be stored
// without enforcement. before is the specification before an update, or nil. An update after which the policy costs no more is accepted.
func (c *Checker) CheckChange(key engine.Key, spec, before *policy.AuthorizationPolicySpec) field.ErrorList {
	if c.barriers == nil || c.overWork == nil {
		return nil
	}
	changed := c.barrierOf(key, spec)
	if changed == nil {
		return nil
	}
	reason := c.overWork(changed)
	if reason == "" {
		return nil
	}
	if before != nil {
		if old := c.barrierOf(key, before); old != nil && changed.CostsNoMore(old) {
			return nil
		}
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "condition"), reason)}
}

// barrierOf compiles the barrier of a policy. It returns nil if there is none.
func (c *Checker) barrierOf(key engine.Key, spec *policy.AuthorizationPolicySpec) *barrier.Barrier {
	stored := &policyv1alpha1.AuthorizationPolicySpec{}
	if err := policyv1alpha1.Convert_policy_AuthorizationPolicySpec_To_v1alpha1_AuthorizationPolicySpec(spec.DeepCopy(), stored, nil); err != nil {
		return nil
	}
	c.compilations <- struct{}{}
	defer func() { <-c.compilations }()
	compiled, err := c.barriers.Compile(key, stored) // which refuses other effects than Deny
	if err != nil || compiled.Policy == nil {
		return nil
	}
	return compiled
}

// barrierWarnings returns which verbs of the rules of a policy have no barrier and, for a dry run, which have one. Barriers are
// off if the Checker has no compiler for them.
func (c *Checker) barrierWarnings(ctx context.Context, key engine.Key, spec *policyv1alpha1.AuthorizationPolicySpec) []string {
	if c.barriers == nil || spec.Effect != policyv1alpha1.PolicyEffectDeny {
		return nil
	}
	c.compilations <- struct{}{}
	defer func() { <-c.compilations }()
	compiled, err := c.barriers.Compile(key, spec)
	if err != nil {
		return nil // Check has returned the error
	}
	var warnings []string
	for _, entry := range compiled.Report {
		where := fmt.Sprintf("spec.rules[%d] (%s %s): ", entry.Rule, strings.Join(entry.Verbs, ", "), strings.Join(entry.Resources, ", "))
		switch {
		case entry.Reason != "":
			warnings = append(warnings, where+"no ValidatingAdmissionPolicy enforces the policy: "+entry.Reason)
		case IsDryRun(ctx) && spec.Enforcement == policyv1alpha1.PolicyEnforcementAudit:
			warnings = append(warnings, fmt.Sprintf("%skube-apiserver will warn of what the policy would deny, with the ValidatingAdmissionPolicy %s", where, barrier.Name(key)))
		case IsDryRun(ctx):
			warnings = append(warnings, fmt.Sprintf("%skube-apiserver will enforce the policy with the ValidatingAdmissionPolicy %s", where, barrier.Name(key)))
		}
	}
	return warnings
}
