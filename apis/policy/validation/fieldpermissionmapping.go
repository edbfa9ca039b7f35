/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package validation

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proviso-authz/proviso/apis/policy"
)

// ValidateFieldPermissionMapping validates a new mapping. Its paths, permissions and expressions
// are checked when it is stored.
func ValidateFieldPermissionMapping(m *policy.FieldPermissionMapping) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&m.ObjectMeta, false, validateName, field.NewPath("metadata"))
	path := field.NewPath("spec")
	if len(m.Spec.Description) > policy.MaxDescriptionBytes {
		errs = append(errs, field.TooLong(path.Child("description"), "", policy.MaxDescriptionBytes))
	}
	errs = append(errs, validateMappedResources(m.Spec.Resources, path.Child("resources"))...)
	return append(errs, validateMappedFields(m.Spec.Fields, path.Child("fields"))...)
}

// ValidateFieldPermissionMappingUpdate validates a changed mapping as strictly as a new one.
func ValidateFieldPermissionMappingUpdate(m, old *policy.FieldPermissionMapping) field.ErrorList {
	errs := ValidateFieldPermissionMapping(m)
	return append(errs, apivalidation.ValidateObjectMetaUpdate(&m.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))...)
}

// ValidateFieldPermissionMappingStatusUpdate validates a changed status of a mapping.
func ValidateFieldPermissionMappingStatusUpdate(m, old *policy.FieldPermissionMapping) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&m.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, validateObserved(&m.ObjectMeta, m.Status.ObservedGeneration, old.Status.ObservedGeneration, m.Status.Conditions)...)
}

func validateMappedResources(resources []policy.FieldPermissionResource, path *field.Path) field.ErrorList {
	switch {
	case len(resources) == 0:
		return field.ErrorList{field.Required(path, "a mapping needs at least one resource")}
	case len(resources) > policy.MaxRuleEntries:
		return field.ErrorList{field.TooMany(path, len(resources), policy.MaxRuleEntries)}
	}
	var errs field.ErrorList
	seen := sets.New[[2]string]()
	for i, r := range resources {
		at := path.Index(i)
		if key := [2]string{r.APIGroup, r.Resource}; seen.Has(key) {
			errs = append(errs, field.Duplicate(at, r.Resource))
		} else {
			seen.Insert(key)
		}
		if r.APIGroup != "" {
			errs = append(errs, validateDNSSubdomain(r.APIGroup, at.Child("apiGroup"))...)
		}
		errs = append(errs, validateEntries(r.APIVersions, policy.MaxRuleEntries, at.Child("apiVersions"), validateMappedVersion)...)
		if errs = append(errs, validateText(r.Resource, policy.MaxEntryBytes, at.Child("resource"))...); r.Resource != "" {
			errs = append(errs, validateDNSSubdomain(r.Resource, at.Child("resource"))...)
		}
	}
	return errs
}

func validateMappedVersion(version string, path *field.Path) field.ErrorList {
	if version == "" {
		return field.ErrorList{field.Required(path, "omit apiVersions to match all versions")}
	}
	return invalid(path, version, utilvalidation.IsDNS1035Label(version))
}

var treatments = sets.New(policy.ParameterTreatmentVerbatim, policy.ParameterTreatmentSlashDelimitedPrefix, policy.ParameterTreatmentExpression)

func validateMappedFields(fields []policy.FieldPermission, path *field.Path) field.ErrorList {
	switch {
	case len(fields) == 0:
		return field.ErrorList{field.Required(path, "a mapping needs at least one field")}
	case len(fields) > policy.MaxMappedFields:
		return field.ErrorList{field.TooMany(path, len(fields), policy.MaxMappedFields)}
	}
	var errs field.ErrorList
	for i := range fields {
		f, at := &fields[i], path.Index(i)
		errs = append(errs, validateText(f.Path, policy.MaxFieldPathBytes, at.Child("path"))...)
		errs = append(errs, validateText(f.Permission, utilvalidation.DNS1123LabelMaxLength, at.Child("permission"))...)
		if f.Parameter != nil {
			errs = append(errs, validateParameter(f.Parameter, at.Child("parameter"))...)
		}
		if f.Exclusion != nil && len(f.Exclusion.NewValues) > policy.MaxMappingExpressionBytes {
			errs = append(errs, field.TooLong(at.Child("exclusion", "newValues"), "", policy.MaxMappingExpressionBytes))
		}
	}
	return errs
}

func validateParameter(p *policy.FieldPermissionParameter, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(p.Key) > policy.MaxEntryBytes {
		errs = append(errs, field.TooLong(path.Child("key"), "", policy.MaxEntryBytes))
	}
	if !treatments.Has(p.Treatment) {
		errs = append(errs, field.NotSupported(path.Child("treatment"), p.Treatment, sets.List(treatments)))
	}
	at := path.Child("expression")
	switch computed := p.Treatment == policy.ParameterTreatmentExpression; {
	case computed:
		errs = append(errs, validateText(p.Expression, policy.MaxMappingExpressionBytes, at)...)
	case p.Expression != "":
		errs = append(errs, field.Forbidden(at, "may be set only with the treatment Expression"))
	}
	return errs
}

// validateObserved validates the common fields of a status.
func validateObserved(meta *metav1.ObjectMeta, observed, before int64, conditions []metav1.Condition) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("status", "observedGeneration")
	switch {
	case observed < 0:
		errs = append(errs, field.Invalid(at, observed, "must not be negative"))
	case observed < before:
		errs = append(errs, field.Invalid(at, observed, "must not decrease: a newer generation has been observed"))
	case observed > meta.Generation:
		errs = append(errs, field.Invalid(at, observed, "must not be greater than metadata.generation"))
	}
	path := field.NewPath("status", "conditions")
	if n := len(conditions); n > policy.MaxStatusConditions {
		return append(errs, field.TooMany(path, n, policy.MaxStatusConditions))
	}
	return append(errs, metav1validation.ValidateConditions(conditions, path)...)
}
