/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/apis/policy/validation"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
	"github.com/proviso-authz/proviso/pkg/policy/typechecking"
)

// Checker compiles the expressions of policies before they are stored. It is safe for
// concurrent use.
type Checker struct {
	compiler *partial.Compiler
	server   enforcementstatus.Server
	// compilations bounds the compilations at the same time.
	compilations chan struct{}
	types        *typechecking.Checker
	// typeChecks bounds the checks against schemas at the same time, also those that no write waits for any more.
	typeChecks chan struct{}
	// barriers compiles the barriers of policies. It is nil if the server writes none. overWork returns why the work of a changed barrier
	// and of all others exceeds the bound, or "".
	barriers *barrier.Compiler
	overWork func(changed *barrier.Barrier) string
}

const (
	// maxCompilations is how many policies are compiled at the same time to be checked, so that reviews have processors left.
	maxCompilations = 2
	// maxTypeChecks is how many policies are checked against schemas at the same time.
	maxTypeChecks = 2
	// typeCheckWait is how long a write waits for the check against schemas. It usually takes some milliseconds, and some
	// tenths of a second if the schemas must be fetched.
	typeCheckWait = 2 * time.Second
)

// NewChecker returns a Checker. The compiler must be the one that also compiles stored policies, and server describes where
// their requests are decided. If types is nil, policies are not checked against schemas.
func NewChecker(compiler *partial.Compiler, server enforcementstatus.Server, types *typechecking.Checker) *Checker {
	collected.conditions.Store(compiler)
	return &Checker{
		compiler: compiler, server: server, compilations: make(chan struct{}, maxCompilations),
		types: types, typeChecks: make(chan struct{}, maxTypeChecks),
	}
}

// WithBarriers makes the Checker refuse changes of barriers for which overWork returns a reason.
// It returns the Checker, and must be called before it is used.
func (c *Checker) WithBarriers(barriers *barrier.Compiler, overWork func(changed *barrier.Barrier) string) *Checker {
	c.barriers, c.overWork = barriers, overWork
	collected.barriers.Store(barriers)
	return c
}

// Check returns the errors in the expressions of a specification, and the errors in its rules
// that its condition causes, for example that apiVersions are missing although the condition
// reads an object. The warnings say where the policy is not enforced, or not on its condition.
// The specification must be valid in structure. A key with a namespace is the key of a namespaced policy.
func (c *Checker) Check(key engine.Key, spec *policy.AuthorizationPolicySpec) (warnings []string, errs field.ErrorList) {
	if spec.Condition == "" {
		return c.enforcementWarnings(key, spec, enforcementstatus.Request), nil
	}
	c.compilations <- struct{}{}
	defer func() { <-c.compilations }()
	expression, err := c.compiler.CompileWithVariables(namedExpressions(spec.Variables), spec.Condition)
	if err != nil {
		return nil, field.ErrorList{blame(spec, err)}
	}
	errs = append(errs, refusals(spec, expression)...)
	program := expression.Program()
	if program.Reads(cel.Object) || program.Reads(cel.OldObject) {
		errs = append(errs, missingVersions(spec.Rules)...)
	}
	return c.enforcementWarnings(key, spec, readsOf(expression)), errs
}

// readsOf returns what a condition depends on. Nil is no condition.
func readsOf(expression *partial.Expression) enforcementstatus.Reads {
	if expression == nil {
		return enforcementstatus.Request
	}
	reads := enforcementstatus.ReadsOf(expression.Program())
	if engine.ReadsUnseen(expression) {
		reads |= enforcementstatus.Unseen
	}
	return reads
}

