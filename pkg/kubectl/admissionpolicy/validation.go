/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package admissionpolicy

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validatePolicy returns the mistakes in the fields of a policy that kube-apiserver would refuse, and that could change a decision. Its own
// validation is not in a package that other modules can import.
func validatePolicy(object *admissionregistrationv1.ValidatingAdmissionPolicy) (errs field.ErrorList) {
	spec, path := &object.Spec, field.NewPath("spec")
	errs = append(errs, validateValue(*spec.FailurePolicy, path.Child("failurePolicy"), admissionregistrationv1.Fail, admissionregistrationv1.Ignore)...)
	if spec.ParamKind != nil {
		errs = append(errs, validateParamKind(spec.ParamKind, path.Child("paramKind"))...)
	}
	if spec.MatchConstraints == nil || len(spec.MatchConstraints.ResourceRules) == 0 {
		errs = append(errs, field.Required(path.Child("matchConstraints", "resourceRules"), "a policy has at least one rule"))
	}
	errs = append(errs, validateMatchResources(spec.MatchConstraints, path.Child("matchConstraints"))...)
	if len(spec.Validations) == 0 && len(spec.AuditAnnotations) == 0 {
		errs = append(errs, field.Required(path.Child("validations"), "a policy has at least one validation or audit annotation"))
	}
	for i, v := range spec.Variables {
		for _, message := range validation.IsCIdentifier(v.Name) {
			errs = append(errs, field.Invalid(path.Child("variables").Index(i).Child("name"), v.Name, message))
		}
	}
	for i, c := range spec.MatchConditions {
		for _, message := range validation.IsQualifiedName(c.Name) {
			errs = append(errs, field.Invalid(path.Child("matchConditions").Index(i).Child("name"), c.Name, message))
		}
	}
	for i := range spec.Validations {
		errs = append(errs, validateValidation(&spec.Validations[i], path.Child("validations").Index(i))...)
	}
	var keys []string
	for i, a := range spec.AuditAnnotations {
		key := path.Child("auditAnnotations").Index(i).Child("key")
		for _, message := range validation.IsQualifiedName(object.Name + "/" + a.Key) {
			errs = append(errs, field.Invalid(key, a.Key, message))
		}
		if slices.Contains(keys, a.Key) {
			errs = append(errs, field.Duplicate(key, a.Key))
		}
		keys = append(keys, a.Key)
	}
	for _, e := range expressionsOf(object) {
		if strings.TrimSpace(e.GetExpression()) == "" {
			errs = append(errs, field.Required(e.path, ""))
		}
	}
	return errs
}

func validateParamKind(kind *admissionregistrationv1.ParamKind, path *field.Path) (errs field.ErrorList) {
	if version, err := schema.ParseGroupVersion(kind.APIVersion); err != nil || version.Version == "" {
		errs = append(errs, field.Invalid(path.Child("apiVersion"), kind.APIVersion, "must be VERSION or GROUP/VERSION"))
	}
	if kind.Kind == "" {
		errs = append(errs, field.Required(path.Child("kind"), ""))
	}
	return errs
}

func validateValidation(v *admissionregistrationv1.Validation, path *field.Path) (errs field.ErrorList) {
	if strings.ContainsAny(strings.TrimSpace(v.Message), "\r\n") {
		errs = append(errs, field.Invalid(path.Child("message"), v.Message, "must not contain line breaks"))
	}
	if v.Reason != nil {
		errs = append(errs, validateValue(*v.Reason, path.Child("reason"), metav1.StatusReasonUnauthorized, metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge)...)
	}
	return errs
}

