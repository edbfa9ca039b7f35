/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package admissionpolicy

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// The bounds of kube-apiserver.
const (
	maxMatchConditions  = 64
	maxAuditAnnotations = 20
	maxValueExpression  = 5 * 1024 // bytes
)

// validatePolicy returns the mistakes in the fields of a policy that kube-apiserver would refuse. Its own
// validation is not in a package that other modules can import.
func validatePolicy(object *admissionregistrationv1.ValidatingAdmissionPolicy) (errs field.ErrorList) {
	spec, path := &object.Spec, field.NewPath("spec")
	errs = append(errs, validateMeta(object.ObjectMeta)...)
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
		messages := validation.IsCIdentifier(v.Name)
		if escaped, _ := apiservercel.Escape(v.Name); escaped == "__"+v.Name+"__" {
			messages = append(messages, "must not be a reserved word of CEL")
		}
		errs = append(errs, invalid(path.Child("variables").Index(i).Child("name"), v.Name, messages)...)
	}
	errs = append(errs, validateMatchConditions(spec.MatchConditions, path.Child("matchConditions"))...)
	for i := range spec.Validations {
		errs = append(errs, validateValidation(&spec.Validations[i], path.Child("validations").Index(i))...)
	}
	errs = append(errs, validateAuditAnnotations(object.Name, spec.AuditAnnotations, path.Child("auditAnnotations"))...)
	for _, e := range expressionsOf(object) {
		if strings.TrimSpace(e.GetExpression()) == "" {
			errs = append(errs, field.Required(e.path, ""))
		}
	}
	return errs
}

