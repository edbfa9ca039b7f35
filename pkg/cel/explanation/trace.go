/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explanation

import (
	"context"
	"slices"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/syntax"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

const (
	// maxTracedNodes bounds the parts of one trace, and maxTraceDepth how deep they are nested.
	maxTracedNodes = 512
	maxTraceDepth  = 24
	// maxTracedElements bounds the elements of a list or map for which the body of one macro is traced.
	maxTracedElements = 8
	// TraceLimit is a cost limit for a trace. Parts are evaluated alone, and each of them again with all expressions around it.
	TraceLimit = 20 * cel.CostLimit
)

// Trace is the value of an expression in one evaluation, with the values of its parts. No decision is made from it.
type Trace struct {
	// Text is the expression, in which named expressions are inlined. It has at most MaxPartBytes bytes.
	Text string
	// Function is the name of the operator, the function or the macro, and empty for all other expressions.
	Function string
	// Value is the value. It is nil if the evaluation failed, or if IsUnknown is set.
	Value cel.Value
	// Err is the error of the evaluation. It may quote data.
	Err error
	// IsUnknown says that the value depends on variables whose values are not known.
	IsUnknown bool
	// IsConstant says that the expression has no variables.
	IsConstant bool
	// Field is the field that the expression selects, perhaps with a constant for a field that is missing. It is nil if the expression is no
	// selection, or if the field cannot be determined.
	Field *Field
	// Reads are the fields that the value may depend on. A field stands for all fields below it.
	Reads []Read
	// Element is the element for which the body of a macro was evaluated, and nil for all other expressions.
	Element *Element
	// Parts are the operands. A chain of && or || has all its operands, ?: the condition and the branch that was chosen, and a
	// quantifier its range and its body for the elements that decide. Other macros have their range.
	Parts []*Trace
	// IsTruncated says that Parts has not all operands.
	IsTruncated bool
}

// Field is a field of a variable.
type Field struct {
	Variable cel.Variable
	// Path is the way to the field, in names and in indexes of lists: string and int64. The names are those in the expression, or in the
	// request, or keys of maps over which a macro with two variables ranges.
	Path []any
}

// Read is a field that a value may depend on.
type Read struct {
	Variable cel.Variable
	Path     []string
}

// Element is an element of a list or a map, or a key of a map.
type Element struct {
	// Name is the variable that the macro binds, and Value its value.
	Name  string
	Value cel.Value
	// Field is the field of the element, or nil if it is not known. KeyOf is the field whose key the element is.
	Field, KeyOf *Field
	// Reads are the fields on which the element may depend.
	Reads []Read
}

// TraceOf evaluates an expression and its parts within a cost limit. unknown are variables without values: a part that cannot be
// evaluated without them is unknown. It returns nil if the expression cannot be planned.
func TraceOf(ctx context.Context, e *partial.Expression, values cel.Values, limit uint64, unknown ...cel.Variable) *Trace {
	var nodes []*syntax.Node
	for n := range e.Tree().All {
		if nodes = append(nodes, n); len(nodes) == maxTracedNodes {
			break
		}
	}
	if _, err := e.Instructions(nodes...); err != nil {
		return nil
	}
	t := &tracer{Values: values, ctx: ctx, expression: e, unknown: unknown, traceable: sets.New(nodes...), bound: map[string]*Element{}, left: limit}
	return t.trace(e.Tree(), 0)
}

// tracer makes a trace.
type tracer struct {
	// Values are the values of variables.
	cel.Values
	//nolint:containedctx // lives for one call of TraceOf
	ctx        context.Context
	expression *partial.Expression
	unknown    []cel.Variable
	// traceable are the nodes that can be traced, as many as a trace may have.
	traceable sets.Set[*syntax.Node]
	// bound are the elements to which the macros around the traced node bind their variables, by the names of the variables.
	bound  map[string]*Element
	left   uint64
	traced int
}

// ResolveName returns the value of a variable, also of one that a macro binds.
func (t *tracer) ResolveName(name string) (any, bool) {
	if bound := t.bound[name]; bound != nil {
		return bound.Value, true
	}
	return t.Values.ResolveName(name)
}

// trace evaluates a node and its parts. It returns nil if the trace would have too many parts.
func (t *tracer) trace(n *syntax.Node, depth int) *Trace {
	if t.traced == maxTracedNodes || depth == maxTraceDepth || !t.traceable.Has(n) {
		return nil
	}
	t.traced++
	traced := &Trace{Text: shortTextOf(n), IsConstant: len(n.Free) == 0}
	if n.Kind == syntax.CallNode || n.Kind == syntax.MacroNode {
		traced.Function = n.Name
	} else if n.IsTest {
		traced.Function = operators.Has
	}
	t.eval(traced, n)
	if traced.IsConstant && n.Kind != syntax.CallNode {
		return traced
	}
	traced.Field = t.fieldOf(n)
	traced.Reads = t.reads(n)
	if traced.Field == nil {
		t.parts(traced, n, depth)
	}
	return traced
}

// eval sets the value of a node.
func (t *tracer) eval(traced *Trace, n *syntax.Node) {
	defer func() {
		if recover() != nil {
			traced.Value, traced.Err = nil, cel.ErrEvaluation
		}
	}()
	if t.left == 0 {
		traced.Err = cel.ErrCost
		return
	}
	value, cost, err := t.expression.EvalPart(t.ctx, n, t, min(t.left, cel.CostLimit))
	t.left -= min(cost, t.left)
	switch {
	case err == nil && !types.IsUnknownOrError(value):
		traced.Value = value
	case slices.ContainsFunc(t.unknown, func(v cel.Variable) bool { return n.Free.Has(string(v)) }):
		traced.IsUnknown = true
	case err != nil && cost > cel.CostLimit:
		traced.Err = cel.ErrCost
	case err != nil:
		traced.Err = t.expression.Program().Failure(err)
	default:
		traced.Err = cel.ErrEvaluation
	}
}

// valueOf returns the value of a node, or nil if there is none.
func (t *tracer) valueOf(n *syntax.Node) cel.Value {
	if !t.traceable.Has(n) {
		return nil
	}
	traced := &Trace{}
	t.eval(traced, n)
	return traced.Value
}

// parts adds the parts of a node.
func (t *tracer) parts(traced *Trace, n *syntax.Node, depth int) {
	add := func(part *syntax.Node) *Trace {
		child := t.trace(part, depth+1)
		if child == nil {
			traced.IsTruncated = true
			return nil
		}
		traced.Parts = append(traced.Parts, child)
		return child
	}
	switch {
	case n.IsLogic():
		for _, operand := range n.Terms(n.Name) {
			add(operand)
		}
		return
	case n.Kind == syntax.CallNode && n.Name == operators.Conditional:
		if condition := add(n.Args[0]); condition != nil && condition.Value == types.True {
			add(n.Args[1])
		} else if condition != nil && condition.Value == types.False {
			add(n.Args[2])
		}
		return
	case n.Target != nil:
		over := add(n.Target)
		if n.Kind == syntax.MacroNode {
			if over != nil && over.Value != nil && n.IsBool() {
				t.elements(traced, n, over, depth)
			}
			return
		}
	}
	for _, arg := range n.Args {
		add(arg)
	}
}

// elements adds the body of a quantifier for elements of its range. It leaves out elements that do not decide: elements for which
// all is true, and elements for which exists is false although it is true of others.
func (t *tracer) elements(traced *Trace, n *syntax.Node, over *Trace, depth int) {
	all, ok := partial.ElementsOf(over.Value, len(n.Binders))
	if !ok {
		traced.IsTruncated = true
		return
	}
	var bodies []*Trace
	for i, values := range all {
		for j, name := range n.Binders {
			t.bound[name] = &Element{Name: name, Value: values[j], Reads: over.Reads}
			setField(t.bound[name], over, values[0], int64(i), j == len(n.Binders)-1, len(n.Binders) == 2)
		}
		value := t.valueOf(n.Args[0])
		if n.Name == operators.All && value == types.True || n.Name != operators.All && value == types.False && traced.Value == types.True {
			continue
		}
		if len(bodies) == maxTracedElements {
			traced.IsTruncated = true
			break
		}
		body := t.trace(n.Args[0], depth+1)
		if body == nil {
			traced.IsTruncated = true
			break
		}
		body.Element = t.bound[n.Binders[len(n.Binders)-1]]
		bodies = append(bodies, body)
	}
	for _, name := range n.Binders {
		delete(t.bound, name)
	}
	traced.Parts = append(traced.Parts, bodies...)
}

// setField sets the field of an element that the last variable of a macro is bound to, or of which it is the key.
func setField(element *Element, over *Trace, key cel.Value, index int64, isLast, hasTwo bool) {
	if over, index = originOf(over, index); over.Field == nil || !isLast {
		return
	}
	at := func(step any) *Field {
		return &Field{Variable: over.Field.Variable, Path: append(slices.Clone(over.Field.Path), step)}
	}
	name, isText := key.(types.String)
	switch isMap := over.Value.Type() == types.MapType; {
	case !isMap:
		element.Field = at(index)
	case isText && hasTwo:
		element.Field = at(string(name))
	case isText:
		element.KeyOf = at(string(name))
	}
}

// originOf returns the list from which an element of a sum of lists comes, and its index there.
func originOf(over *Trace, index int64) (*Trace, int64) {
	for over.Function == operators.Add && len(over.Parts) == 2 && !over.IsTruncated {
		first, isList := over.Parts[0].Value.(traits.Lister)
		if !isList {
			break
		}
		size, _ := first.Size().(types.Int)
		if index < int64(size) {
			over = over.Parts[0]
			continue
		}
		over, index = over.Parts[1], index-int64(size)
	}
	return over, index
}

// fieldOf returns the field that a node selects, or nil.
func (t *tracer) fieldOf(n *syntax.Node) *Field {
	in := func(target *syntax.Node, step any) *Field {
		field := t.fieldOf(target)
		if field == nil {
			return nil
		}
		return &Field{Variable: field.Variable, Path: append(slices.Clone(field.Path), step)}
	}
	switch {
	case n.Kind == syntax.VariableNode:
		if bound := t.bound[n.Name]; bound != nil {
			return bound.Field
		}
		return &Field{Variable: cel.Variable(n.Name)}
	case n.Kind == syntax.SelectNode:
		return in(n.Target, n.Name)
	case n.Kind != syntax.CallNode:
		return nil
	}
	switch n.Name {
	case "dyn":
		return t.fieldOf(n.Args[0])
	case "orValue":
		if n.Target != nil && len(n.Args[0].Free) == 0 {
			return t.fieldOf(n.Target)
		}
	case operators.Conditional:
		switch t.valueOf(n.Args[0]) {
		case types.True:
			return t.fieldOf(n.Args[1])
		case types.False:
			return t.fieldOf(n.Args[2])
		}
	case operators.OptSelect, operators.Index, operators.OptIndex:
		// Another key would be data of an object, which the caller may not want to show as a name.
		//guard:explain-keys-secrets
		if !sets.New(string(cel.Request)).IsSuperset(n.Args[1].Free) {
			return nil
		}
		switch value := t.valueOf(n.Args[1]).(type) {
		case types.String:
			return in(n.Args[0], string(value))
		case types.Int:
			return in(n.Args[0], int64(value))
		}
	}
	return nil
}

// reads returns the fields that the value of a node may depend on.
func (t *tracer) reads(n *syntax.Node) (found []Read) {
	add := func(all ...Read) {
		for _, read := range all {
			if !slices.ContainsFunc(found, func(r Read) bool { return r.Variable == read.Variable && slices.Equal(r.Path, read.Path) }) {
				found = append(found, read)
			}
		}
	}
	n.EachRead(func(variable *syntax.Node, path []string) {
		if bound := t.bound[variable.Name]; bound != nil {
			add(bound.Reads...)
		} else if t.expression.Reads(cel.Variable(variable.Name)) { // the range of a macro in the node is read apart
			add(Read{Variable: cel.Variable(variable.Name), Path: path})
		}
	})
	return found
}
