/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package costbound

import (
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
)

// cost is the cost of a part of an expression.
type cost struct {
	// counted is the cost that cel-go counts, and limits.
	counted form
	// claimed is the cost that cel-go counts if it knows the types of values while it compiles. Its work is in unseen.
	claimed form
	// searched is the work of the cost tracker while it counts.
	searched form
	// deepest is the most of it for one variable that is read.
	deepest float64
	// unseen is all other work that cel-go does not count.
	unseen form
}

func units(n float64) cost { return cost{counted: fixed(n)} }

// work is a cost that cel-go does not count.
func work(f form) cost { return cost{unseen: f} }

func (c cost) combined(o cost, combine func(a, b form) form) cost {
	return cost{
		counted: combine(c.counted, o.counted), claimed: combine(c.claimed, o.claimed), searched: combine(c.searched, o.searched),
		deepest: max(c.deepest, o.deepest), unseen: combine(c.unseen, o.unseen),
	}
}

func (c cost) plus(others ...cost) cost {
	sum := func(of func(c cost) form) form {
		forms := make([]form, 0, len(others))
		for _, o := range others {
			forms = append(forms, of(o))
		}
		return of(c).plus(forms...)
	}
	deepest := c.deepest
	for _, o := range others {
		deepest = max(deepest, o.deepest)
	}
	return cost{
		counted: sum(func(c cost) form { return c.counted }), claimed: sum(func(c cost) form { return c.claimed }), searched: sum(func(c cost) form { return c.searched }),
		deepest: deepest, unseen: sum(func(c cost) form { return c.unseen }),
	}
}

func (c cost) isInfinite() bool {
	return c.counted.isInfinite() || c.claimed.isInfinite() || c.unseen.isInfinite()
}

func (c cost) larger(o cost) cost { return c.combined(o, form.larger) }

func (c cost) repeated(totals map[string]form, count form) cost {
	return c.combined(cost{}, func(f, _ form) form { return f.repeated(totals, count) })
}

// result is the value of a part of an expression, and its cost.
type result struct {
	value
	cost cost
}

func costsOf(results []result) []cost {
	costs := make([]cost, 0, len(results))
	for _, r := range results {
		costs = append(costs, r.cost)
	}
	return costs
}

// scope is a variable of a macro.
type scope struct {
	name  string
	value value
	// totals has the totals of the macro, if the variable has the keys of a map. An entry of another map for the key is a part, too: all of them
	// have together the size of that map.
	totals map[string]form
}

// walk computes the bound of an expression.
type walk struct {
	object    goTypes
	functions map[string]*decls.FunctionDecl
	variables map[string]value
	scopes    []scope
	// parts numbers the elements of macros.
	parts int
	// mappings are the paths of values that are maps, as the conditions around the part of the expression say.
	mappings []string
	// counts are the numbers of steps of the macros around the part of the expression, from the outermost one.
	counts []float64
	// groups is the number of groups of the user.
	groups float64
	// isValidated says that kube-apiserver has validated the metadata of the object.
	isValidated bool
	// size is the largest size of the object, for the numbers of steps. hasSteps says that some depend on it.
	size     float64
	hasSteps bool
	// widths are the widths of patterns, which all walks of a Bound share.
	widths map[string]int
	// unbounded is a function whose work has no bound.
	unbounded string
}

// isUnbounded records that the work of a function has no bound, and returns a value without one.
func (w *walk) isUnbounded(function string) result {
	w.unbounded = function
	return result{value: value{bytes: infinite}}
}

func (w *walk) of(e ast.Expr) result {
	r := w.whatever(e)
	if r.shape == unknown && r.path != "" && slices.Contains(w.mappings, r.path) {
		r.shape = mapping
	}
	return r
}

func (w *walk) whatever(e ast.Expr) result {
	switch e.Kind() {
	case ast.LiteralKind:
		if literal, ok := literalText(e); ok {
			return result{value: textOf(fixed(float64(len(literal))))}
		}
		if literal, ok := e.AsLiteral().Value().([]byte); ok {
			return result{value: textOf(fixed(float64(len(literal))))}
		}
		return result{value: small()}
	case ast.IdentKind:
		return result{value: w.ident(e.AsIdent()), cost: w.read()}
	case ast.SelectKind:
		return w.selected(e.AsSelect())
	case ast.CallKind:
		return w.call(e)
	case ast.ListKind, ast.MapKind:
		return w.literal(e)
	case ast.ComprehensionKind:
		return w.comprehension(e.AsComprehension())
	default:
		return w.isUnbounded("a message")
	}
}

// stepsPerUnit is how many steps of macros cel-go searches for one unit. Its cost tracker keeps values of each step until the macro
// ends, and searches all of them whenever a variable is read. So the time of a macro grows with the square of its steps.
const stepsPerUnit = 160

