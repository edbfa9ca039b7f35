/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/containers"
	"github.com/google/cel-go/common/operators"
)

// The checker of cel-go keeps one map of all type variables that it has found a type for, and
// copies it for every overload that it tries and for every element of a literal. A generic call,
// such as an index or a comparison, adds variables. The time therefore grows with the square of
// the length: 10 KB of `o[0][0]…` took 7.5 seconds. It also walks and prints the types that it compares, which
// a map with composite keys can double: nine times `.map(v, {v: v})` make a type of 1,500 parts, and 10 KB that compare
// it with itself took 9 seconds. The constants bound and count both.
const (
	// maxTypeWork bounds the type variables that are copied, and the parts of large types that are walked, while
	// one expression is checked. Each takes some 60 to 140 ns, so that checking takes at most about 35 ms. It leaves
	// room for about 410 comparisons joined by ||, or 90 if each of them has an index into an object.
	maxTypeWork = 1 << 18
	// maxTypeParts bounds the parts of the type of any expression. The type map[string][]string has four.
	maxTypeParts = 256
	// ordinaryTypeParts is the number of parts up to which walking a type costs nothing, compared with the other work
	// for a call.
	ordinaryTypeParts = 8
	// compileCostOfAny is the cost of compiling any text, and compileCostPerByte the additional cost for each byte of it,
	// in the cost units of CEL: the shortest text takes some 0.15 ms, and parsing some 5 to 10 µs a byte.
	// TypeWork.Copied is an additional cost in the same units.
	compileCostOfAny   = 1000
	compileCostPerByte = 32
)

var (
	// ErrTypeWork says that checking the types of an expression takes too long.
	ErrTypeWork = fmt.Errorf("it has too many comparisons, indexes and other calls of generic functions, or of those with large types: "+
		"to check its types takes more than %d copies of type variables", maxTypeWork)
	// ErrTypeParts says that an expression has a type that is too large.
	ErrTypeParts = fmt.Errorf("the type of something in it may have more than %d parts: nest fewer lists, maps and optionals", maxTypeParts)
)

// CompileCost returns what it costs to compile a text until its types are checked, in the cost units of CEL.
func CompileCost(text string) uint64 {
	return compileCostOfAny + compileCostPerByte*uint64(len(text))
}

// TypeWork is what it takes to check the types of an expression.
type TypeWork struct {
	// Nodes is how many expressions there are in the expression, itself included.
	Nodes int
	// Copied is an upper bound of the copies of type variables, of the parts of large types that are walked, and of
	// the units to parse and compile constant patterns. All take about as long.
	Copied uint64
}

// CheckTypeWork returns the work to check the types of an expression, whose macros have been expanded and in which named
// expressions have been put. It returns an error, ErrTypeParts or ErrTypeWork, if the work exceeds the bounds.
func (g *Guard) CheckTypeWork(e ast.Expr) (TypeWork, error) { return g.CheckTypeWorkOf(e, 1) }

// CheckTypeWorkOf is CheckTypeWork for an expression that was made of several ones, and may take as many times as long.
func (g *Guard) CheckTypeWorkOf(e ast.Expr, several int) (TypeWork, error) {
	w := typeWork{Guard: g, most: several * maxTypeWork}
	w.expr(e)
	if w.largest.parts <= maxTypeParts {
		w.addOpen()
	}
	switch {
	case w.largest.parts > maxTypeParts:
		return TypeWork{w.nodes, uint64(w.most)}, ErrTypeParts //nolint:gosec // not negative
	case w.copied > w.most:
		return TypeWork{w.nodes, uint64(w.most)}, ErrTypeWork //nolint:gosec // not negative
	}
	//guard:patterns-together-one-policy
	return TypeWork{w.nodes, uint64(w.copied) + w.patterns}, nil //nolint:gosec // not negative, and bounded
}

// typeWork walks an expression as the checker does.
type typeWork struct {
	*Guard
	// nodes counts the expressions.
	nodes int
	// variables is the number of type variables so far, and copied how often one of them was copied, or a part of a large
	// type walked.
	variables, copied int
	// most is the bound of copied.
	most int
	// patterns are the units to parse and compile the constant patterns.
	patterns uint64
	// binders are the variables of the macros around, the innermost last.
	binders []binder
	// largest has the parts and the depth of the largest types so far.
	largest typeBound
	// open counts the expressions with an open type, whose type variables are bound by a later part of the expression.
	// openBinders counts the variables of macros with an open type, links the places where the checker unifies two open
	// types, and openKeys the maps whose keys have an open type.
	open, openBinders, links, openKeys int
}

// binder is a variable of a macro.
type binder struct {
	name  string
	bound typeBound
}

// add adds n to copied. It stops adding when copied exceeds the bound.
func (w *typeWork) add(n int) {
	if w.copied <= w.most { // no overflow
		w.copied += min(n, w.most+1)
	}
}

