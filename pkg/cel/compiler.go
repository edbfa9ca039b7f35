/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/utils/lru"
)

const (
	// MaxExpressionBytes bounds the source text of an expression. It is the bound of
	// Kubernetes on a condition.
	MaxExpressionBytes = 10240
	// CostLimit bounds one evaluation, in the cost units of CEL. It is that of
	// Kubernetes for one expression, about a tenth of a second.
	CostLimit = celconfig.PerCallLimit
	// CostBudget bounds the evaluations for one request together, as Kubernetes does.
	CostBudget = celconfig.RuntimeCELCostBudget
	// AuthorizationBudget bounds the evaluations of cluster-scoped policies for one decision
	// while only the request is known: every request pays for them, reads too. It is a quarter
	// of CostBudget, some half of a second, of the three that kube-apiserver waits.
	AuthorizationBudget = CostBudget / 4
	// NamespacedAuthorizationBudget is AuthorizationBudget for the policies of one namespace
	// together, and it bounds each of their evaluations. Their authors may be users whom the
	// administrators of the cluster hardly know. It is a tenth of AuthorizationBudget, and
	// enough for a thousand ordinary conditions.
	NamespacedAuthorizationBudget = AuthorizationBudget / 10
	// programCacheSize bounds the compiled programs that are kept. A program holds some
	// 5 to 50 KiB, and at most about a megabyte, most of it regular expressions; more
	// distinct conditions than this in use at a time are only slower.
	programCacheSize = 512
	// maxErrorBytes bounds what is kept and shown of a compile error: the compiler quotes
	// the source for every issue that it finds.
	maxErrorBytes = 1024
)

// ErrCompile is wrapped by every error that says why an expression cannot be used.
var ErrCompile = errors.New("does not compile")

var errTooLong = fmt.Errorf("expression %w: it is longer than %d bytes", ErrCompile, MaxExpressionBytes)

// Compiler compiles expressions and keeps the programs, by source text. It is safe for
// concurrent use.
type Compiler struct {
	engine    *engine
	variables map[string]bool
	programs  *lru.Cache

	mu sync.Mutex
	// compiling are the compilations under way, by text.
	compiling map[string]*compilation
}

// NewCompiler makes a Compiler for the environment of conditions.
func NewCompiler() (*Compiler, error) { return newCompiler(unknownVariables) }

func newCompiler(variables ...map[Variable]*cel.Type) (*Compiler, error) {
	env, err := newEnvironment(nil, variables...)
	if err != nil {
		return nil, err
	}
	e, err := newEngine(env)
	if err != nil {
		return nil, err
	}
	return &Compiler{
		engine: e, variables: namesOf(variables), programs: lru.New(programCacheSize), compiling: map[string]*compilation{},
	}, nil
}

func namesOf(variables []map[Variable]*cel.Type) map[string]bool {
	names := map[string]bool{}
	for _, group := range variables {
		for name := range group {
			names[string(name)] = true
		}
	}
	return names
}

// compiled is what the cache holds: failures too, so that a bad expression costs its
// sender more than the server.
type compiled struct {
	program *Program
	cost    uint64
	err     error
}

// Compile returns the program of an expression that yields a bool. Errors wrap
// ErrCompile and show the place of the mistake.
func (c *Compiler) Compile(expression string) (*Program, error) {
	program, _, err := c.CompileWithCost(expression)
	return program, err
}

// CompileWithCost is Compile. It also returns what compiling the expression costs, in the units of
// CostLimit. The cost depends on the text only: it is the same if the program is kept already, and
// if the expression does not compile.
func (c *Compiler) CompileWithCost(expression string) (*Program, uint64, error) {
	if len(expression) > MaxExpressionBytes {
		return nil, 0, errTooLong
	}
	if cached, ok := c.programs.Get(expression); ok {
		result := cached.(compiled)
		return result.program, result.cost, result.err
	}
	result := c.compileOnce(expression)
	return result.program, result.cost, result.err
}

// compilation is one that is under way. Its result may be read when done is closed.
type compilation struct {
	done   chan struct{}
	result compiled
}

