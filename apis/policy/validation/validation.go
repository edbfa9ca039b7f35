/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package validation validates the kinds of policy.proviso.dev.
//
// Invariants:
//
//   - The package checks the structure only. Expressions are compiled when a policy is stored.
//   - An update is validated as strictly as a create.
//   - A part of a policy that would never apply, or that would mean something else than it
//     appears to, is an error that says what to write instead, so that readers can rely on
//     the text of a policy.
package validation

import (
	"fmt"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proviso-authz/proviso/apis/policy"
)

// scope is the scope of a kind of policies.
type scope bool

const (
	clusterScope   scope = false
	namespaceScope scope = true
)

// ValidateClusterAuthorizationPolicy validates a new policy.
func ValidateClusterAuthorizationPolicy(p *policy.ClusterAuthorizationPolicy) field.ErrorList {
	return validatePolicy(&p.ObjectMeta, &p.Spec, nil, clusterScope)
}

// ValidateClusterAuthorizationPolicyUpdate validates a changed policy as strictly as a new one.
func ValidateClusterAuthorizationPolicyUpdate(p, old *policy.ClusterAuthorizationPolicy) field.ErrorList {
	return validatePolicyUpdate(&p.ObjectMeta, &old.ObjectMeta, &p.Spec, &old.Spec, clusterScope)
}

// ValidateClusterAuthorizationPolicyStatusUpdate validates a changed status of a policy.
func ValidateClusterAuthorizationPolicyStatusUpdate(p, old *policy.ClusterAuthorizationPolicy) field.ErrorList {
	return validateStatusUpdate(&p.ObjectMeta, &old.ObjectMeta, &p.Status, &old.Status)
}

// ValidateAuthorizationPolicy validates a new policy.
func ValidateAuthorizationPolicy(p *policy.AuthorizationPolicy) field.ErrorList {
	return validatePolicy(&p.ObjectMeta, &p.Spec, nil, namespaceScope)
}

// ValidateAuthorizationPolicyUpdate validates a changed policy as strictly as a new one.
func ValidateAuthorizationPolicyUpdate(p, old *policy.AuthorizationPolicy) field.ErrorList {
	return validatePolicyUpdate(&p.ObjectMeta, &old.ObjectMeta, &p.Spec, &old.Spec, namespaceScope)
}

// ValidateAuthorizationPolicyStatusUpdate validates a changed status of a policy.
func ValidateAuthorizationPolicyStatusUpdate(p, old *policy.AuthorizationPolicy) field.ErrorList {
	return validateStatusUpdate(&p.ObjectMeta, &old.ObjectMeta, &p.Status, &old.Status)
}

// ValidateSpec validates a specification without its object. The rules of namespaced policies must
// not have non-resource URLs.
func ValidateSpec(spec *policy.AuthorizationPolicySpec, isNamespaced bool, path *field.Path) field.ErrorList {
	return validateSpec(spec, scope(isNamespaced), path)
}

// validatePolicy validates a policy. The specification before an update is nil at a creation.
func validatePolicy(meta *metav1.ObjectMeta, spec, before *policy.AuthorizationPolicySpec, in scope) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(meta, bool(in), validateName, field.NewPath("metadata"))
	errs = append(errs, validateSpec(spec, in, field.NewPath("spec"))...)
	return append(errs, validateDeniedVerbs(spec, before, field.NewPath("spec", "rules"))...)
}

func validatePolicyUpdate(meta, oldMeta *metav1.ObjectMeta, spec, oldSpec *policy.AuthorizationPolicySpec, in scope) field.ErrorList {
	errs := validatePolicy(meta, spec, oldSpec, in)
	errs = append(errs, apivalidation.ValidateObjectMetaUpdate(meta, oldMeta, field.NewPath("metadata"))...)
	if oldMeta.DeletionTimestamp != nil && oldSpec.Effect == policy.PolicyEffectAllow && spec.Effect != policy.PolicyEffectAllow {
		// The deletion was authorized without the verb restrict, because the policy was no
		// restriction.
		errs = append(errs, field.Forbidden(field.NewPath("spec", "effect"), "a policy that is being deleted must not become a restriction, which any user who removes the last finalizer could lift: create another policy"))
	}
	return errs
}

// validateName also bounds the length of names. A prefix may be longer: the name that is generated
// from it is shortened, and validated.
func validateName(name string, prefix bool) []string {
	messages := apivalidation.NameIsDNSSubdomain(name, prefix)
	if !prefix && len(name) > policy.MaxNameBytes {
		messages = append(messages, utilvalidation.MaxLenError(policy.MaxNameBytes))
	}
	return messages
}

var effects = sets.New(policy.PolicyEffectAllow, policy.PolicyEffectDeny, policy.PolicyEffectNoOpinion)

// enforcements are the values of spec.enforcement. An empty value, which only an object that is made in process has, is Enforce.
var enforcements = sets.New(policy.PolicyEnforcementEnforce, policy.PolicyEnforcementAudit)