// try adds new type variables, and counts the work of trying overloads: count copies of the map of type variables, and the walk
// through the compared types for each copy.
func (w *typeWork) try(count, variables int, compared ...typeBound) {
	w.variables += variables
	w.add(count * w.variables)
	for _, t := range compared {
		w.add(count * t.work())
	}
}

// addOpen counts the types that become known elsewhere: each may become as large as the largest type. A variable of
// a macro can connect the types of all places where it stands: `[[]].all(a, [[]].all(b, a == [{b: b}] && …))`. A type
// can then consist of one of the largest types for each such place, and double at each map that has one as a key.
func (w *typeWork) addOpen() {
	factor := min(w.openBinders, w.links) + 1
	t := typeBound{parts: w.largest.parts * factor << min(w.openKeys, 16), depth: w.largest.depth * factor}
	w.add(w.open * t.work())
}

// expr counts the work to check the types of an expression and of its parts. It returns the bound of its type.
func (w *typeWork) expr(e ast.Expr) typeBound {
	w.nodes++
	t := w.typeOf(e)
	w.largest.parts, w.largest.depth = max(w.largest.parts, t.parts), max(w.largest.depth, t.depth)
	if t.open {
		w.open++
	}
	w.add(t.work()) // every type is walked once more at the end
	return t
}

func (w *typeWork) typeOf(e ast.Expr) typeBound {
	switch e.Kind() {
	case ast.IdentKind:
		return w.ident(e.AsIdent())
	case ast.SelectKind:
		return w.selection(e)
	case ast.CallKind:
		return w.call(e.AsCall())
	case ast.ListKind:
		return w.literal(e, 1)
	case ast.MapKind:
		return w.literal(e, 2)
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			w.try(1, 0, w.expr(field.AsStructField().Value()))
		}
	case ast.ComprehensionKind:
		return w.comprehension(e.AsComprehension())
	default:
	}
	return simpleType
}

func (w *typeWork) ident(name string) typeBound {
	for _, b := range slices.Backward(w.binders) {
		if b.name == name {
			return b.bound
		}
	}
	if t, ok := w.identifiers[strings.TrimPrefix(name, ".")]; ok {
		return t
	}
	return listOf(simpleType) // the name of a type has a type as large as a list
}

// isHidden reports whether a qualified name begins with a variable of a macro. It is then a chain of fields of that variable. A
// name that begins with a dot is never hidden.
func (w *typeWork) isHidden(name string) bool {
	first, _, _ := strings.Cut(name, ".")
	return first != "" && slices.ContainsFunc(w.binders, func(b binder) bool { return b.name == first })
}

func (w *typeWork) selection(e ast.Expr) typeBound {
	//guard:types-variables-macros-hide-others
	if name, ok := containers.ToQualifiedName(e); ok && !w.isHidden(name) {
		if t, ok := w.identifiers[strings.TrimPrefix(name, ".")]; ok {
			w.try(1, 0)
			return t
		}
	}
	operand := w.expr(e.AsSelect().Operand())
	w.try(1, 0, operand)
	switch {
	case e.AsSelect().IsTestOnly():
		return simpleType
	case operand.isDyn:
		return operand
	}
	return w.field(operand)
}

// field returns the bound of the type of a field of the operand. If the operand is an optional, so is the field.
func (w *typeWork) field(operand typeBound) typeBound {
	return typeBound{parts: max(operand.parts-1, w.fields.parts+1), depth: max(operand.depth, w.fields.depth+1), open: operand.open}
}

// literal counts the work for a list literal (parameters is 1), or for a map literal (parameters is 2), whose keys and values
// alternate in Elements. All elements, all keys and all values each get one type. The types of an empty literal are open.
func (w *typeWork) literal(e ast.Expr, parameters int) typeBound {
	var joined [2]typeBound
	parts := Elements(e)
	if len(parts) == 0 {
		w.try(0, parameters)
		joined = [2]typeBound{unknownType, unknownType}
	}
	for i, part := range parts {
		t, all := w.expr(part), &joined[i%parameters]
		w.try(1, 0, t)
		if i < parameters {
			*all = t
			continue
		}
		w.link(*all, t)
		*all = all.join(t)
	}
	if parameters == 1 {
		return listOf(joined[0])
	}
	if len(parts) > 0 && joined[0].open {
		w.openKeys++
	}
	return mapOf(joined[0], joined[1])
}

// link counts a place where the checker unifies several open types.
func (w *typeWork) link(all ...typeBound) {
	open := 0
	for _, t := range all {
		if t.open {
			open++
		}
	}
	if open > 1 {
		w.links++
	}
}