// compileOnce compiles what many ask for at the same time once.
func (c *Compiler) compileOnce(expression string) compiled {
	c.mu.Lock()
	if cached, ok := c.programs.Get(expression); ok {
		c.mu.Unlock()
		return cached.(compiled)
	}
	if other, ok := c.compiling[expression]; ok {
		c.mu.Unlock()
		<-other.done
		return other.result
	}
	own := &compilation{done: make(chan struct{})}
	c.compiling[expression] = own
	c.mu.Unlock()

	own.result = c.compile(expression)
	c.mu.Lock()
	c.programs.Add(expression, own.result)
	delete(c.compiling, expression)
	c.mu.Unlock()
	close(own.done)
	return own.result
}

// compile recovers: the compiler of cel-go is known to panic on some expressions, such
// as a lone optional element in a list.
func (c *Compiler) compile(expression string) (result compiled) {
	result.cost = compileCost(expression)
	defer func() {
		if r := recover(); r != nil {
			result.program, result.err = nil, fmt.Errorf("expression %w: the compiler failed", ErrCompile)
		}
	}()
	if result.err = c.engine.guard.checkText(expression); result.err != nil {
		return result
	}
	parsed, work, err := parse(c.engine.env, c.engine.guard, expression)
	result.cost += work
	if err != nil {
		result.err = fmt.Errorf("expression %w: %w", ErrCompile, err)
		return result
	}
	checked, err := checkParsed(c.engine.env, parsed)
	if err != nil {
		result.err = fmt.Errorf("expression %w: %w", ErrCompile, err)
		return result
	}
	result.program, result.err = newProgram(c.engine, checked, c.variables)
	return result
}

// newProgram makes a program of what the checker accepted.
func newProgram(e *engine, checked *cel.Ast, variables map[string]bool) (*Program, error) {
	planned, err := e.planResult(checked, cel.BoolType)
	if err != nil {
		return nil, err
	}
	return &Program{engine: e, instructions: planned, reads: variablesOf(checked.NativeRep(), variables)}, nil
}

// planResult plans an expression that must have a type.
func (e *engine) planResult(checked *cel.Ast, result *cel.Type) (*instructions, error) {
	if !checked.OutputType().IsExactType(result) {
		return nil, fmt.Errorf("expression %w: it must yield %s, but yields %s", ErrCompile, result, checked.OutputType())
	}
	native := checked.NativeRep()
	planned, err := e.plan(native, []ast.Expr{native.Expr()})
	if err != nil {
		return nil, err
	}
	return planned[0], nil
}

// check parses an expression and checks its types. Env.Compile and Issues.Err would print
// every mistake to tell whether there are any, which takes longer than to find them.
func check(env *cel.Env, g *guard, expression string) (*cel.Ast, error) {
	parsed, _, err := parse(env, g, expression)
	if err != nil {
		return nil, err
	}
	return checkParsed(env, parsed)
}

// parse parses an expression whose types can be checked within bounds, and returns what that costs.
func parse(env *cel.Env, g *guard, expression string) (*cel.Ast, uint64, error) {
	parsed, issues := env.Parse(expression)
	if len(issues.Errors()) > 0 {
		return nil, 0, errors.New(describe(issues))
	}
	work, err := g.checkTypeWork(parsed.NativeRep().Expr())
	return parsed, work, err
}

func checkParsed(env *cel.Env, parsed *cel.Ast) (*cel.Ast, error) {
	checked, issues := env.Check(parsed)
	if len(issues.Errors()) > 0 {
		return nil, errors.New(describe(issues))
	}
	return checked, nil
}

// describe shows the first issues with their places. Showing all takes time of its own:
// ten thousand bytes can hold a thousand mistakes.
func describe(issues *cel.Issues) string {
	const shown = 5
	var lines []string
	for i, e := range issues.Errors() {
		if i == shown {
			lines = append(lines, fmt.Sprintf("and %d more", len(issues.Errors())-shown))
			break
		}
		lines = append(lines, fmt.Sprintf("ERROR: <input>:%d:%d: %s", e.Location.Line(), e.Location.Column()+1, e.Message))
	}
	return shorten(strings.Join(lines, "; "))
}

func shorten(message string) string {
	if len(message) <= maxErrorBytes {
		return message
	}
	return strings.ToValidUTF8(message[:maxErrorBytes], "") + " …"
}

// variablesOf returns the variables that an expression may read. A macro variable that
// has the name of one counts as that one, which only makes the answer larger.
func variablesOf(checked *ast.AST, variables map[string]bool) map[Variable]bool {
	reads := map[Variable]bool{}
	for _, reference := range checked.ReferenceMap() {
		if variables[reference.Name] {
			reads[Variable(reference.Name)] = true
		}
	}
	return reads
}
