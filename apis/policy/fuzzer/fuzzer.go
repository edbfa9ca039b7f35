/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package fuzzer fills objects of policy.proviso.dev with random content that survives a
// round trip through every version.
package fuzzer

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeserializer "k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"

	"github.com/proviso-authz/proviso/apis/policy"
)

// Funcs returns the functions for fields whose content must not be completely random.
func Funcs(_ runtimeserializer.CodecFactory) []any {
	return []any{
		func(subject *rbacv1.Subject, c randfill.Continue) {
			c.FillNoCustom(subject)
			// An empty API group of a user or group would be defaulted.
			subject.APIGroup = rbacv1.GroupName
		},
		func(spec *policy.AuthorizationPolicySpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			if spec.Enforcement == "" { // it would be defaulted
				spec.Enforcement = policy.PolicyEnforcementEnforce
			}
		},
		func(audit *policy.PolicyAuditStatus, c randfill.Continue) {
			c.FillNoCustom(audit)
			if c.Bool() { // a pointer to a time is not filled by itself
				at := metav1.Unix(c.Int63n(1<<32), 0)
				audit.LastTime = &at
			}
		},
		func(service *policy.EnforcementService, c randfill.Continue) {
			c.FillNoCustom(service)
			if service.Port == 0 { // it would be defaulted
				service.Port = 443
			}
		},
		func(parameter *policy.FieldPermissionParameter, c randfill.Continue) {
			c.FillNoCustom(parameter)
			if parameter.Treatment == "" { // it would be defaulted
				parameter.Treatment = policy.ParameterTreatmentVerbatim
			}
		},
	}
}