func (w *typeWork) comprehension(c ast.ComprehensionExpr) typeBound {
	over, accumulated := w.expr(c.IterRange()), w.expr(c.AccuInit())
	outside := len(w.binders)
	w.bind(c.AccuVar(), accumulated)
	element := over.inner(1)
	w.bind(c.IterVar(), element)
	if c.HasIterVar2() {
		w.bind(c.IterVar2(), element)
	}
	condition, step := w.expr(c.LoopCondition()), w.expr(c.LoopStep())
	w.binders = append(w.binders[:outside], binder{c.AccuVar(), accumulated.join(step)})
	w.link(accumulated, step)
	result := w.expr(c.Result())
	w.binders = w.binders[:outside]
	w.try(3, 0, over, condition, step) // they have to fit
	return result
}

// bind adds a variable of a macro. Variables that the macro itself uses have names that no expression can contain.
func (w *typeWork) bind(name string, t typeBound) {
	if t.open && !strings.HasPrefix(name, "@") && !strings.HasPrefix(name, "#") && name != "__result__" {
		w.openBinders++
	}
	w.binders = append(w.binders, binder{name, t})
}

func (w *typeWork) call(c ast.CallExpr) typeBound {
	args := make([]typeBound, 0, len(c.Args())+1)
	for _, arg := range c.Args() {
		args = append(args, w.expr(arg))
	}
	for _, pattern := range constantPatterns(c) {
		w.patterns += patternWork(pattern)
	}
	name := functionName(c)
	style := callStyle{name, c.IsMemberFunction()}
	if c.IsMemberFunction() {
		target := w.expr(c.Target())
		if prefix, ok := containers.ToQualifiedName(c.Target()); ok { // a variable of a macro hides no function
			//guard:types-functions-after-dot
			qualified := callStyle{strings.TrimPrefix(prefix, ".") + "." + name, false}
			if _, ok := w.candidates[qualified]; ok {
				style = qualified
			}
		}
		if style.member {
			args = slices.Insert(args, 0, target)
		}
	}
	found := w.candidates[style]
	switch name {
	case operators.LogicalAnd, operators.LogicalOr:
		found.count = len(c.Args()) // each of them has to be a bool
	case operators.OptSelect:
		w.try(1, 0, args...)
		if len(args) == 0 || args[0].isDyn {
			return listOf(dynType)
		}
		return w.field(args[0])
	}
	w.try(max(found.count, 1), found.variables, args...)
	w.link(args...)
	result := found.result(args)
	if name == mapInsert && len(args) == 3 && args[1].open {
		w.openKeys++
	}
	return result
}

// The bounds on compiling the expressions of one policy together. Each expression is compiled with the named expressions that
// it reads, so the same text may be compiled many times.
const (
	// maxTotalBytes is two expressions of the greatest length.
	maxTotalBytes = 20480
	// maxTotalNodes bounds the nodes of all expressions, with their macros expanded and named expressions put in. To check
	// and plan one takes some 10 µs.
	maxTotalNodes = 16384
	// maxTotalTypeWork bounds their TypeWork.Copied.
	maxTotalTypeWork = 2 * maxTypeWork
	// unitsPerNode is the cost of compiling a node, in the units of CompileCost.
	unitsPerNode = 64
)

// ErrBudget says that expressions take too long to compile together.
var ErrBudget = fmt.Errorf("the expressions take too long to compile together: with variables put in where they are read, they have more than %d bytes, %d parts, or %d copies of type variables and units of regular expressions",
	maxTotalBytes, maxTotalNodes, maxTotalTypeWork)

// Budget bounds the work to compile several expressions together. It has the work that is left, and counts what was spent.
// It must not be used concurrently.
type Budget struct {
	bytes, nodes int
	copied       uint64
	// cost is what was spent, in the units of CompileCost.
	cost uint64
}

// NewBudget returns a budget for compiling the expressions of one policy the given number of times.
func NewBudget(times int) *Budget {
	return &Budget{bytes: times * maxTotalBytes, nodes: times * maxTotalNodes, copied: uint64(times) * maxTotalTypeWork} //nolint:gosec // not negative
}

// SpendText takes the length of a text from the budget, before the text is parsed. It returns ErrBudget if the budget is
// exceeded, and then for all further texts.
func (b *Budget) SpendText(text string) error {
	b.bytes -= len(text)
	b.cost += CompileCost(text)
	return b.err()
}

// Spend takes the work to check the types of an expression from the budget, before the work is done. It returns ErrBudget if
// the budget is exceeded, and then for all further expressions.
func (b *Budget) Spend(work TypeWork) error {
	b.nodes -= work.Nodes
	b.cost += unitsPerNode*uint64(work.Nodes) + work.Copied //nolint:gosec // not negative
	if work.Copied > b.copied {
		b.nodes, b.copied = -1, 0
	}
	b.copied -= min(work.Copied, b.copied)
	return b.err()
}

func (b *Budget) err() error {
	if b.bytes < 0 || b.nodes < 0 {
		return ErrBudget
	}
	return nil
}

// Cost returns the cost of all texts and all work that were taken from the budget, in the cost units of CEL.
func (b *Budget) Cost() uint64 { return b.cost }