// validateBinding returns the mistakes in the fields of a binding.
func validateBinding(object *admissionregistrationv1.ValidatingAdmissionPolicyBinding) (errs field.ErrorList) {
	spec, path := &object.Spec, field.NewPath("spec")
	if spec.PolicyName == "" {
		errs = append(errs, field.Required(path.Child("policyName"), ""))
	}
	const deny, warn, audit = admissionregistrationv1.Deny, admissionregistrationv1.Warn, admissionregistrationv1.Audit
	actions := path.Child("validationActions")
	if len(spec.ValidationActions) == 0 {
		errs = append(errs, field.Required(actions, "want Deny, Warn or Audit"))
	}
	for i, action := range spec.ValidationActions {
		errs = append(errs, validateValue(action, actions.Index(i), deny, warn, audit)...)
		if slices.Contains(spec.ValidationActions[:i], action) {
			errs = append(errs, field.Duplicate(actions.Index(i), action))
		}
	}
	if slices.Contains(spec.ValidationActions, deny) && slices.Contains(spec.ValidationActions, warn) {
		errs = append(errs, field.Invalid(actions, spec.ValidationActions, "must not contain both Deny and Warn"))
	}
	if spec.ParamRef != nil {
		errs = append(errs, validateParamRef(spec.ParamRef, path.Child("paramRef"))...)
	}
	return append(errs, validateMatchResources(spec.MatchResources, path.Child("matchResources"))...)
}

func validateParamRef(ref *admissionregistrationv1.ParamRef, path *field.Path) (errs field.ErrorList) {
	if (ref.Name == "") == (ref.Selector == nil) {
		errs = append(errs, field.Invalid(path, ref.Name, "exactly one of name and selector is required"))
	}
	if ref.Selector != nil {
		errs = append(errs, metav1validation.ValidateLabelSelector(ref.Selector, metav1validation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
	}
	action := path.Child("parameterNotFoundAction")
	if ref.ParameterNotFoundAction == nil {
		return append(errs, field.Required(action, "want Allow or Deny"))
	}
	return append(errs, validateValue(*ref.ParameterNotFoundAction, action, admissionregistrationv1.AllowAction, admissionregistrationv1.DenyAction)...)
}

// validateMatchResources validates selectors and rules, with the defaults set. m may be nil.
func validateMatchResources(m *admissionregistrationv1.MatchResources, path *field.Path) (errs field.ErrorList) {
	if m == nil {
		return nil
	}
	errs = append(errs, validateValue(*m.MatchPolicy, path.Child("matchPolicy"), admissionregistrationv1.Exact, admissionregistrationv1.Equivalent)...)
	errs = append(errs, metav1validation.ValidateLabelSelector(m.NamespaceSelector, metav1validation.LabelSelectorValidationOptions{}, path.Child("namespaceSelector"))...)
	errs = append(errs, metav1validation.ValidateLabelSelector(m.ObjectSelector, metav1validation.LabelSelectorValidationOptions{}, path.Child("objectSelector"))...)
	for i := range m.ResourceRules {
		errs = append(errs, validateRule(&m.ResourceRules[i], path.Child("resourceRules").Index(i))...)
	}
	for i := range m.ExcludeResourceRules {
		errs = append(errs, validateRule(&m.ExcludeResourceRules[i], path.Child("excludeResourceRules").Index(i))...)
	}
	return errs
}

func validateRule(rule *admissionregistrationv1.NamedRuleWithOperations, path *field.Path) (errs field.ErrorList) {
	for i, operation := range rule.Operations {
		errs = append(errs, validateValue(operation, path.Child("operations").Index(i), admissionregistrationv1.OperationAll, admissionregistrationv1.Create, admissionregistrationv1.Update,
			admissionregistrationv1.Delete, admissionregistrationv1.Connect)...)
	}
	operations := make([]string, len(rule.Operations))
	for i, operation := range rule.Operations {
		operations[i] = string(operation)
	}
	for name, values := range map[string][]string{"operations": operations, "apiGroups": rule.APIGroups, "apiVersions": rule.APIVersions, "resources": rule.Resources} {
		switch {
		case len(values) == 0:
			errs = append(errs, field.Required(path.Child(name), ""))
		case name != "resources" && len(values) > 1 && slices.Contains(values, "*"):
			errs = append(errs, field.Invalid(path.Child(name), values, "if '*' is present, must not specify others"))
		case name != "apiGroups" && slices.Contains(values, ""):
			errs = append(errs, field.Required(path.Child(name), "a value is empty"))
		}
	}
	return append(errs, validateValue(*rule.Scope, path.Child("scope"), admissionregistrationv1.AllScopes, admissionregistrationv1.ClusterScope, admissionregistrationv1.NamespacedScope)...)
}

// validateValue checks that a value is one of those that its type has.
func validateValue[T ~string](value T, path *field.Path, supported ...T) field.ErrorList {
	if slices.Contains(supported, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, supported)}
}
