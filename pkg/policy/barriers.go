/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
)

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
