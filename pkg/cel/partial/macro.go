/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/syntax"
)

// maxUnrolled bounds the elements of a known range that are evaluated one by one.
const maxUnrolled = 256

func (e *evaluation) evalMacro(s *step, b *bindings) part {
	target := e.eval(s.target, b)
	if target.isError() {
		return target
	}
	if len(s.unrolled) > 0 && target.isValue() {
		if elements, ok := ElementsOf(target.value, len(s.Binders)); ok {
			if unrolled, ok := e.attempt(func() part { return e.unroll(s, elements, b) }); ok {
				return e.chooseShorter(unrolled, s, target, b)
			}
		}
	}
	return e.evalWhole(s, target, b)
}

// chooseShorter returns the unrolled form of a macro, or its unrolled value. If the macro over a literal range (evalWhole) is
// decided or has a shorter text than the unrolled form, it returns this macro.
func (e *evaluation) chooseShorter(unrolled part, s *step, target part, b *bindings) part {
	if unrolled.isValue() {
		return unrolled
	}
	whole, ok := e.attempt(func() part { return e.evalWhole(s, target, b) })
	if ok && (whole.isValue() || e.lengthOf(whole.tree) < e.lengthOf(unrolled.tree)) {
		return whole
	}
	return unrolled
}

// evalWhole evaluates a macro without unrolling it: the residual is the macro, in which the known parts of
// the range and the bodies are literals.
func (e *evaluation) evalWhole(s *step, target part, b *bindings) part {
	result := *s.Node
	result.Args = nil
	result.Target = e.operand(target, s.target.Node)
	result.IsChanged = result.Target.IsChanged
	outer := e.retyped
	if result.IsChanged {
		//guard:macro-dyn-around-range
		result.Target = syntax.AsDyn(result.Target) // so that its variables are dyn for certain
	}
	//guard:macro-retyped
	if result.IsChanged && retypes(s) {
		e.retyped = append(slices.Clone(outer), s.Binders...)
	}
	for _, body := range s.args {
		operand := e.operand(e.eval(body, b), body.Node)
		result.IsChanged = result.IsChanged || operand.IsChanged
		result.Args = append(result.Args, operand)
	}
	e.retyped = outer
	if s.IsBool() {
		result.IsChanged = false
	}
	return part{tree: &result}
}

// retypes reports whether the variables that a macro binds get another type when its range
// becomes dyn. It also returns true for macros of optionals, because the checker infers the element type of an optional of
// unknown type from its first use.
func retypes(s *step) bool {
	known := func(t *types.Type) bool { return t.Kind() != types.DynKind }
	//guard:retypes-optionals
	return strings.HasPrefix(s.Name, "opt") || slices.ContainsFunc(s.target.Type.Parameters(), known)
}

// unroll evaluates all and exists over a known range as a conjunction or a disjunction of their bodies, in
// which an error does not matter if another element decides. A residual that is too long for a condition is
// omitted, because a later element may decide.
func (e *evaluation) unroll(s *step, elements [][]ref.Val, b *bindings) part {
	j := junction{operator: operators.LogicalOr, short: true}
	if s.Name == operators.All {
		j = junction{operator: operators.LogicalAnd, short: false}
	}
	length := 0
	for _, element := range elements {
		if e.stopped != nil {
			return e.stop()
		}
		inner := b
		for i, binder := range s.Binders {
			inner = &bindings{name: binder, value: element[i], parent: inner}
		}
		p := e.eval(s.unrolled[0], inner)
		if !p.isValue() {
			p = e.close(p)
		}
		if !p.isValue() && length > cel.MaxExpressionBytes {
			continue
		}
		if j.isDecidedBy(p) {
			return part{value: j.short}
		}
		if !p.isValue() {
			if length += e.lengthOf(p.tree); length > cel.MaxExpressionBytes {
				j.remaining = []*syntax.Node{syntax.Omitted(types.BoolType)}
			}
		}
	}
	return j.result()
}

// ElementsOf returns the values of the variables of a quantifier for each element: with one variable the
// element of a list or the key of a map, with two variables the index or key, and the value. It returns false if the range is
// no list or map, or has more than maxUnrolled elements.
func ElementsOf(over cel.Value, binders int) ([][]cel.Value, bool) {
	var elements [][]ref.Val
	sizer, ok := over.(traits.Sizer)
	if !ok {
		return nil, false
	}
	if size, ok := sizer.Size().(types.Int); !ok || size > maxUnrolled {
		return nil, false
	}
	switch collection := over.(type) {
	case traits.Lister:
		for it, i := collection.Iterator(), types.Int(0); it.HasNext() == types.True; i++ {
			element := it.Next()
			if binders == 2 {
				//guard:unroll-index-element
				elements = append(elements, []ref.Val{i, element})
			} else {
				elements = append(elements, []ref.Val{element})
			}
		}
	case traits.Mapper:
		for _, key := range sortedKeys(collection) {
			if binders == 2 {
				//guard:unroll-key-value
				elements = append(elements, []ref.Val{key, collection.Get(key)})
			} else {
				elements = append(elements, []ref.Val{key})
			}
		}
	default:
		return nil, false
	}
	return elements, true
}

// sortedKeys returns the keys of a map, sorted by their texts. It prints each key once only, because a key may be long.
func sortedKeys(m traits.Mapper) []ref.Val {
	type printed struct {
		key  ref.Val
		text string
	}
	var all []printed
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		all = append(all, printed{key, fmt.Sprint(key.Value())})
	}
	slices.SortStableFunc(all, func(a, b printed) int { return strings.Compare(a.text, b.text) })
	keys := make([]ref.Val, len(all))
	for i, p := range all {
		keys[i] = p.key
	}
	return keys
}
