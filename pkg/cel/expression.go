/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"fmt"
	"slices"
	"sync"
	"weak"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/utils/lru"
)

// variablesName is the variable under which the named expressions of a policy are found.
const variablesName = "variables"

// PartialCompiler compiles expressions that are to be evaluated in part: while some of
// their variables are known, and others not yet. It is safe for concurrent use.
type PartialCompiler struct {
	engine     *engine
	residuals  *Compiler
	variables  map[string]bool
	signatures map[string]signature
	// prepared holds plans and texts that were asked for by text.
	prepared *lru.Cache
}

// preparedCacheSize bounds what Prepare and NoneOf keep, failures too. A plan holds some tens
// of KiB.
const preparedCacheSize = 256

// NewPolicyCompiler makes a compiler for the expressions of policies, which may read what
// is known of a request as well as what is not. Residuals are compiled by residuals.
func NewPolicyCompiler(residuals *Compiler) (*PartialCompiler, error) {
	return newPartialCompiler(residuals, requestVariables, unknownVariables)
}

// NewConditionCompiler makes a compiler for conditions, of which the variables of
// impersonation are known before the object is.
func NewConditionCompiler(residuals *Compiler) (*PartialCompiler, error) {
	return newPartialCompiler(residuals, unknownVariables)
}

func newPartialCompiler(residuals *Compiler, variables ...map[Variable]*cel.Type) (*PartialCompiler, error) {
	env, err := newEnvironment([]cel.EnvOption{cel.EnableMacroCallTracking()}, variables...)
	if err != nil {
		return nil, err
	}
	e, err := newEngine(env)
	if err != nil {
		return nil, err
	}
	return &PartialCompiler{engine: e, residuals: residuals, variables: namesOf(variables), signatures: signaturesOf(env), prepared: lru.New(preparedCacheSize)}, nil
}

// Expression is a compiled expression of a policy. It is immutable and safe for
// concurrent use.
type Expression struct {
	compiler *PartialCompiler
	tree     *node
	program  *Program

	mu sync.Mutex
	// checked is what the tree was made of, as long as somebody is at work with it. It is
	// larger than all the rest, and can be made again of the text.
	checked weak.Pointer[source]
	// planned are the instructions for the nodes that some plan evaluates.
	planned map[*node]*instructions

	textOnce sync.Once
	text     string

	boundOnce   sync.Once
	boundFields *fields
	boundErr    error
}

// Compile compiles an expression that yields a bool. Errors wrap ErrCompile and show the
// place of the mistake.
func (c *PartialCompiler) Compile(text string) (*Expression, error) {
	return c.CompileWithVariables(nil, text)
}

// expression makes an Expression of what the checker accepted.
func (c *PartialCompiler) expression(checked *cel.Ast) (*Expression, error) {
	program, err := newProgram(c.engine, checked, c.variables)
	if err != nil {
		return nil, err
	}
	from, err := buildTree(checked, c.variables, c.signatures)
	if err != nil {
		return nil, err
	}
	return &Expression{compiler: c, tree: from.tree, program: program, checked: weak.Make(from), planned: map[*node]*instructions{from.tree: program.instructions}}, nil
}

// source returns what the tree was made of.
func (e *Expression) source() (from *source, err error) {
	defer func() {
		if r := recover(); r != nil {
			from, err = nil, fmt.Errorf("expression %w: the compiler failed", ErrCompile)
		}
	}()
	e.mu.Lock()
	defer e.mu.Unlock()
	if from := e.checked.Value(); from != nil {
		return from, nil
	}
	checked, err := check(e.compiler.engine.env, e.compiler.engine.guard, e.Text())
	if err != nil {
		return nil, fmt.Errorf("expression %w: %w", ErrCompile, err)
	}
	if from, err = buildTree(checked, e.compiler.variables, e.compiler.signatures); err != nil {
		return nil, err
	}
	e.checked = weak.Make(from)
	return from, nil
}

