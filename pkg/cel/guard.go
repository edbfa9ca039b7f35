/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// The cost limit of CEL bounds an evaluation, but neither compilation nor what a single
// function does. These bounds do.
const (
	// maxExpandedNodes bounds an expression once its macros are expanded. optMap and
	// optFlatMap copy what they are called on, so that chains of them grow exponentially.
	maxExpandedNodes = 16384
	// maxLiteralDepth bounds how deep list and map literals may be nested: checking the
	// types of nested ones takes polynomial time.
	maxLiteralDepth = 16
	// maxPatternSize bounds a regular expression, in the instructions that it compiles to.
	// Repetitions multiply: ten thousand bytes can say a program of 68 MB.
	maxPatternSize = 4096
	// maxQuantityBytes and maxQuantityExponent bound the text of a quantity. Comparing two
	// quantities makes a number of as many digits as the exponents differ.
	maxQuantityBytes    = 64
	maxQuantityExponent = 64
)

var (
	errExpanded = fmt.Errorf("its macros expand to more than %d parts", maxExpandedNodes)
	errDepth    = fmt.Errorf("list and map literals are nested more than %d deep", maxLiteralDepth)
	errPattern  = fmt.Errorf("its regular expressions are larger than %d instructions", maxPatternSize)
	errQuantity = fmt.Errorf("a quantity is longer than %d bytes or has an exponent over %d", maxQuantityBytes, maxQuantityExponent)
)

// guard keeps compilation and evaluation bounded.
type guard struct {
	// parser parses without expanding macros.
	parser *cel.Env
	// implementations are the functions that are guarded, by overload and by name.
	implementations map[string]*functions.Overload
}

// guarded are the functions whose arguments are looked at before they run, and which
// argument that is.
var guarded = map[string]struct {
	argument int
	check    func(text string) error
}{
	"quantity":   {0, checkQuantity},
	"isQuantity": {0, checkQuantity},
	"matches":    {1, checkPattern},
	"find":       {1, checkPattern},
	"findAll":    {1, checkPattern},
}

func newGuard(env *cel.Env) (*guard, error) {
	parser, err := env.Extend(cel.ClearMacros())
	if err != nil {
		return nil, fmt.Errorf("building the CEL parser: %w", err)
	}
	g := &guard{parser: parser, implementations: map[string]*functions.Overload{}}
	for name := range guarded {
		declaration, ok := env.Functions()[name]
		if !ok {
			return nil, fmt.Errorf("the CEL function %s is to be guarded, but is not there", name)
		}
		overloads, err := declaration.Bindings()
		if err != nil {
			return nil, fmt.Errorf("the CEL function %s: %w", name, err)
		}
		for _, overload := range overloads {
			g.implementations[overload.Operator] = overload
		}
	}
	return g, nil
}

// options are those with which every program is planned.
func (g *guard) options() []cel.ProgramOption {
	return []cel.ProgramOption{cel.InterruptCheckFrequency(celconfig.CheckFrequency), cel.CustomDecoratorV2(g.decorate)}
}

// checkText refuses what would take too long to compile. It does not say whether the
// expression is right; the compiler does.
func (g *guard) checkText(expression string) error {
	m := measure{}
	// What does not parse is left to the compiler, which says it better.
	if parsed, issues := g.parser.Parse(expression); issues.Err() == nil {
		m.expr(parsed.NativeRep().Expr(), 0)
	}
	return m.err
}

// measure walks an expression whose macros are not expanded.
type measure struct {
	err      error
	patterns int
}

// expr returns how large the expression becomes when its macros are expanded.
func (m *measure) expr(e ast.Expr, depth int) int {
	size := 1
	add := func(n int) {
		if size += n; size > maxExpandedNodes {
			size = maxExpandedNodes + 1 // no overflow
			m.fail(errExpanded)
		}
	}
	switch e.Kind() {
	case ast.SelectKind:
		add(m.expr(e.AsSelect().Operand(), depth))
	case ast.CallKind:
		m.call(e.AsCall(), depth, add)
	case ast.ListKind, ast.MapKind:
		if depth++; depth > maxLiteralDepth {
			m.fail(errDepth)
			return size
		}
		for _, element := range elements(e) {
			add(m.expr(element, depth))
		}
	default:
	}
	return size
}