// read returns the cost of reading a variable or a field.
func (w *walk) read() cost {
	remembered := 0.0
	for _, count := range w.counts {
		remembered += count
	}
	//guard:cost-steps-macros
	return cost{counted: fixed(1), searched: fixed(remembered / stepsPerUnit), deepest: remembered / stepsPerUnit}
}

func (w *walk) ident(name string) value {
	if s := w.scopeOf(name); s != nil {
		return s.value
	}
	switch name = strings.TrimPrefix(name, "."); name {
	case "object", "oldObject":
		//guard:cost-objects-not-validated
		if !w.isValidated {
			return typed(value{shape: mapping, bytes: bytesOf(name)}, w.object)
		}
		return fieldAt(name, w.object, w.groups)
	case "namespaceObject":
		return fieldAt(name, namespaceTypes, w.groups)
	case "request":
		return fieldAt(name, nil, w.groups)
	}
	return small() // variables and authorizer, whose fields are values of their own
}

// scopeOf returns the variable of a macro with a name, or nil. A name with a leading dot is none.
func (w *walk) scopeOf(name string) *scope {
	for i := range slices.Backward(w.scopes) {
		if w.scopes[i].name == name {
			return &w.scopes[i]
		}
	}
	return nil
}

// isVariables reports whether an expression is the variable that has the variables of the policy.
func (w *walk) isVariables(e ast.Expr) bool {
	return e.Kind() == ast.IdentKind && strings.TrimPrefix(e.AsIdent(), ".") == "variables" && w.scopeOf(e.AsIdent()) == nil
}

func (w *walk) selected(s ast.SelectExpr) result {
	operand := w.of(s.Operand())
	r := result{value: operand.field(s.FieldName()), cost: operand.cost.plus(w.read())}
	switch {
	case s.IsTestOnly():
		r.value = small()
	case w.isVariables(s.Operand()):
		r.value = w.variables[s.FieldName()]
	}
	return r
}

// literal returns the bound of a list or a map literal. Each element, key or value has two more characters.
func (w *walk) literal(e ast.Expr) result {
	parts := guard.Elements(e)
	count := float64(len(parts))
	r := result{value: value{shape: list, count: count, counted: true, isFlat: true}, cost: units(10 + count)}
	if e.Kind() == ast.MapKind {
		r = result{value: value{shape: mapping, count: count / 2, counted: true}, cost: units(30 + count/2)}
	}
	results, values := make([]result, 0, len(parts)), make([]value, 0, len(parts))
	for _, part := range parts {
		found := w.of(part)
		r.isFlat = r.isFlat && (found.shape == text || found.shape == scalar)
		results, values = append(results, found), append(values, found.value)
	}
	r.bytes, r.cost = sizes(values).plus(fixed(2*count)), r.cost.plus(costsOf(results)...)
	return r
}

// comprehension returns the bound of a macro.
func (w *walk) comprehension(c ast.ComprehensionExpr) result {
	over := w.of(c.IterRange())
	initial := w.of(c.AccuInit())
	outer, counts := len(w.scopes), len(w.counts)
	defer func() { w.scopes, w.counts = w.scopes[:outer], w.counts[:counts] }()
	made := initial.value
	looped := cost{}
	//guard:cost-macros-any-length
	if !over.counted {
		return w.isUnbounded("a macro over a list or a map of any length")
	}
	if over.count > 0 {
		w.hasSteps = w.hasSteps || !over.bytes.isFixed()
		//guard:cost-small-objects
		over.count = min(over.count, max(over.bytes.times(1/over.types.leastElement()).at(w.size), 1))
		w.counts = append(w.counts, over.count)
		part := w.newPart()
		totals := map[string]form{part: over.bytes}
		w.scopes = append(append(w.scopes, iterators(c, over.value, part, totals)...), scope{name: c.AccuVar(), value: accumulator(initial.value)})
		condition, step := w.of(c.LoopCondition()), w.of(c.LoopStep())
		w.scopes, w.counts = w.scopes[:outer], w.counts[:counts]
		count := over.repetitions()
		looped = condition.cost.plus(step.cost).repeated(totals, count)
		if looped.isInfinite() {
			count = fixed(over.count)
			looped = condition.cost.plus(step.cost).repeated(totals, count)
		}
		looped = looped.plus(condition.cost.repeated(map[string]form{part: none}, fixed(1))) // after the last element
		if made.shape == list || made.shape == mapping {
			made = value{shape: made.shape, bytes: made.bytes.plus(step.bytes.repeated(totals, count)), count: over.count * step.count, counted: step.counted}
		}
	}
	w.scopes = append(w.scopes, scope{name: c.AccuVar(), value: made})
	end := w.of(c.Result())
	end.cost = end.cost.plus(over.cost, initial.cost, looped, units(2))
	return end
}