// Prepare compiles an expression and plans its evaluation for when the given variables are
// known and all others are not. What it returns is kept, by text.
func (c *PartialCompiler) Prepare(text string, known ...Variable) (*Plan, error) {
	return kept(c.prepared, fmt.Sprintf("plan %q %q", text, known), func() (*Plan, error) {
		expression, err := c.Compile(text)
		if err != nil {
			return nil, err
		}
		return expression.Plan(known...)
	})
}

// NoneOf returns the text of a condition that is true if none of the given ones is. Like
// ||, it is an error only if one of them is and none is true. What it returns is kept, by
// the texts.
func (c *PartialCompiler) NoneOf(texts ...string) (string, error) {
	if len(texts) == 0 {
		return "", fmt.Errorf("expression %w: there is nothing to deny", ErrCompile)
	}
	return kept(c.prepared, fmt.Sprintf("none of %q", texts), func() (string, error) {
		trees := make([]*node, 0, len(texts))
		for _, text := range texts {
			e, err := c.Compile(text)
			if err != nil {
				return "", err
			}
			trees = append(trees, e.tree)
		}
		none := function(operators.LogicalNot, types.BoolType, fold(operators.LogicalOr, trees))
		return (&Residual{tree: none, compiler: c.residuals}).Text()
	})
}

// made is what a cache holds.
type made[T any] struct {
	value T
	err   error
}

// kept makes something, unless the cache has it already.
func kept[T any](cache *lru.Cache, key string, create func() (T, error)) (T, error) {
	if found, ok := cache.Get(key); ok {
		if m, ok := found.(made[T]); ok {
			return m.value, m.err
		}
	}
	value, err := create()
	cache.Add(key, made[T]{value, err})
	return value, err
}

// Program evaluates the expression at once, with all of its variables.
func (e *Expression) Program() *Program { return e.program }

// Text returns the whole expression as source text, in which what named expressions stand
// for is put in. Read in the environment of policies, it is the same expression again. It
// may be longer than MaxExpressionBytes.
func (e *Expression) Text() string {
	e.textOnce.Do(func() { e.text = exactTextOf(e.tree) })
	return e.text
}

// Reads reports whether the value may depend on the variable, which may be a known one.
func (e *Expression) Reads(v Variable) bool { return e.tree.free[string(v)] }

// Plan prepares the expression to be evaluated when the given variables are known and
// all others are not.
func (e *Expression) Plan(known ...Variable) (*Plan, error) {
	names := map[string]bool{}
	for _, v := range known {
		names[string(v)] = true
	}
	return newPlan(e, names)
}

// Known makes data, as it is decoded from JSON, a value of a known variable. Maps become
// those of CEL, which treat every key alike; maps of Go do not.
func Known(data any) ref.Val {
	switch value := data.(type) {
	case map[string]any:
		entries := make(map[ref.Val]ref.Val, len(value))
		for k, v := range value {
			entries[types.String(k)] = Known(v)
		}
		return types.NewRefValMap(types.DefaultTypeAdapter, entries)
	case []any:
		elements := make([]ref.Val, 0, len(value))
		for _, v := range value {
			elements = append(elements, Known(v))
		}
		return types.NewRefValList(types.DefaultTypeAdapter, elements)
	default:
		return types.DefaultTypeAdapter.NativeToValue(data)
	}
}

// sortedKeys returns the keys of a map in an order that does not change.
func sortedKeys(m traits.Mapper) []ref.Val {
	var keys []ref.Val
	for it := m.Iterator(); it.HasNext() == types.True; {
		keys = append(keys, it.Next())
	}
	slices.SortStableFunc(keys, func(a, b ref.Val) int {
		textA, textB := fmt.Sprint(a.Value()), fmt.Sprint(b.Value())
		switch {
		case textA < textB:
			return -1
		case textA > textB:
			return 1
		}
		return 0
	})
	return keys
}