// Warn returns the mistakes that the status of a policy will show in typeChecking: the specification is valid, but does not
// do what it says. Warn waits for the check against schemas for typeCheckWait at most, and not after ctx has ended. If the check
// is not complete by then, a warning says that the status will show its result.
func (c *Checker) Warn(ctx context.Context, key engine.Key, spec *policy.AuthorizationPolicySpec) []string {
	stored := &policyv1alpha1.AuthorizationPolicySpec{}
	if err := policyv1alpha1.Convert_policy_AuthorizationPolicySpec_To_v1alpha1_AuthorizationPolicySpec(spec.DeepCopy(), stored, nil); err != nil {
		return nil
	}
	mistakes := c.mistakes(ctx, key, spec, stored)
	found, err := c.checkTypes(ctx, key.Namespace, stored)
	var warnings []string
	for _, w := range append(mistakes, found...) {
		warnings = append(warnings, w.FieldRef+": "+w.Warning)
	}
	if err != nil {
		warnings = append(warnings, "spec: not checked completely against the resources and schemas of the cluster: the status of the policy will show the result in typeChecking")
	}
	return warnings
}

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

// ChecksForOthers reports whether the condition of a policy may make checks for a service account outside the namespace of the policy. Of a policy without
// namespace, every one is. It returns true for a condition that does not compile.
func (c *Checker) ChecksForOthers(spec *policy.AuthorizationPolicySpec, namespace string) bool {
	const function = "serviceAccount"
	isNamed := func(v policy.Variable) bool { return strings.Contains(v.Expression, function) }
	//guard:policies-checks-others-variables
	if !strings.Contains(spec.Condition, function) && !slices.ContainsFunc(spec.Variables, isNamed) {
		return false
	}
	c.compilations <- struct{}{}
	defer func() { <-c.compilations }()
	expression, err := c.compiler.CompileWithVariables(namedExpressions(spec.Variables), spec.Condition)
	//guard:policies-checks-others-do-not-compile
	return err != nil || expression.ChecksForOthers(namespace)
}

func (c *Checker) mistakes(ctx context.Context, key engine.Key, spec *policy.AuthorizationPolicySpec, stored *policyv1alpha1.AuthorizationPolicySpec) []policyv1alpha1.ExpressionWarning {
	if spec.Condition == "" {
		return mistakesOf(ctx, c.server, key.Namespace, stored, nil)
	}
	c.compilations <- struct{}{}
	defer func() { <-c.compilations }()
	expression, err := c.compiler.CompileWithVariables(namedExpressions(spec.Variables), spec.Condition)
	if err != nil {
		return nil
	}
	return mistakesOf(ctx, c.server, key.Namespace, stored, expression)
}

var errLate = errors.New("the check against schemas takes too long")

// checkTypes checks a policy against schemas. It returns errLate if that takes longer than typeCheckWait, or if ctx ends. A check
// that has begun then goes on in the background, and leaves the schemas in the cache.
func (c *Checker) checkTypes(ctx context.Context, namespace string, spec *policyv1alpha1.AuthorizationPolicySpec) ([]policyv1alpha1.ExpressionWarning, error) {
	if c.types == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, typeCheckWait)
	defer cancel()
	select {
	case c.typeChecks <- struct{}{}:
	case <-ctx.Done():
		return nil, errLate
	}
	type result struct {
		found *policyv1alpha1.TypeChecking
		err   error
	}
	done := make(chan result, 1)
	go func() {
		defer func() { <-c.typeChecks }()
		r := result{found: &policyv1alpha1.TypeChecking{}, err: errLate}
		defer func() {
			_ = recover() // schemas are written by others: the write must not fail, nor the server
			done <- r
		}()
		r.found, r.err = c.types.Check(namespace, spec)
	}()
	select {
	case r := <-done:
		return r.found.ExpressionWarnings, r.err
	case <-ctx.Done():
		return nil, errLate
	}
}

