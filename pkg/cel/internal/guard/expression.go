/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
)

// The cost limit of CEL bounds an evaluation, but not the work of the compiler. These constants bound it.
const (
	// maxExpandedNodes bounds an expression once its macros are expanded. optMap and
	// optFlatMap copy their receiver, so that chains of them grow exponentially.
	maxExpandedNodes = 16384
	// maxLiteralDepth bounds how deep list and map literals may be nested: checking the
	// types of nested ones takes polynomial time.
	maxLiteralDepth = 16
	// maxTransformations bounds the macros that make lists, maps and optionals: a chain of
	// them can double the type of its result at every link. maxWrappers bounds the calls
	// that only nest types, and maxEmpty the empty literals, whose types must be inferred.
	maxTransformations = 10
	maxWrappers        = 48
	maxEmpty           = 64
)

var (
	errExpanded        = fmt.Errorf("its macros expand to more than %d parts", maxExpandedNodes)
	errDepth           = fmt.Errorf("list and map literals are nested more than %d deep", maxLiteralDepth)
	errTransformations = fmt.Errorf("it has more than %d macros that make lists, maps or optionals, or more than %d optional.of, or more than %d empty literals", maxTransformations, maxWrappers, maxEmpty)
)

// CheckText returns an error if an expression would take too long to compile. It returns nil for expressions with syntax
// errors, which the compiler reports.
func (g *Guard) CheckText(expression string) error {
	m := measure{}
	if parsed, issues := g.parser.Parse(expression); len(issues.Errors()) == 0 {
		m.expr(parsed.NativeRep().Expr(), 0)
	}
	return m.err
}

// measure walks an expression whose macros are not expanded.
type measure struct {
	err                                        error
	patterns, transformations, wrappers, empty int
	// patternWork is what it takes to parse the patterns.
	patternWork uint64
}

// expr returns the number of nodes that the expression has after its macros are expanded, and records an error if the
// expression exceeds a bound.
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
		if len(Elements(e)) == 0 {
			if m.empty++; m.empty > maxEmpty {
				m.fail(errTransformations)
			}
		}
		for _, element := range Elements(e) {
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
	switch functionName(c) {
	case "map", "transformList", "transformMap", "transformMapEntry", "optMap", "optFlatMap":
		m.transformations++
	case "of", "ofNonZeroValue":
		m.wrappers++
	}
	for _, pattern := range constantPatterns(c) {
		m.pattern(pattern)
	}
	if m.transformations > maxTransformations || m.wrappers > maxWrappers {
		m.fail(errTransformations)
	}
}

// pattern counts a regular expression that is a constant. It records an error if all such patterns of the expression together
// take too long to parse, or are too large. After an error it parses no further patterns.
func (m *measure) pattern(text string) {
	//guard:patterns-together-one-expression
	if m.patternWork += patternWork(text); m.patternWork > maxPatternWork && len(text) <= maxPatternSize {
		m.fail(errPatternWork)
	}
	if m.err != nil {
		return
	}
	if m.patterns += PatternSize(text); m.patterns > maxPatternSize {
		m.fail(errPattern)
	}
}

// functionName returns the name of the function of a call, without a leading dot: .f() calls the same function as f().
//
//guard:patterns-functions-after-dot
func functionName(c ast.CallExpr) string { return strings.TrimPrefix(c.FunctionName(), ".") }

// constantPatterns returns the regular expressions of a call that are constants.
func constantPatterns(c ast.CallExpr) (patterns []string) {
	if !takesPattern(functionName(c)) {
		return nil
	}
	for _, arg := range c.Args() {
		if arg.Kind() != ast.LiteralKind {
			continue
		}
		if text, ok := arg.AsLiteral().(types.String); ok {
			patterns = append(patterns, string(text))
		}
	}
	return patterns
}

// CheckPatterns returns an error if the constant patterns of an expression, in which named expressions have been put, are too
// large together or take too long to parse together.
func CheckPatterns(e ast.Expr) error {
	m := measure{}
	ast.PostOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || m.err != nil {
			return
		}
		for _, pattern := range constantPatterns(e.AsCall()) {
			m.pattern(pattern)
		}
	}))
	return m.err
}

func (m *measure) fail(err error) {
	if m.err == nil {
		m.err = err
	}
}

// Elements returns the elements of a list literal, or the keys and values of a map literal in turn.
func Elements(e ast.Expr) []ast.Expr {
	if e.Kind() == ast.ListKind {
		return e.AsList().Elements()
	}
	var result []ast.Expr
	for _, entry := range e.AsMap().Entries() {
		result = append(result, entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
	}
	return result
}
