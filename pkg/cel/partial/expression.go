/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"fmt"
	"sync"
	"weak"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"k8s.io/utils/lru"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/bound"
	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
	"github.com/proviso-authz/proviso/pkg/cel/internal/syntax"
	"github.com/proviso-authz/proviso/pkg/memo"
)

// Compiler compiles expressions that are evaluated in part: while some of their variables are known and
// others are not. It is safe for concurrent use.
type Compiler struct {
	environment *cel.Environment
	// engine is the engine of the environment.
	engine    *engine.Engine
	residuals *cel.Compiler
	trees     *syntax.Builder
	// expressions caches expressions by their texts.
	expressions *memo.Memo[Expression]
	// prepared caches the results of Prepare and NoneOf.
	prepared *lru.Cache
}

// keptExpressions is the number of recent expressions that a Compiler caches without a user. The check of a write compiles a condition some moments before
// the controller of policies uses it.
const keptExpressions = 64

// preparedCacheSize bounds the results, including errors, that Prepare and NoneOf keep. A plan holds some tens
// of KiB.
const preparedCacheSize = 256

// NewPolicyCompiler makes a compiler for the expressions of policies, which may read cel.Request and the
// variables that are unknown until admission. The compiler residuals compiles the residuals.
func NewPolicyCompiler(residuals *cel.Compiler) (*Compiler, error) {
	return newCompiler(cel.NewPolicyEnvironment, residuals)
}

// NewConditionCompiler makes a compiler for conditions. It is for impersonation checks, in which the variables of
// impersonation are known and the object is not. The compiler residuals compiles the residuals.
func NewConditionCompiler(residuals *cel.Compiler) (*Compiler, error) {
	return newCompiler(cel.NewConditionEnvironment, residuals)
}

func newCompiler(newEnvironment func(...celgo.EnvOption) (*cel.Environment, error), residuals *cel.Compiler) (*Compiler, error) {
	environment, err := newEnvironment(celgo.EnableMacroCallTracking())
	if err != nil {
		return nil, err
	}
	e := environment.Engine()
	return &Compiler{environment: environment, engine: e, residuals: residuals, trees: syntax.NewBuilder(environment), expressions: memo.New[Expression](keptExpressions), prepared: lru.New(preparedCacheSize)}, nil
}

// Expression is an expression that a Compiler has compiled. It is immutable and safe for
// concurrent use.
type Expression struct {
	compiler *Compiler
	compiled expressions
	tree     *syntax.Node
	program  *cel.Program
	// cost is what compiling it has cost.
	cost uint64

	mu sync.Mutex
	// checked is the source of the tree. The pointer is weak because the source is larger than all other fields
	// together, and can be made again from compiled. It cannot be made from Text, which may be longer than the
	// parser accepts.
	checked weak.Pointer[syntax.Source]
	// planned are the instructions for the nodes that a plan evaluates. All plans share them.
	planned map[*syntax.Node]*engine.Instructions

	textOnce sync.Once
	text     string

	boundOnce sync.Once
	bound     *bound.Form
	boundErr  error
}

// Compile compiles an expression that yields a bool. Errors wrap cel.ErrCompile and show the place of the
// mistake.
func (c *Compiler) Compile(text string) (*Expression, error) {
	return c.CompileWithVariables(nil, text)
}

// expression returns the Expression for the checked form of compiled.
func (c *Compiler) expression(compiled expressions, checked *celgo.Ast) (*Expression, error) {
	program, err := c.environment.Program(checked)
	if err != nil {
		return nil, err
	}
	from, err := c.trees.Build(checked)
	if err != nil {
		return nil, err
	}
	return &Expression{compiler: c, compiled: compiled, tree: from.Tree, program: program, checked: weak.Make(from), planned: map[*syntax.Node]*engine.Instructions{from.Tree: program.Instructions()}}, nil
}

// source returns the checked expression from which the tree was made, or checks the expression again if the garbage
// collector has removed it.
func (e *Expression) source() (from *syntax.Source, err error) {
	defer engine.Recover(&err)
	e.mu.Lock()
	defer e.mu.Unlock()
	if from := e.checked.Value(); from != nil {
		return from, nil
	}
	checked, err := e.compiler.check(e.compiled, guard.NewBudget(1))
	if err != nil {
		return nil, err
	}
	if from, err = e.compiler.trees.Build(checked); err != nil {
		return nil, err
	}
	e.checked = weak.Make(from)
	return from, nil
}