func (m *measure) call(c ast.CallExpr, depth int, add func(int)) {
	const copies = 4 // the checker looks at each of the two copies more than once
	if c.IsMemberFunction() {
		n := m.expr(c.Target(), depth)
		if c.FunctionName() == "optMap" || c.FunctionName() == "optFlatMap" {
			n = min(n, maxExpandedNodes) * copies
		}
		add(n)
	}
	for _, arg := range c.Args() {
		add(m.expr(arg, depth))
	}
	if _, ok := guarded[c.FunctionName()]; ok && len(c.Args()) > 0 {
		last := c.Args()[len(c.Args())-1]
		if c.FunctionName() == "findAll" {
			last = c.Args()[0]
		}
		m.pattern(c.FunctionName(), last)
	}
}

func (m *measure) pattern(function string, e ast.Expr) {
	if e.Kind() != ast.LiteralKind || guarded[function].argument == 0 {
		return
	}
	if text, ok := e.AsLiteral().(types.String); ok {
		if m.patterns += patternSize(string(text)); m.patterns > maxPatternSize {
			m.fail(errPattern)
		}
	}
}

func (m *measure) fail(err error) {
	if m.err == nil {
		m.err = fmt.Errorf("expression %w: %w", ErrCompile, err)
	}
}

func elements(e ast.Expr) []ast.Expr {
	if e.Kind() == ast.ListKind {
		return e.AsList().Elements()
	}
	var result []ast.Expr
	for _, entry := range e.AsMap().Entries() {
		result = append(result, entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
	}
	return result
}

// decorate puts the guards around the functions of a program.
func (g *guard) decorate(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok {
		return i, nil
	}
	rule, ok := guarded[call.Function()]
	if !ok {
		return i, nil
	}
	implementation := g.implementations[call.OverloadID()]
	if implementation == nil {
		implementation = g.implementations[call.Function()]
	}
	if implementation == nil {
		return nil, fmt.Errorf("the CEL function %s cannot be guarded", call.Function())
	}
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
		if rule.argument < len(args) {
			if text, ok := args[rule.argument].(types.String); ok {
				if err := rule.check(string(text)); err != nil {
					return types.WrapErr(err)
				}
			}
		}
		return invoke(implementation, args)
	}), nil
}

var errArguments = errors.New("no such overload")

func invoke(o *functions.Overload, args []ref.Val) ref.Val {
	switch {
	case len(args) == 1 && o.Unary != nil:
		return o.Unary(args[0])
	case len(args) == 2 && o.Binary != nil:
		return o.Binary(args[0], args[1])
	case o.Function != nil:
		return o.Function(args...)
	}
	return types.WrapErr(errArguments)
}

func checkPattern(text string) error {
	if patternSize(text) > maxPatternSize {
		return errPattern
	}
	return nil
}

// patternSize estimates how many instructions a regular expression compiles to. One that
// cannot be parsed compiles to none.
func patternSize(text string) int {
	if len(text) > maxPatternSize {
		return maxPatternSize + 1
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0
	}
	return sizeOf(parsed)
}

func sizeOf(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)/2
	for _, sub := range re.Sub {
		size += sizeOf(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max, 1)
	}
	return min(size, 1<<20) // no overflow
}

// checkQuantity refuses texts that are cheap to read and dear to compare.
func checkQuantity(text string) error {
	if len(text) > maxQuantityBytes {
		return errQuantity
	}
	_, exponent, ok := strings.Cut(strings.ToLower(text), "e")
	if !ok || exponent == "" || exponent == "i" { // 1E and 1Ei are suffixes
		return nil
	}
	if n, err := strconv.Atoi(exponent); err == nil && n >= -maxQuantityExponent && n <= maxQuantityExponent {
		return nil
	} else if errors.Is(err, strconv.ErrSyntax) {
		return nil // no quantity, which the function says
	}
	return errQuantity
}
