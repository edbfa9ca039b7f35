/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package validation

import (
	rbacv1 "k8s.io/api/rbac/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proviso-authz/proviso/apis/policy"
)

var subjectKinds = []string{rbacv1.UserKind, rbacv1.GroupKind, rbacv1.ServiceAccountKind}

func validateSubjects(subjects []rbacv1.Subject, effect policy.PolicyEffect, path *field.Path) field.ErrorList {
	switch {
	case len(subjects) == 0 && effect == policy.PolicyEffectAllow:
		return field.ErrorList{field.Required(path, "an Allow policy must name its subjects; the group system:authenticated has all users who are authenticated")}
	case subjects != nil && len(subjects) == 0:
		// In RBAC an empty list matches no user, but here an omitted list matches all users.
		return field.ErrorList{field.Invalid(path, "[]", "must not be empty: omit it to match all users; to match no user, delete the policy")}
	case len(subjects) > policy.MaxSubjects:
		return field.ErrorList{field.TooMany(path, len(subjects), policy.MaxSubjects)}
	}
	var errs field.ErrorList
	seen := sets.New[rbacv1.Subject]()
	for i, s := range subjects {
		if seen.Has(s) {
			errs = append(errs, field.Duplicate(path.Index(i), s.Kind+" "+s.Name))
			continue
		}
		seen.Insert(s)
		errs = append(errs, validateSubject(s, path.Index(i))...)
	}
	return errs
}

// validateSubject is stricter than RBAC: a user or group must not have a namespace. A
// ServiceAccount must have one in a namespaced policy as well, as in a RoleBinding.
func validateSubject(s rbacv1.Subject, path *field.Path) field.ErrorList {
	switch s.Kind {
	case rbacv1.UserKind, rbacv1.GroupKind:
		errs := validateText(s.Name, policy.MaxReferenceBytes, path.Child("name"))
		if s.APIGroup != rbacv1.GroupName {
			errs = append(errs, field.NotSupported(path.Child("apiGroup"), s.APIGroup, []string{rbacv1.GroupName}))
		}
		if s.Namespace != "" {
			errs = append(errs, field.Forbidden(path.Child("namespace"), "users and groups have no namespace"))
		}
		return errs
	case rbacv1.ServiceAccountKind:
		return validateServiceAccount(s, path)
	case "":
		return field.ErrorList{field.Required(path.Child("kind"), "one of User, Group and ServiceAccount")}
	default:
		return field.ErrorList{field.NotSupported(path.Child("kind"), s.Kind, subjectKinds)}
	}
}

func validateServiceAccount(s rbacv1.Subject, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	} else {
		errs = append(errs, invalid(path.Child("name"), s.Name, apivalidation.ValidateServiceAccountName(s.Name, false))...)
	}
	if s.APIGroup != "" {
		errs = append(errs, field.NotSupported(path.Child("apiGroup"), s.APIGroup, []string{""}))
	}
	if s.Namespace == "" {
		return append(errs, field.Required(path.Child("namespace"), "a ServiceAccount has a namespace"))
	}
	return append(errs, invalid(path.Child("namespace"), s.Namespace, apivalidation.ValidateNamespaceName(s.Namespace, false))...)
}