// Prepare compiles an expression and plans its evaluation for when the given variables are known and all
// others are not. It caches its results by text.
func (c *Compiler) Prepare(text string, known ...cel.Variable) (*Plan, error) {
	return memoize(c.prepared, fmt.Sprintf("plan %q %q", text, known), func() (*Plan, error) {
		expression, err := c.Compile(text)
		if err != nil {
			return nil, err
		}
		return expression.Plan(known...)
	})
}

// NoneOf returns the text of a condition that is true if all given conditions are false, and false if one of them is true.
// If one is an error and none is true, the new condition is an error, as with ||. NoneOf caches its results by the texts.
func (c *Compiler) NoneOf(texts ...string) (string, error) {
	if len(texts) == 0 {
		return "", fmt.Errorf("expression %w: there is nothing to deny", cel.ErrCompile)
	}
	return memoize(c.prepared, fmt.Sprintf("none of %q", texts), func() (string, error) {
		trees := make([]*syntax.Node, 0, len(texts))
		for _, text := range texts {
			e, err := c.Compile(text)
			if err != nil {
				return "", err
			}
			trees = append(trees, e.tree)
		}
		none := syntax.Function(operators.LogicalNot, types.BoolType, syntax.Fold(operators.LogicalOr, trees))
		return (&Residual{tree: none, compiler: c.residuals}).Text()
	})
}

// memoized is an entry of a cache.
type memoized[T any] struct {
	value T
	err   error
}

// memoize returns the value and the error that the cache has for a key. If it has none, memoize calls create and adds the
// result.
func memoize[T any](cache *lru.Cache, key string, create func() (T, error)) (T, error) {
	if found, ok := cache.Get(key); ok {
		if m, ok := found.(memoized[T]); ok {
			return m.value, m.err
		}
	}
	value, err := create()
	cache.Add(key, memoized[T]{value, err})
	return value, err
}

// Program returns a program that evaluates the whole expression, with the values of all variables.
func (e *Expression) Program() *cel.Program { return e.program }

// Text returns the source text of the whole expression, in which each variables.NAME is replaced by its named expression. If
// the text is compiled in the environment of policies, it is the same expression again. It may be longer than
// cel.MaxExpressionBytes.
func (e *Expression) Text() string {
	e.textOnce.Do(func() { e.text = e.tree.ExactText() })
	return e.text
}

// Tree returns the tree of the expression, in which each variables.NAME is replaced by its named expression. It must not be changed.
func (e *Expression) Tree() *syntax.Node { return e.tree }

// Written returns the text of the expression and the named expressions that it may refer to, as their author wrote them.
func (e *Expression) Written() (text string, variables []cel.NamedExpression) {
	return e.compiled.text, e.compiled.variables
}

// Reads reports whether the value of the expression may depend on the variable, known or unknown.
func (e *Expression) Reads(v cel.Variable) bool { return e.tree.Free.Has(string(v)) }

// Plan prepares the evaluation of the expression when the given variables are known and all others are not.
func (e *Expression) Plan(known ...cel.Variable) (*Plan, error) {
	return e.PlanPart(e.tree, known...)
}

// Bound returns the bound condition of the expression (package bound) for the known data of a request,
// as decoded from JSON. Data that does not have the declared types of the fields of a request, or a
// result longer than cel.MaxExpressionBytes, is an error.
func (e *Expression) Bound(request map[string]any) (string, error) {
	form, err := e.boundForm()
	if err != nil {
		return "", err
	}
	return form.Bind(request)
}

// boundForm returns the bound form of the expression, or an error if the text of the whole expression does not compile, for
// example because it is too long.
func (e *Expression) boundForm() (*bound.Form, error) {
	e.boundOnce.Do(func() {
		if _, err := e.compiler.Compile(e.Text()); err != nil {
			e.boundErr = fmt.Errorf("the bound form cannot be expressed: %w", err)
			return
		}
		e.bound = bound.NewForm(e.Text(), requestFields(e.tree))
	})
	return e.bound, e.boundErr
}

// ReadsRequestField reports whether the value of the expression may depend on the field of request with the given name, or on the field
// inside it that further names lead to.
func (e *Expression) ReadsRequestField(name string, inside ...string) bool {
	return requestFields(e.tree).Has(append([]string{name}, inside...)...)
}

// requestFields returns the fields of request that an expression reads.
func requestFields(n *syntax.Node) *bound.Fields {
	fields := &bound.Fields{}
	n.EachRead(func(variable *syntax.Node, path []string) {
		if variable.Name == string(cel.Request) {
			fields.Add(path)
		}
	})
	return fields
}
