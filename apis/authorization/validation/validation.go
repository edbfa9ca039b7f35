/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package validation validates the kinds of authorization.k8s.io. Errors have the path of the
// field and become a 422 response.
//
// Attributes and selectors are validated as kube-apiserver validates authorization.k8s.io/v1, so
// that a review that is valid there is valid here.
package validation

import (
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proviso-authz/proviso/apis/authorization"
)

// ValidateSubjectAccessReview validates a review that a client creates.
func ValidateSubjectAccessReview(review *authorization.SubjectAccessReview) field.ErrorList {
	errs := validateSpec(&review.Spec, field.NewPath("spec"))
	return append(errs, validateMetadata(review.ObjectMeta, field.NewPath("metadata"))...)
}

// ValidateSelfSubjectAccessReview validates a review that a client creates.
func ValidateSelfSubjectAccessReview(review *authorization.SelfSubjectAccessReview) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateAttributes(review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes, path)
	errs = append(errs, validateConditionalAuthorization(review.Spec.ConditionalAuthorization, path)...)
	errs = append(errs, validateOptions(review.Spec.AuthorizationOptions, path)...)
	return append(errs, validateMetadata(review.ObjectMeta, field.NewPath("metadata"))...)
}

// ValidateLocalSubjectAccessReview validates a review that a client creates. The namespace of its
// attributes must equal its own namespace.
func ValidateLocalSubjectAccessReview(review *authorization.LocalSubjectAccessReview) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateSpec(&review.Spec, path)

	metadata := review.ObjectMeta
	metadata.Namespace = ""
	errs = append(errs, validateMetadata(metadata, field.NewPath("metadata"))...)

	if attributes := review.Spec.ResourceAttributes; attributes != nil && attributes.Namespace != review.Namespace {
		errs = append(errs, field.Invalid(path.Child("resourceAttributes", "namespace"), attributes.Namespace,
			"must match metadata.namespace"))
	}
	if review.Spec.NonResourceAttributes != nil {
		errs = append(errs, field.Forbidden(path.Child("nonResourceAttributes"),
			"paths have no namespace: use SubjectAccessReview"))
	}
	return errs
}

// validateMetadata requires empty metadata, because a review is not stored.
func validateMetadata(metadata metav1.ObjectMeta, path *field.Path) field.ErrorList {
	metadata.ManagedFields = nil
	if !apiequality.Semantic.DeepEqual(metadata, metav1.ObjectMeta{}) {
		return field.ErrorList{field.Forbidden(path, "must be empty: a review is not stored")}
	}
	return nil
}

func validateSpec(spec *authorization.SubjectAccessReviewSpec, path *field.Path) field.ErrorList {
	errs := validateAttributes(spec.ResourceAttributes, spec.NonResourceAttributes, path)
	if spec.User == "" && len(spec.Groups) == 0 {
		errs = append(errs, field.Required(path.Child("user"), "at least one of user or groups must be specified"))
	}
	errs = append(errs, validateConditionalAuthorization(spec.ConditionalAuthorization, path)...)
	return append(errs, validateOptions(spec.AuthorizationOptions, path)...)
}

func validateAttributes(resource *authorizationv1.ResourceAttributes, nonResource *authorizationv1.NonResourceAttributes, path *field.Path) field.ErrorList {
	const exactlyOne = "exactly one of resourceAttributes or nonResourceAttributes must be specified"
	switch {
	case resource != nil && nonResource != nil:
		return field.ErrorList{field.Forbidden(path.Child("nonResourceAttributes"), exactlyOne)}
	case resource == nil && nonResource == nil:
		return field.ErrorList{field.Required(path.Child("resourceAttributes"), exactlyOne)}
	case nonResource != nil:
		return nil
	}
	path = path.Child("resourceAttributes")
	errs := validateFieldSelector(resource.FieldSelector, path.Child("fieldSelector"))
	return append(errs, validateLabelSelector(resource.LabelSelector, path.Child("labelSelector"))...)
}

func validateFieldSelector(selector *authorizationv1.FieldSelectorAttributes, path *field.Path) field.ErrorList {
	if selector == nil {
		return nil
	}
	errs := validateSelectorForm(selector.RawSelector, len(selector.Requirements), path)
	// Unknown operators may come from newer clients. Without the requirement the review asks for
	// more than the client would use, which is safe.
	options := metav1validation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}
	for i, requirement := range selector.Requirements {
		errs = append(errs, metav1validation.ValidateFieldSelectorRequirement(requirement, options, path.Child("requirements").Index(i))...)
	}
	return errs
}

func validateLabelSelector(selector *authorizationv1.LabelSelectorAttributes, path *field.Path) field.ErrorList {
	if selector == nil {
		return nil
	}
	errs := validateSelectorForm(selector.RawSelector, len(selector.Requirements), path)
	options := metav1validation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}
	for i, requirement := range selector.Requirements {
		errs = append(errs, metav1validation.ValidateLabelSelectorRequirement(requirement, options, path.Child("requirements").Index(i))...)
	}
	return errs
}

func validateSelectorForm(raw string, requirements int, path *field.Path) field.ErrorList {
	switch {
	case raw != "" && requirements > 0:
		return field.ErrorList{field.Forbidden(path.Child("rawSelector"), "may not be specified together with requirements")}
	case raw == "" && requirements == 0:
		return field.ErrorList{field.Required(path.Child("requirements"), fmt.Sprintf("when %s is specified, requirements or rawSelector is required", path))}
	}
	return nil
}

var conditionsModes = []authorization.ConditionsMode{
	authorization.ConditionsModeNone,
	authorization.ConditionsModeHumanReadable,
	authorization.ConditionsModeOptimized,
}

func validateConditionalAuthorization(config *authorization.ConditionalAuthorizationConfiguration, path *field.Path) field.ErrorList {
	if config == nil {
		return nil
	}
	return validateOneOf(config.Mode, conditionsModes, path.Child("conditionalAuthorization", "mode"))
}

// validateOptions bounds the options. Types that are not known may come from newer clients.
func validateOptions(options *authorization.AuthorizationOptions, path *field.Path) field.ErrorList {
	if options == nil {
		return nil
	}
	path = path.Child("authorizationOptions", "handledDecisionTypes")
	if n := len(options.HandledDecisionTypes); n > authorization.MaxHandledDecisionTypes {
		return field.ErrorList{field.TooMany(path, n, authorization.MaxHandledDecisionTypes)}
	}
	var errs field.ErrorList
	for i, handled := range options.HandledDecisionTypes {
		if len(handled) > authorization.MaxDecisionTypeBytes {
			errs = append(errs, field.TooLong(path.Index(i), "", authorization.MaxDecisionTypeBytes))
		}
	}
	return errs
}

func validateOneOf[T ~string](value T, supported []T, path *field.Path) field.ErrorList {
	for _, s := range supported {
		if value == s {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, value, supported)}
}