// validateMeta validates the metadata of an object that is in no namespace. kube-apiserver takes a namespace away.
func validateMeta(m metav1.ObjectMeta) field.ErrorList {
	m.Namespace = ""
	return apivalidation.ValidateObjectMeta(&m, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
}

func validateMatchConditions(conditions []admissionregistrationv1.MatchCondition, path *field.Path) (errs field.ErrorList) {
	if len(conditions) > maxMatchConditions {
		errs = append(errs, field.TooMany(path, len(conditions), maxMatchConditions))
	}
	for i, c := range conditions {
		name := path.Index(i).Child("name")
		errs = append(errs, invalid(name, c.Name, validation.IsQualifiedName(c.Name))...)
		if slices.ContainsFunc(conditions[:i], func(other admissionregistrationv1.MatchCondition) bool { return other.Name == c.Name }) {
			errs = append(errs, field.Duplicate(name, c.Name))
		}
	}
	return errs
}

func validateAuditAnnotations(policy string, annotations []admissionregistrationv1.AuditAnnotation, path *field.Path) (errs field.ErrorList) {
	if len(annotations) > maxAuditAnnotations {
		errs = append(errs, field.TooMany(path, len(annotations), maxAuditAnnotations))
	}
	for i, a := range annotations {
		key := path.Index(i).Child("key")
		errs = append(errs, invalid(key, a.Key, validation.IsQualifiedName(policy+"/"+a.Key))...)
		if slices.ContainsFunc(annotations[:i], func(other admissionregistrationv1.AuditAnnotation) bool { return other.Key == a.Key }) {
			errs = append(errs, field.Duplicate(key, a.Key))
		}
		if len(strings.TrimSpace(a.ValueExpression)) > maxValueExpression {
			errs = append(errs, field.TooLong(path.Index(i).Child("valueExpression"), a.ValueExpression, maxValueExpression))
		}
	}
	return errs
}

func validateParamKind(kind *admissionregistrationv1.ParamKind, path *field.Path) (errs field.ErrorList) {
	apiVersion := path.Child("apiVersion")
	version, err := schema.ParseGroupVersion(kind.APIVersion)
	if err != nil || version.Version == "" {
		errs = append(errs, field.Invalid(apiVersion, kind.APIVersion, "must be VERSION or GROUP/VERSION"))
	} else {
		errs = append(errs, invalid(apiVersion, kind.APIVersion, validation.IsDNS1035Label(version.Version))...)
	}
	if version.Group != "" {
		errs = append(errs, invalid(apiVersion, kind.APIVersion, validation.IsDNS1123Subdomain(version.Group))...)
	}
	if kind.Kind == "" {
		return append(errs, field.Required(path.Child("kind"), ""))
	}
	return append(errs, invalid(path.Child("kind"), kind.Kind, validation.IsDNS1035Label(strings.ToLower(kind.Kind)))...)
}

func validateValidation(v *admissionregistrationv1.Validation, path *field.Path) (errs field.ErrorList) {
	if v.Message != "" && strings.TrimSpace(v.Message) == "" {
		errs = append(errs, field.Invalid(path.Child("message"), v.Message, "must not be blank"))
	}
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
	errs = append(errs, validateMeta(object.ObjectMeta)...)
	if spec.PolicyName == "" {
		errs = append(errs, field.Required(path.Child("policyName"), ""))
	} else {
		errs = append(errs, invalid(path.Child("policyName"), spec.PolicyName, apivalidation.NameIsDNSSubdomain(spec.PolicyName, false))...)
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
	if ref.Name != "" {
		errs = append(errs, invalid(path.Child("name"), ref.Name, content.IsPathSegmentName(ref.Name))...)
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
	operations := make([]string, len(rule.Operations))
	for i, operation := range rule.Operations {
		operations[i] = string(operation)
		errs = append(errs, validateValue(operation, path.Child("operations").Index(i), admissionregistrationv1.OperationAll, admissionregistrationv1.Create, admissionregistrationv1.Update,
			admissionregistrationv1.Delete, admissionregistrationv1.Connect)...)
	}
	for _, part := range []struct {
		name   string
		values []string
	}{{"operations", operations}, {"apiGroups", rule.APIGroups}, {"apiVersions", rule.APIVersions}, {"resources", rule.Resources}} {
		switch {
		case len(part.values) == 0:
			errs = append(errs, field.Required(path.Child(part.name), ""))
		case part.name != "resources" && len(part.values) > 1 && slices.Contains(part.values, "*"):
			errs = append(errs, field.Invalid(path.Child(part.name), part.values, "if '*' is present, must not specify others"))
		case part.name != "apiGroups" && slices.Contains(part.values, ""):
			errs = append(errs, field.Required(path.Child(part.name), "a value is empty"))
		}
	}
	errs = append(errs, validateResources(rule.Resources, path.Child("resources"))...)
	for i, name := range rule.ResourceNames {
		at := path.Child("resourceNames").Index(i)
		errs = append(errs, invalid(at, name, content.IsPathSegmentName(name))...)
		if slices.Contains(rule.ResourceNames[:i], name) {
			errs = append(errs, field.Duplicate(at, name))
		}
	}
	return append(errs, validateValue(*rule.Scope, path.Child("scope"), admissionregistrationv1.AllScopes, admissionregistrationv1.ClusterScope, admissionregistrationv1.NamespacedScope)...)
}

// validateResources finds resources that a wildcard has already. The order matters where it does in kube-apiserver.
func validateResources(resources []string, path *field.Path) (errs field.ErrorList) {
	lastResource := "" // without a subresource
	for i, r := range resources {
		resource, subresource, hasSubresource := strings.Cut(r, "/")
		if !hasSubresource {
			lastResource = r
			continue
		}
		for _, wildcard := range []string{resource + "/*", "*/" + subresource} {
			if slices.Contains(resources[:i], wildcard) {
				errs = append(errs, field.Invalid(path.Index(i), r, "is in "+wildcard+" already"))
			}
		}
	}
	if len(resources) > 1 && slices.Contains(resources, "*/*") {
		errs = append(errs, field.Invalid(path, resources, "if '*/*' is present, must not specify others"))
	}
	if slices.Contains(resources, "*") && lastResource != "*" && lastResource != "" {
		errs = append(errs, field.Invalid(path, resources, "if '*' is present, must not specify other resources without subresources"))
	}
	return errs
}

// invalid returns an error for each message about a value.
func invalid(path *field.Path, value string, messages []string) (errs field.ErrorList) {
	for _, message := range messages {
		errs = append(errs, field.Invalid(path, value, message))
	}
	return errs
}

// validateValue checks that a value is one of those that its type has.
func validateValue[T ~string](value T, path *field.Path, supported ...T) field.ErrorList {
	if slices.Contains(supported, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, supported)}
}
