/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1

import rbacv1 "k8s.io/api/rbac/v1"

// SetDefaults_AuthorizationPolicySpec sets the enforcement to Enforce if it is omitted, and the API group of subjects by their
// kind, as in RBAC.
func SetDefaults_AuthorizationPolicySpec(spec *AuthorizationPolicySpec) {
	if spec.Enforcement == "" {
		spec.Enforcement = PolicyEnforcementEnforce
	}
	for i := range spec.Subjects {
		subject := &spec.Subjects[i]
		if subject.APIGroup != "" {
			continue
		}
		switch subject.Kind {
		case rbacv1.UserKind, rbacv1.GroupKind:
			subject.APIGroup = rbacv1.GroupName
		}
	}
}

// SetDefaults_FieldPermissionParameter sets the treatment to Verbatim if it is omitted.
func SetDefaults_FieldPermissionParameter(parameter *FieldPermissionParameter) {
	if parameter.Treatment == "" {
		parameter.Treatment = ParameterTreatmentVerbatim
	}
}

// defaultEnforcementPort is the port of a Service in an APIService that names none.
const defaultEnforcementPort = 443

// SetDefaults_EnforcementService sets the port if it is omitted.
func SetDefaults_EnforcementService(service *EnforcementService) {
	if service.Port == 0 {
		service.Port = defaultEnforcementPort
	}
}