// repetitions returns a bound of the number of steps of a macro over the value. The lists in the elements of another list have together as
// many elements as fit into it, so that their size is the better bound.
func (v value) repetitions() form {
	for part := range v.bytes.by {
		if strings.HasPrefix(part, "#") && len(v.bytes.by) == 1 && v.count > 2 {
			return v.bytes.times(1 / v.types.leastElement()).plus(fixed(v.bytes.fixed))
		}
	}
	return fixed(v.count)
}

// accumulator returns the value of the accumulator before a step, without what the steps before have added.
func accumulator(initial value) value {
	if initial.shape == list || initial.shape == mapping {
		return value{shape: initial.shape, counted: true}
	}
	return initial
}

func (w *walk) newPart() string {
	w.parts++
	return "#" + strconv.Itoa(w.parts)
}

// iterators returns the variables of a macro over a value.
func iterators(c ast.ComprehensionExpr, over value, part string, totals map[string]form) []scope {
	key, entry := over.element(part)
	//guard:cost-keys-lists
	if over.shape != mapping {
		totals = nil // the elements of a list may be the same
	}
	if !c.HasIterVar2() {
		return []scope{{name: c.IterVar(), value: key, totals: totals}}
	}
	if over.shape == list {
		key = small() // an index
	}
	return []scope{{name: c.IterVar(), value: key, totals: totals}, {name: c.IterVar2(), value: entry}}
}

// entryOf returns the value of a key in a map, if the key is the variable of a macro over the keys of a map.
func (w *walk) entryOf(of value, key ast.Expr) (value, bool) {
	if key.Kind() != ast.IdentKind {
		return value{}, false
	}
	s := w.scopeOf(key.AsIdent())
	if s == nil || s.totals == nil {
		return value{}, false
	}
	part := w.newPart()
	s.totals[part] = of.bytes
	_, entry := of.element(part)
	return entry, true
}

func (w *walk) call(e ast.Expr) result {
	function, args := w.functionOf(e.AsCall())
	results := make([]result, 0, len(args))
	for i, arg := range args {
		outer := len(w.mappings)
		//guard:cost-maps-elsewhere
		if function == operators.Conditional && i == 1 {
			w.mappings = w.appendMappings(w.mappings, args[0])
		}
		results = append(results, w.of(arg))
		w.mappings = w.mappings[:outer]
	}
	switch function {
	case operators.Conditional:
		return conditional(args, results)
	case operators.Index, operators.OptIndex, operators.OptSelect:
		return w.index(args, results)
	}
	own := w.own(function, args, results)
	own.cost = own.cost.plus(costsOf(results)...)
	return own
}

