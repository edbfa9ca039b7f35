/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package admissionpolicy

import (
	"slices"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/proviso-authz/proviso/pkg/kubectl/document"
)

// policy is a compiled policy.
type policy struct {
	*admissionregistrationv1.ValidatingAdmissionPolicy

	source    document.Source
	bindings  []*binding
	validator validating.Validator
	// matcher evaluates the match conditions. It is nil if there are none.
	matcher matchconditions.Matcher
}

func (p *policy) title() string { return titleOf(kindPolicy, p) }

// paramKindOf returns the kind of the parameters of a policy, or nil.
func paramKindOf(p *admissionregistrationv1.ValidatingAdmissionPolicy) *schema.GroupVersionKind {
	if p.Spec.ParamKind == nil {
		return nil
	}
	kind := schema.FromAPIVersionAndKind(p.Spec.ParamKind.APIVersion, p.Spec.ParamKind.Kind)
	return &kind
}

// reads reports whether an expression may read a variable or a field. A text that only looks like it counts, too.
func (p *policy) reads(name string) bool {
	return slices.ContainsFunc(expressionsOf(p.ValidatingAdmissionPolicy), func(e expression) bool { return strings.Contains(e.GetExpression(), name) })
}

// expression is an expression of a policy, with its field.
type expression struct {
	cel.ExpressionAccessor

	path          *field.Path
	hasAuthorizer bool
}

// expressionsOf returns the expressions of a policy, variables first.
func expressionsOf(object *admissionregistrationv1.ValidatingAdmissionPolicy) (all []expression) {
	spec := field.NewPath("spec")
	for i, v := range object.Spec.Variables {
		all = append(all, expression{&validating.Variable{Name: v.Name, Expression: v.Expression}, spec.Child("variables").Index(i).Child("expression"), true})
	}
	for i := range object.Spec.MatchConditions {
		all = append(all, expression{(*matchconditions.MatchCondition)(&object.Spec.MatchConditions[i]), spec.Child("matchConditions").Index(i).Child("expression"), true})
	}
	for i, v := range object.Spec.Validations {
		path := spec.Child("validations").Index(i)
		all = append(all, expression{&validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason}, path.Child("expression"), true})
		if v.MessageExpression != "" {
			all = append(all, expression{&validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}, path.Child("messageExpression"), false})
		}
	}
	for i, a := range object.Spec.AuditAnnotations {
		all = append(all, expression{&validating.AuditAnnotationCondition{Key: a.Key, ValueExpression: a.ValueExpression}, spec.Child("auditAnnotations").Index(i).Child("valueExpression"), true})
	}
	return all
}

var baseEnvironment = sync.OnceValue(func() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
})

// matchCompiler compiles match conditions to validate them: they cannot read variables.
var matchCompiler = sync.OnceValue(func() cel.Compiler { return cel.NewCompiler(baseEnvironment()) })

// compile compiles the expressions as kube-apiserver does when it validates a policy, and then as its admission plugin does.
func (p *policy) compile() (errs field.ErrorList) {
	compiler, err := cel.NewCompositedCompiler(baseEnvironment())
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	spec := &p.Spec
	withAuthorizer := cel.OptionalVariableDeclarations{HasParams: spec.ParamKind != nil, HasAuthorizer: true}
	withoutAuthorizer := cel.OptionalVariableDeclarations{HasParams: spec.ParamKind != nil}
	var validations, messages, annotations, conditions []cel.ExpressionAccessor
	for _, e := range expressionsOf(p.ValidatingAdmissionPolicy) {
		declarations := withoutAuthorizer
		if e.hasAuthorizer {
			declarations = withAuthorizer
		}
		var result cel.CompilationResult
		switch accessor := e.ExpressionAccessor.(type) {
		case *validating.Variable:
			result = compiler.CompileAndStoreVariable(accessor, declarations, environment.NewExpressions)
		case *matchconditions.MatchCondition:
			conditions = append(conditions, accessor)
			result = matchCompiler().CompileCELExpression(accessor, declarations, environment.NewExpressions)
		default:
			result = compiler.CompileCELExpression(accessor, declarations, environment.NewExpressions)
		}
		switch accessor := e.ExpressionAccessor.(type) {
		case *validating.ValidationCondition:
			// The message of a validation has its index. It is nil if there is none.
			validations, messages = append(validations, accessor), append(messages, nil)
		case *validating.MessageExpressionCondition:
			messages[len(messages)-1] = accessor
		case *validating.AuditAnnotationCondition:
			annotations = append(annotations, accessor)
		}
		if result.Error != nil {
			errs = append(errs, field.Invalid(e.path, e.GetExpression(), result.Error.Detail))
		}
	}
	if len(errs) > 0 {
		return errs
	}
	const stored = environment.StoredExpressions
	if len(conditions) > 0 {
		p.matcher = matchconditions.NewMatcher(compiler.CompileCondition(conditions, withAuthorizer, stored), spec.FailurePolicy, "policy", "validate", p.Name)
	}
	p.validator = validating.NewValidator(compiler.CompileCondition(validations, withAuthorizer, stored), p.matcher,
		compiler.CompileCondition(annotations, withAuthorizer, stored), compiler.CompileCondition(messages, withoutAuthorizer, stored), spec.FailurePolicy, nil)
	return nil
}