// enforcementWarnings returns warnings that say where the policy is not enforced, or not on its condition.
func (c *Checker) enforcementWarnings(key engine.Key, spec *policy.AuthorizationPolicySpec, reads enforcementstatus.Reads) []string {
	var stored policyv1alpha1.AuthorizationPolicySpec
	if err := policyv1alpha1.Convert_policy_AuthorizationPolicySpec_To_v1alpha1_AuthorizationPolicySpec(spec, &stored, nil); err != nil {
		return nil
	}
	prefix := ""
	if stored.Enforcement == policyv1alpha1.PolicyEnforcementAudit { // that it decides nothing is what the author wants
		stored.Enforcement, prefix = policyv1alpha1.PolicyEnforcementEnforce, "with the enforcement Enforce: "
	}
	var warnings []string
	for _, e := range c.server.OfWrite(key.Namespace, key.Name, &stored, reads) {
		if e.Result != policyv1alpha1.ResultEnforced {
			warnings = append(warnings, prefix+"spec."+enforcementstatus.Text(&e))
		}
	}
	return warnings
}

// refusals returns errors for a condition that compiles: every evaluation makes more checks than the cost limit allows, or a restriction reads
// request.name although a rule describes requests without a name.
func refusals(spec *policy.AuthorizationPolicySpec, expression *partial.Expression) (errs field.ErrorList) {
	path := field.NewPath("spec", "condition")
	if cost := expression.MinCost(); cost > cel.CostLimit {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf("the authorization checks of each evaluation cost at least %d, where %d is allowed: make fewer checks", cost, uint64(cel.CostLimit))))
	}
	if spec.Effect == policy.PolicyEffectAllow || !expression.ReadsRequestField("name") {
		return errs
	}
	for i := range spec.Rules {
		if validation.DescribesNameless(&spec.Rules[i]) {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("reads request.name, but spec.rules[%d] describes requests that have none, such as create: the restriction would never apply to them; write object.metadata.name", i)))
		}
	}
	return errs
}

func namedExpressions(variables []policy.Variable) []cel.NamedExpression {
	var result []cel.NamedExpression
	for _, v := range variables {
		result = append(result, cel.NamedExpression{Name: v.Name, Expression: v.Expression})
	}
	return result
}

// blame returns an error of the compiler as an error of the field with the wrong expression.
func blame(spec *policy.AuthorizationPolicySpec, err error) *field.Error {
	path, text := field.NewPath("spec"), authorization.OneLine(err.Error())
	if of, ok := errors.AsType[*partial.VariableError](err); ok {
		return field.Invalid(path.Child("variables").Index(of.Index).Child("expression"), spec.Variables[of.Index].Expression, cel.DescribeMistakes(spec.Variables[of.Index].Expression, text))
	}
	return field.Invalid(path.Child("condition"), spec.Condition, cel.DescribeMistakes(spec.Condition, text))
}

// missingVersions returns an error for each rule about resources without apiVersions. It is for policies whose condition
// reads an object.
func missingVersions(rules []policy.PolicyRule) (errs field.ErrorList) {
	for i, rule := range rules {
		if len(rule.Resources) > 0 && len(rule.APIVersions) == 0 {
			path := field.NewPath("spec", "rules").Index(i).Child("apiVersions")
			errs = append(errs, field.Required(path, "the condition reads an object, whose fields differ between versions: name those for which it is written, or * for all"))
		}
	}
	return errs
}

// compile compiles a stored policy. It returns an error if the specification is not valid in structure any more, or if its
// expressions do not compile. It does not repeat the other checks of Checker.Check.
func compile(key engine.Key, spec *policyv1alpha1.AuthorizationPolicySpec, compiler *partial.Compiler) (*engine.Policy, uint64, error) {
	var hub policy.AuthorizationPolicySpec
	if err := policyv1alpha1.Convert_v1alpha1_AuthorizationPolicySpec_To_policy_AuthorizationPolicySpec(spec.DeepCopy(), &hub, nil); err != nil {
		return nil, 0, err
	}
	if errs := validation.ValidateSpec(&hub, key.Namespace != "", field.NewPath("spec")); len(errs) > 0 {
		return nil, 0, errs.ToAggregate()
	}
	return engine.NewWithCost(key, spec, compiler)
}
