/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"golang.org/x/sync/singleflight"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/utils/lru"

	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
)

const (
	// MaxExpressionBytes bounds the source text of an expression. It is the bound of
	// Kubernetes on a condition.
	MaxExpressionBytes = 10240
	// CostLimit bounds one evaluation, in the cost units of CEL. It is the limit of Kubernetes for
	// one expression; Kubernetes takes it for about a tenth of a second.
	CostLimit = celconfig.PerCallLimit
	// CostBudget bounds all evaluations for one request together. It is the budget of Kubernetes.
	CostBudget = celconfig.RuntimeCELCostBudget
	// AuthorizationBudget bounds the evaluations of cluster-scoped policies for one decision
	// while only the request is known: every request pays for them, reads too. It is a quarter
	// of CostBudget, some half of a second; kube-apiserver waits three seconds for a webhook.
	AuthorizationBudget = CostBudget / 4
	// NamespacedAuthorizationBudget is AuthorizationBudget for the policies of one namespace
	// together, and it bounds each of their evaluations. Their authors may be users whom the
	// administrators of the cluster hardly know. It is a tenth of AuthorizationBudget, and
	// enough for a thousand ordinary conditions.
	NamespacedAuthorizationBudget = AuthorizationBudget / 10
	// ExplanationBudget bounds the evaluations that only find which part of a condition is false, for all decisions about a
	// request together, while only the request is known. It is a tenth of NamespacedAuthorizationBudget, some five
	// milliseconds. No decision depends on these evaluations.
	ExplanationBudget = NamespacedAuthorizationBudget / 10
	// programCacheSize bounds the compiled programs that are kept. A program holds some
	// 5 to 50 KiB, and at most about a megabyte, most of it regular expressions; more
	// distinct conditions than this in use at a time are only slower.
	programCacheSize = 512
)

// ErrCompile is wrapped by every error that says why an expression cannot be used.
var ErrCompile = engine.ErrCompile

// ErrTooLong says that an expression is longer than MaxExpressionBytes. It wraps ErrCompile.
var ErrTooLong = fmt.Errorf("expression %w: it is longer than %d bytes", ErrCompile, MaxExpressionBytes)

// Compiler compiles expressions and keeps the programs, by source text. It is safe for
// concurrent use.
type Compiler struct {
	environment *Environment
	programs    *lru.Cache
	// compilations are the compilations under way, by text.
	compilations singleflight.Group
}

// NewCompiler makes a Compiler for the environment of conditions.
func NewCompiler() (*Compiler, error) {
	environment, err := NewConditionEnvironment()
	if err != nil {
		return nil, err
	}
	return NewCompilerFor(environment), nil
}

// NewCompilerFor makes a Compiler for any environment.
func NewCompilerFor(environment *Environment) *Compiler {
	return &Compiler{environment: environment, programs: lru.New(programCacheSize)}
}

// compiled is an entry of the cache: the result of compiling one text. Errors are cached too, so that a bad
// expression costs its sender more than the server.
type compiled struct {
	program *Program
	cost    uint64
	err     error
}

// Compile returns the program of an expression, which must yield a bool. Errors wrap
// ErrCompile and show the place of the mistake.
func (c *Compiler) Compile(expression string) (*Program, error) {
	program, _, err := c.CompileWithCost(expression)
	return program, err
}

// CompileWithCost is Compile. It also returns the cost of compiling the expression, in the units of
// CostLimit. The cost depends on the text only: it is the same whether or not the program is in the cache, and
// an expression that does not compile has a cost too. It is 0 for a text that is longer than MaxExpressionBytes.
func (c *Compiler) CompileWithCost(expression string) (*Program, uint64, error) {
	if len(expression) > MaxExpressionBytes {
		return nil, 0, ErrTooLong
	}
	if cached, ok := c.programs.Get(expression); ok {
		result := cached.(compiled)
		return result.program, result.cost, result.err
	}
	result := c.compileOnce(expression)
	return result.program, result.cost, result.err
}

// CompileUncached is CompileWithCost without the cache, and without the bound on the length of the text. It is for texts
// with values of one request, which would displace the programs of conditions in the cache.
func (c *Compiler) CompileUncached(expression string) (*Program, uint64, error) {
	result := c.compile(expression)
	return result.program, result.cost, result.err
}

// compileOnce compiles an expression once for all callers that ask for it at the same time.
func (c *Compiler) compileOnce(expression string) compiled {
	result, _, _ := c.compilations.Do(expression, func() (any, error) {
		if cached, ok := c.programs.Get(expression); ok { // another call has just ended
			return cached, nil
		}
		result := c.compile(expression)
		c.programs.Add(expression, result)
		return result, nil
	})
	return result.(compiled)
}

// compile compiles an expression without the cache. It recovers panics, because the compiler of cel-go is known to panic on
// some expressions, such as a lone optional element in a list.
func (c *Compiler) compile(expression string) (result compiled) {
	e := c.environment.engine
	result.cost = guard.CompileCost(expression)
	defer engine.Recover(&result.err)
	if result.err = engine.CheckText(e.Guard, expression); result.err != nil {
		return result
	}
	parsed, work, err := engine.Parse(e.Env, e.Guard, expression)
	result.cost += work.Copied
	var checked *cel.Ast
	if err == nil {
		checked, err = engine.CheckTypes(e.Env, parsed)
	}
	if err != nil {
		result.err = fmt.Errorf("expression %w: %w", ErrCompile, err)
		return result
	}
	result.program, result.err = c.environment.Program(checked)
	return result
}

// Budget bounds the work to compile or to check several expressions together. It must not be used concurrently.
type Budget = guard.Budget

// checkedPolicies is the number of kinds for which a policy of the largest allowed size can be checked within one budget. An
// ordinary policy has a tenth of this size, and is about at most ten kinds.
const checkedPolicies = 4

// NewBudget returns the budget for the expressions of one FieldPermissionMapping. It has the size of the budget that
// partial.Compiler has for one expression of a policy with its variables.
func NewBudget() *Budget { return guard.NewBudget(1) }

// NewCheckBudget returns the budget for checking one policy against the types of all kinds of objects that it is about.
func NewCheckBudget() *Budget { return guard.NewBudget(checkedPolicies) }

// ErrBudget says that expressions take too long to compile or to check together.
var ErrBudget = guard.ErrBudget

// CheckText returns an error that wraps ErrCompile if a text is too long, would take too long to compile, or exceeds the budget together with the
// texts before it. It charges the text to the budget.
func CheckText(text string, g *guard.Guard, budget *Budget) error {
	if len(text) > MaxExpressionBytes {
		return ErrTooLong
	}
	//guard:functions-bytes-many
	if err := budget.SpendText(text); err != nil {
		return fmt.Errorf("expression %w: %w", ErrCompile, err)
	}
	return engine.CheckText(g, text)
}

// checkWithin parses an expression and checks its types, and charges the budget before it checks.
func checkWithin(b *Budget, env *cel.Env, g *guard.Guard, expression string) (*cel.Ast, error) {
	parsed, work, err := engine.Parse(env, g, expression)
	if err != nil {
		return nil, err
	}
	//guard:functions-parts-many
	if err := b.Spend(work); err != nil {
		return nil, err
	}
	return engine.CheckTypes(env, parsed)
}