// appendMappings appends the paths of the values that are maps if a condition is true: type(value) == type({}).
func (w *walk) appendMappings(paths []string, condition ast.Expr) []string {
	if condition.Kind() != ast.CallKind {
		return paths
	}
	args := condition.AsCall().Args()
	switch condition.AsCall().FunctionName() {
	case operators.LogicalAnd:
		return w.appendMappings(w.appendMappings(paths, args[0]), args[1])
	case operators.Equals:
		typed, of := argumentOf("type", args[0]), argumentOf("type", args[1])
		//guard:cost-paths-of-maps
		if typed != nil && of != nil && of.Kind() == ast.MapKind && w.isPath(typed) {
			if path := w.of(typed).path; path != "" {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// isPath reports whether an expression is a variable, fields of one, or such a field or a constant instead. Only these have a path. To walk through any other
// expression for its path would walk through its parts again for each condition around them.
func (w *walk) isPath(e ast.Expr) bool {
	switch e.Kind() {
	case ast.IdentKind:
		return true
	case ast.SelectKind:
		return w.isPath(e.AsSelect().Operand())
	case ast.CallKind:
		function, args := w.functionOf(e.AsCall())
		isField := slices.Contains([]string{operators.Index, operators.OptIndex, operators.OptSelect}, function) || passing.Has(function)
		return isField && w.isPath(args[0]) && !slices.ContainsFunc(args[1:], func(arg ast.Expr) bool { return !isConstant(arg) })
	default:
		return false
	}
}

// isConstant reports whether an expression is a constant, or an empty list or map.
func isConstant(e ast.Expr) bool {
	isEmpty := (e.Kind() == ast.ListKind || e.Kind() == ast.MapKind) && len(guard.Elements(e)) == 0
	return e.Kind() == ast.LiteralKind || isEmpty
}

// argumentOf returns the argument of a call of a function with one argument, or nil. It looks through dyn.
func argumentOf(function string, e ast.Expr) ast.Expr {
	for e.Kind() == ast.CallKind && len(e.AsCall().Args()) == 1 {
		switch e.AsCall().FunctionName() {
		case function:
			return e.AsCall().Args()[0]
		case "dyn":
			e = e.AsCall().Args()[0]
		default:
			return nil
		}
	}
	return nil
}

// functionOf returns the name and the arguments of a call. The parser takes the first part of a name such as sets.contains for a receiver.
func (w *walk) functionOf(c ast.CallExpr) (name string, args []ast.Expr) {
	if !c.IsMemberFunction() {
		return c.FunctionName(), c.Args()
	}
	if target := c.Target(); target.Kind() == ast.IdentKind {
		// A variable of a macro does not hide a function.
		//guard:cost-functions-not-hidden
		if qualified := strings.TrimPrefix(target.AsIdent(), ".") + "." + c.FunctionName(); w.functions[qualified] != nil {
			return qualified, c.Args()
		}
	}
	return c.FunctionName(), append([]ast.Expr{c.Target()}, c.Args()...)
}

// conditional returns the bound of a choice. In size(x) <= 1000 ? x : "a message", x has at most 1000 elements, and no macro iterates over the message.
func conditional(args []ast.Expr, results []result) result {
	a, b := results[1], results[2]
	r := result{value: a.union(b.value), cost: results[0].cost.plus(a.cost.larger(b.cost))}
	//guard:cost-limits
	if limit, ok := limitOf(args[0], args[1]); ok && limit >= 0 && isMessage(args[2]) {
		bytes := r.bytes
		r.value = a.value
		r.bytes, r.count, r.counted, r.path, r.isFlat = bytes, limit, true, "", false
	}
	return r
}

// isMessage reports whether an expression is a text literal, perhaps in dyn.
func isMessage(e ast.Expr) bool {
	if of := argumentOf("dyn", e); of != nil {
		e = of
	}
	_, ok := literalText(e)
	return ok
}

// limitOf returns the number of elements to which a condition limits a value.
func limitOf(condition, of ast.Expr) (limit float64, ok bool) {
	compared, ok := callOf(operators.LessEquals, condition)
	if !ok {
		return 0, false
	}
	size, isSize := callOf("size", compared[0])
	limit, ok = literalInt(compared[1])
	return limit, ok && isSize && isSame(size[0], of)
}

// isSame reports whether two expressions are the same.
func isSame(a, b ast.Expr) bool {
	if a.Kind() != b.Kind() {
		return false
	}
	switch a.Kind() {
	case ast.IdentKind:
		return a.AsIdent() == b.AsIdent()
	case ast.LiteralKind:
		return a.AsLiteral().Type() == b.AsLiteral().Type() && a.AsLiteral().Equal(b.AsLiteral()) == types.True
	case ast.SelectKind:
		x, y := a.AsSelect(), b.AsSelect()
		//guard:cost-same-fields
		return x.FieldName() == y.FieldName() && x.IsTestOnly() == y.IsTestOnly() && isSame(x.Operand(), y.Operand())
	case ast.CallKind:
		x, y := a.AsCall(), b.AsCall()
		return x.FunctionName() == y.FunctionName() && x.IsMemberFunction() == y.IsMemberFunction() && (!x.IsMemberFunction() || isSame(x.Target(), y.Target())) &&
			slices.EqualFunc(x.Args(), y.Args(), isSame)
	case ast.ListKind:
		return slices.Equal(a.AsList().OptionalIndices(), b.AsList().OptionalIndices()) && slices.EqualFunc(a.AsList().Elements(), b.AsList().Elements(), isSame)
	case ast.MapKind:
		return slices.EqualFunc(a.AsMap().Entries(), b.AsMap().Entries(), func(x, y ast.EntryExpr) bool {
			return x.AsMapEntry().IsOptional() == y.AsMapEntry().IsOptional() && isSame(x.AsMapEntry().Key(), y.AsMapEntry().Key()) && isSame(x.AsMapEntry().Value(), y.AsMapEntry().Value())
		})
	case ast.ComprehensionKind:
		x, y := a.AsComprehension(), b.AsComprehension()
		return x.IterVar() == y.IterVar() && x.IterVar2() == y.IterVar2() && x.AccuVar() == y.AccuVar() && isSame(x.IterRange(), y.IterRange()) && isSame(x.AccuInit(), y.AccuInit()) &&
			isSame(x.LoopCondition(), y.LoopCondition()) && isSame(x.LoopStep(), y.LoopStep()) && isSame(x.Result(), y.Result())
	default:
		return false
	}
}

// index returns the bound of an index, or of the selection of an optional field.
func (w *walk) index(args []ast.Expr, results []result) result {
	total := results[0].cost.plus(results[1].cost, w.read(), units(1))
	if entry, ok := w.entryOf(results[0].value, args[1]); ok {
		return result{value: entry, cost: total}
	}
	of := results[0].value
	if name, ok := literalText(args[1]); ok {
		return result{value: of.field(name), cost: total}
	}
	return result{value: of.entry(of.bytes), cost: total.plus(w.reads(results[1].value))}
}
