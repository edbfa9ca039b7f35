/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrierlaw

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/library"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

// Ends reports whether kube-apiserver refuses a write because it has ended an evaluation, which costs more than its limit, or in which a
// function panics. Unlike an error, this ends it also where another operand of && or || decides. It also reports whether a macro of a barrier has
// more elements than it may have.
func Ends(refusal string) bool {
	return slices.ContainsFunc([]string{"actual cost limit exceeded", "running out of cost budget", "internal error:", "expected iterable type"}, func(text string) bool { return strings.Contains(refusal, text) })
}

// Oracle evaluates conditions with cel-go, without the bounds of Proviso and of kube-apiserver. It keeps two rules of Proviso that are no
// bounds: a panic of a function is an error, and so is a map whose key is no plain value, such as a list.
type Oracle struct {
	policies *partial.Compiler
	env      *celgo.Env
	checks   authorizer.UnconditionalAuthorizer
}

// NewOracle returns an Oracle, whose conditions ask checks.
func NewOracle(tb testing.TB, policies *partial.Compiler, checks authorizer.UnconditionalAuthorizer) *Oracle {
	tb.Helper()
	environment, err := cel.NewPolicyEnvironment()
	if err != nil {
		tb.Fatal(err)
	}
	return &Oracle{policies: policies, env: environment.Engine().Env, checks: checks}
}

// DeniesByBound reports whether a policy that denies a check of a write does so only because its condition is over a bound of Proviso. The
// value of the condition is false then.
func (o *Oracle) DeniesByBound(tb testing.TB, key engine.Key, spec *policyv1alpha1.AuthorizationPolicySpec, w *Write, check authorizer.Attributes) bool {
	tb.Helper()
	if spec.Condition == "" {
		return false
	}
	never := spec.DeepCopy()
	never.Variables, never.Condition = nil, "false"
	policy, err := engine.New(key, never, o.policies)
	if err != nil {
		tb.Fatal(err)
	}
	source := &engine.Source{}
	source.Publish(engine.NewBuilder().Apply(map[engine.Key]*engine.Policy{key: policy}))
	if Denies(tb, &engine.Authorizer{Source: source, Part: engine.Restricting, Checks: o.checks}, w, check) {
		return false // whatever its condition is
	}
	value, err := o.value(tb, spec, w, check)
	return err == nil && !value
}

// value returns the value of a condition.
func (o *Oracle) value(tb testing.TB, spec *policyv1alpha1.AuthorizationPolicySpec, w *Write, check authorizer.Attributes) (bool, error) {
	tb.Helper()
	var variables []cel.NamedExpression
	for _, v := range spec.Variables {
		variables = append(variables, cel.NamedExpression{Name: v.Name, Expression: v.Expression})
	}
	expression, err := o.policies.CompileWithVariables(variables, spec.Condition)
	if err != nil {
		tb.Fatal(err)
	}
	checked, issues := o.env.Compile(expression.Text())
	if issues.Err() != nil {
		tb.Fatal(issues.Err())
	}
	program, err := o.env.Program(checked, celgo.CustomDecoratorV2(withRules), celgo.CostLimit(math.MaxUint64))
	if err != nil {
		return false, err
	}
	result, _, err := program.Eval(o.values(tb, w, check))
	return result == types.True, err
}

// values are the variables of a condition, as plain data.
func (o *Oracle) values(tb testing.TB, w *Write, check authorizer.Attributes) cel.Values {
	tb.Helper()
	d, u := data{w}, check.GetUser()
	values := cel.Values{cel.Operation: string(w.Operation), cel.DryRun: w.DryRun, cel.Request: requestOf(check)}
	for variable, object := range map[cel.Variable]runtime.Object{cel.Object: w.Object, cel.OldObject: w.OldObject, cel.Options: w.Options} {
		if values[variable] = nil; object == nil {
			continue
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			tb.Fatal(err)
		}
		values[variable] = content
	}
	if namespace, _ := d.GetNamespaceObject(); namespace != nil {
		values[cel.NamespaceObject] = cel.NamespaceData(namespace)
	}
	if o.checks != nil {
		values[cel.Authorizer] = library.NewAuthorizerVal(u, o.checks)
		values[cel.RequestResource] = library.NewResourceAuthorizerVal(u, o.checks, d)
	}
	return values
}

// requestOf returns what a condition reads of a request.
func requestOf(check authorizer.Attributes) map[string]any {
	u, extra := check.GetUser(), map[string]any{}
	for name, values := range u.GetExtra() {
		extra[name] = values
	}
	return map[string]any{
		"verb": check.GetVerb(), "apiGroup": check.GetAPIGroup(), "apiVersion": check.GetAPIVersion(), "resource": check.GetResource(),
		"subresource": check.GetSubresource(), "namespace": check.GetNamespace(), "name": check.GetName(), "path": "",
		"userInfo":      map[string]any{"username": u.GetName(), "uid": u.GetUID(), "groups": u.GetGroups(), "extra": extra},
		"fieldSelector": map[string]any{"requirements": []any{}}, "labelSelector": map[string]any{"requirements": []any{}},
	}
}

var (
	errKey   = errors.New("the key of a map is no plain value")
	errPanic = errors.New("the function panics")
)

// withRules is a decorator that adds the rules of Proviso.
func withRules(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	switch node := i.(type) {
	case interpreter.InterpretableCall:
		return call{node}, nil
	case interpreter.InterpretableConstructor:
		if node.Type() == types.MapType {
			return constructor{node}, nil
		}
	}
	return i, nil
}

type call struct{ interpreter.InterpretableCall }

func (c call) Exec(frame *interpreter.ExecutionFrame) (value ref.Val) {
	defer func() {
		if recover() != nil {
			value = types.WrapErr(errPanic)
		}
	}()
	return c.InterpretableCall.Exec(frame)
}

func (c call) Eval(vars interpreter.Activation) ref.Val { return c.Exec(interpreter.AsFrame(vars)) }

type constructor struct {
	interpreter.InterpretableConstructor
}

func (c constructor) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	value := c.InterpretableConstructor.Exec(frame)
	m, ok := value.(traits.Mapper)
	if !ok {
		return value
	}
	for it := m.Iterator(); it.HasNext() == types.True; {
		switch it.Next().(type) {
		case types.String, types.Int, types.Uint, types.Bool, types.Double, types.Duration, types.Null:
		default:
			return types.WrapErr(errKey)
		}
	}
	return value
}

func (c constructor) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}