func validateSpec(spec *policy.AuthorizationPolicySpec, in scope, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(spec.Description) > policy.MaxDescriptionBytes {
		errs = append(errs, field.TooLong(path.Child("description"), "", policy.MaxDescriptionBytes))
	}
	switch {
	case spec.Effect == "":
		errs = append(errs, field.Required(path.Child("effect"), "one of Allow, Deny and NoOpinion"))
	case !effects.Has(spec.Effect):
		errs = append(errs, field.NotSupported(path.Child("effect"), spec.Effect, sets.List(effects)))
	}
	if spec.Enforcement != "" && !enforcements.Has(spec.Enforcement) {
		errs = append(errs, field.NotSupported(path.Child("enforcement"), spec.Enforcement, sets.List(enforcements)))
	}
	errs = append(errs, validateSubjects(spec.Subjects, spec.Effect, path.Child("subjects"))...)
	errs = append(errs, validateRules(spec.Rules, spec.Effect, in, path.Child("rules"))...)
	errs = append(errs, validateVariables(spec.Variables, path.Child("variables"))...)
	errs = append(errs, validateCondition(spec, path)...)
	if len(errs) > 0 {
		return errs
	}
	return validateTotal(spec, path)
}

func validateStatusUpdate(meta, oldMeta *metav1.ObjectMeta, status, oldStatus *policy.AuthorizationPolicyStatus) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(meta, oldMeta, field.NewPath("metadata"))
	errs = append(errs, validateObserved(meta, status.ObservedGeneration, oldStatus.ObservedGeneration, status.Conditions)...)
	if status.TypeChecking != nil {
		errs = append(errs, validateWarnings(status.TypeChecking.ExpressionWarnings, field.NewPath("status", "typeChecking", "expressionWarnings"))...)
	}
	errs = append(errs, validateEnforcement(status.Enforcement, field.NewPath("status", "enforcement"))...)
	return append(errs, validateAudit(status.Audit, meta.Generation, field.NewPath("status", "audit"))...)
}

// validateAudit checks that counts are not negative and belong to a generation that exists.
func validateAudit(audit *policy.PolicyAuditStatus, generation int64, path *field.Path) field.ErrorList {
	if audit == nil {
		return nil
	}
	errs := apivalidation.ValidateNonnegativeField(audit.Decided, path.Child("decided"))
	errs = append(errs, apivalidation.ValidateNonnegativeField(audit.Errors, path.Child("errors"))...)
	errs = append(errs, apivalidation.ValidateNonnegativeField(audit.Undetermined, path.Child("undetermined"))...)
	errs = append(errs, apivalidation.ValidateNonnegativeField(audit.ObservedGeneration, path.Child("observedGeneration"))...)
	if audit.ObservedGeneration > generation {
		errs = append(errs, field.Invalid(path.Child("observedGeneration"), audit.ObservedGeneration, fmt.Sprintf("must not be greater than metadata.generation, %d", generation)))
	}
	return errs
}

// validateEnforcement does not check the values of At and Result: later versions have more of them.
func validateEnforcement(entries []policy.RuleEnforcement, path *field.Path) field.ErrorList {
	if len(entries) > policy.MaxRuleEnforcements {
		return field.ErrorList{field.TooMany(path, len(entries), policy.MaxRuleEnforcements)}
	}
	var errs field.ErrorList
	for i := range entries {
		e, entry := &entries[i], path.Index(i)
		if e.Rule < 0 || e.Rule >= policy.MaxRules {
			errs = append(errs, field.Invalid(entry.Child("rule"), e.Rule, fmt.Sprintf("must be between 0 and %d", policy.MaxRules-1)))
		}
		errs = append(errs, validateNames(e.Verbs, entry.Child("verbs"))...)
		errs = append(errs, validateNames(e.Resources, entry.Child("resources"))...)
		errs = append(errs, validateText(string(e.At), policy.MaxEntryBytes, entry.Child("at"))...)
		errs = append(errs, validateText(string(e.Result), policy.MaxEntryBytes, entry.Child("result"))...)
		if len(e.Message) > policy.MaxEnforcementMessageBytes {
			errs = append(errs, field.TooLong(entry.Child("message"), "", policy.MaxEnforcementMessageBytes))
		}
	}
	return errs
}

func validateNames(names []string, path *field.Path) field.ErrorList {
	if len(names) > policy.MaxRuleEntries {
		return field.ErrorList{field.TooMany(path, len(names), policy.MaxRuleEntries)}
	}
	var errs field.ErrorList
	for i, name := range names {
		errs = append(errs, validateText(name, policy.MaxReferenceBytes, path.Index(i))...)
	}
	return errs
}

func validateWarnings(warnings []policy.ExpressionWarning, path *field.Path) field.ErrorList {
	if len(warnings) > policy.MaxExpressionWarnings {
		return field.ErrorList{field.TooMany(path, len(warnings), policy.MaxExpressionWarnings)}
	}
	var errs field.ErrorList
	for i, w := range warnings {
		errs = append(errs, validateText(w.FieldRef, policy.MaxFieldRefBytes, path.Index(i).Child("fieldRef"))...)
		errs = append(errs, validateText(w.Warning, policy.MaxWarningBytes, path.Index(i).Child("warning"))...)
	}
	return errs
}

// validateText validates a text that must be given and has a bound.
func validateText(text string, limit int, path *field.Path) field.ErrorList {
	switch {
	case text == "":
		return field.ErrorList{field.Required(path, "")}
	case len(text) > limit:
		return field.ErrorList{field.TooLong(path, "", limit)}
	}
	return nil
}

// invalid returns an error for each message.
func invalid(path *field.Path, value string, messages []string) field.ErrorList {
	var errs field.ErrorList
	for _, message := range messages {
		errs = append(errs, field.Invalid(path, value, message))
	}
	return errs
}

func validateDNSSubdomain(value string, path *field.Path) field.ErrorList {
	return invalid(path, value, utilvalidation.IsDNS1123Subdomain(value))
}
