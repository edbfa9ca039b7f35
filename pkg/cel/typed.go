/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"errors"
	"fmt"
	"maps"
	"regexp"

	"github.com/google/cel-go/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
	"github.com/proviso-authz/proviso/pkg/cel/presence"
)

// TypedCompiler checks the expressions of a policy against the type of an object. It has
// the variables of NewPolicyEnvironment, in which object and oldObject have that type. It
// finds mistakes, but an expression that it refuses may still be evaluated without error: at admission an object is data
// without a type.
//
// It holds an environment, which is large: make one when it is needed, and do not keep it.
// It must not be used concurrently.
type TypedCompiler struct {
	env    *cel.Env
	guard  *guard.Guard
	budget *Budget
	object *apiservercel.DeclType
	// checked are the expressions without mistakes.
	checked []presence.Expression
}

// Checked returns the expressions that have been checked and have no mistakes. The last one is the condition, which has no name.
func (c *TypedCompiler) Checked() []presence.Expression { return c.checked }

var errNotTyped = errors.New("the type of an object must have a name and fields")

// NewTypedCompiler makes a compiler for objects of a type, whose name must differ from the names of the
// types of the environment. The name of a type can be used in expressions if it is an identifier; with a
// character such as / it cannot. Each check is charged to the budget.
func NewTypedCompiler(object *apiservercel.DeclType, budget *Budget) (compiler *TypedCompiler, err error) {
	defer func() {
		if r := recover(); r != nil {
			compiler, err = nil, fmt.Errorf("building the typed CEL environment: %v", r)
		}
	}()
	if object == nil || !object.IsObject() {
		return nil, errNotTyped
	}
	others := maps.Clone(unknownVariables)
	delete(others, Object)
	delete(others, OldObject)
	env, err := newEnv([]cel.EnvOption{cel.EnableMacroCallTracking()}, conditionTypes, requestVariables, others)
	if err != nil {
		return nil, err
	}
	options, err := apiservercel.NewDeclTypeProvider(object).EnvOptions(env.CELTypeProvider())
	if err != nil {
		return nil, fmt.Errorf("the type %s: %w", object.TypeName(), err)
	}
	env, err = env.Extend(append(options,
		cel.Variable(string(Object), object.CelType()),
		cel.Variable(string(OldObject), object.CelType()))...)
	if err != nil {
		return nil, fmt.Errorf("building the typed CEL environment: %w", err)
	}
	g, err := guard.New(env)
	if err != nil {
		return nil, err
	}
	var fields []*cel.Type
	eachField(object, func(f *apiservercel.DeclField) { fields = append(fields, f.Type.CelType()) })
	return &TypedCompiler{env: env, guard: g.WithFields(fields), budget: budget, object: object}, nil
}

// Check checks an expression, which may have any type. It returns nil, or an error with the first mistakes and their
// places in about a kilobyte. An error wraps ErrCompile only if the expression could not be checked: it is too long, takes
// too long to compile or exceeds the budget, or the compiler failed.
func (c *TypedCompiler) Check(expression string) error {
	_, err := c.typeOf("", expression)
	return err
}

// Define checks a named expression, and declares variables.NAME with its type for the expressions that are
// checked afterwards. If the expression has a mistake, the type is dyn, so that the mistake is reported
// once. It returns the same errors as Check.
func (c *TypedCompiler) Define(variable NamedExpression) error {
	t, mistake := c.typeOf(variable.Name, variable.Expression)
	name := string(Variables) + "." + variable.Name
	env, err := c.env.Extend(cel.Variable(name, t))
	if err != nil {
		return errors.Join(mistake, fmt.Errorf("variable %q: expression %w: %w", variable.Name, ErrCompile, err))
	}
	c.env, c.guard = env, c.guard.WithVariable(name, t)
	return mistake
}

// typeOf returns the type of an expression, or dyn and an error. Like Compiler, it recovers panics of the compiler of
// cel-go.
func (c *TypedCompiler) typeOf(name, expression string) (t *cel.Type, err error) {
	t = cel.DynType // the type if Recover recovers a panic
	defer engine.Recover(&err)
	if err := CheckText(expression, c.guard, c.budget); err != nil {
		return cel.DynType, err
	}
	checked, err := c.check(expression)
	if errors.Is(err, guard.ErrTypeWork) || errors.Is(err, guard.ErrTypeParts) || errors.Is(err, ErrBudget) {
		return cel.DynType, fmt.Errorf("expression %w: %w", ErrCompile, err)
	}
	if err != nil {
		return cel.DynType, errors.New(describeTypes(expression, describeFields(err.Error(), fieldNames(c.object), nil)))
	}
	c.checked = append(c.checked, presence.Expression{Name: name, AST: checked.NativeRep()})
	return checked.OutputType(), nil
}

// place is where a mistake is in an expression.
var place = regexp.MustCompile(`^ERROR: <input>:\d+:\d+: `)

// check checks an expression. In place of each call of unchanged it checks that the named fields exist.
func (c *TypedCompiler) check(expression string) (*cel.Ast, error) {
	parsed, work, err := engine.Parse(c.env, c.guard, expression)
	if err != nil {
		return nil, err
	}
	if err := c.budget.Spend(work); err != nil {
		return nil, err
	}
	for _, path := range takeUnchanged(parsed.NativeRep()) {
		if _, err := checkWithin(c.budget, c.env, c.guard, "has("+path+")"); err != nil {
			return nil, fmt.Errorf("%s: %s: %s", UnchangedFunction, path, place.ReplaceAllString(err.Error(), ""))
		}
	}
	return engine.CheckTypes(c.env, parsed)
}
