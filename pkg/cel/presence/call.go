/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package presence

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// call evaluates a call of a function. A function that is not named here fails if an argument does, or is null, and its result is unknown.
func (r *run) call(e ast.Expr, s *scope) value {
	c := e.AsCall()
	exprs := c.Args()
	if c.IsMemberFunction() {
		exprs = append([]ast.Expr{c.Target()}, exprs...)
	}
	name := c.FunctionName()
	switch name {
	case operators.LogicalAnd, operators.LogicalOr:
		return r.logic(exprs[0], exprs[1], name == operators.LogicalOr, s)
	case operators.Conditional:
		condition := r.truth(r.eval(exprs[0], s), exprs[0].ID())
		switch {
		case condition.kind == failure:
			return condition
		case condition.isBool(true):
			return r.eval(exprs[1], s)
		}
		return r.eval(exprs[2], s)
	case operators.NotStrictlyFalse:
		v := r.truth(r.eval(exprs[0], s), e.ID())
		return boolOf(v.kind == failure || !v.isBool(false))
	case "or", "orValue":
		if v := r.eval(exprs[0], s); v.kind == optional {
			switch {
			case v.inner == nil:
				return r.eval(exprs[1], s)
			case name == "or":
				return v
			}
			return *v.inner
		}
	}
	args := make([]value, len(exprs))
	for i, arg := range exprs {
		if args[i] = r.eval(arg, s); args[i].kind == failure {
			return args[i]
		}
	}
	if result, isDone := r.total(e.ID(), name, args); isDone {
		return result
	}
	for i := range args {
		if r.isNull(&args[i]) {
			return failureOf(missing{place: args[i].place, isNull: true, isArgument: true, id: exprs[i].ID(), expression: r.expression})
		}
	}
	return r.strict(name, args)
}

// logic is && or ||. A failure on one side does not matter if the other side decides.
func (r *run) logic(left, right ast.Expr, short bool, s *scope) value {
	a := r.truth(r.eval(left, s), left.ID())
	if a.isBool(short) {
		return a
	}
	b := r.truth(r.eval(right, s), right.ID())
	if a.kind == failure && !b.isBool(short) {
		return a
	}
	return b
}

// total calls the functions that accept null, and those that access a member. It returns false for other functions.
func (r *run) total(id int64, name string, args []value) (result value, isDone bool) {
	switch name {
	case operators.Index:
		return r.member(args[0], args[1], id, plain), true
	case operators.OptIndex, operators.OptSelect:
		return r.member(args[0], args[1], id, ifPresent), true
	case operators.Equals:
		return boolOf(r.equals(args[0], args[1])), true
	case operators.NotEquals:
		return boolOf(!r.equals(args[0], args[1])), true
	case operators.In, operators.OldIn:
		if !r.isNull(&args[1]) {
			return r.in(args[0], args[1]), true
		}
	case "dyn":
		return args[0], true
	case "optional.of":
		return someOf(args[0]), true
	case "optional.none":
		return value{kind: optional, key: "none"}, true
	case "optional.ofNonZeroValue":
		if r.isNull(&args[0]) || r.isZero(args[0]) {
			return value{kind: optional, key: "none", missing: missing{place: args[0].place, id: id, expression: r.expression}}, true
		}
		return someOf(args[0]), true
	case "hasValue":
		if args[0].kind == optional {
			return boolOf(args[0].inner != nil), true
		}
	case "value":
		if args[0].kind == optional {
			if args[0].inner != nil {
				return *args[0].inner, true
			}
			m := args[0].missing
			m.id, m.expression = id, r.expression
			return failureOf(m), true
		}
	case "type":
		return unknownOf("type(" + args[0].key + ")"), true
	}
	return value{}, false
}

// strict calls a function with arguments that are neither failures nor null.
func (r *run) strict(name string, args []value) value {
	switch name {
	case operators.LogicalNot:
		v := r.truth(args[0], 0)
		return boolOf(v.isBool(false))
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return r.compare(name, args[0], args[1])
	case operators.Add:
		return r.add(args[0], args[1])
	case "size":
		if keys, isWhole, ok := r.sizeOf(args[0]); ok {
			size := constantOf(types.Int(keys))
			if !isWhole {
				size.isLeast, size.key = true, "size("+args[0].key+")"
			}
			return size
		}
	case "first", "last":
		if args[0].kind == list || args[0].shape != nil && args[0].shape.IsList {
			if _, items := r.rangeOf(&args[0]); len(items) > 0 {
				return someOf(items[0])
			}
			return value{kind: optional, key: "none", missing: missing{place: args[0].place + "[*]"}}
		}
	case "startsWith", "endsWith", "contains", "matches":
		if receiver, ok := args[0].constant.(traits.Receiver); ok && args[0].kind == constant && args[1].kind == constant && name != "matches" {
			if is, ok := receiver.Receive(name, "", []ref.Val{args[1].constant}).(types.Bool); ok {
				return boolOf(bool(is))
			}
		}
	}
	return unknownOf(name + "(" + keysOf(args) + ")")
}

func (r *run) add(a, b value) value {
	x, ok := a.constant.(traits.Adder)
	switch {
	case a.kind == list && b.kind == list:
		sum := value{kind: list, key: a.key + "+" + b.key, mayHaveMore: a.mayHaveMore || b.mayHaveMore}
		sum.items = append(append(sum.items, a.items...), b.items...)
		return sum
	case ok && a.kind == constant && b.kind == constant && !a.isLeast && !b.isLeast:
		if sum := x.Add(b.constant); !types.IsUnknownOrError(sum) {
			return constantOf(sum)
		}
	}
	return unknownOf("(" + a.key + "+" + b.key + ")")
}

// sizeOf returns the size of a list or a map, and false if it is something else. If the size is not whole, it may be larger.
func (r *run) sizeOf(v value) (size int, isWhole, ok bool) {
	if sizer, ok := v.constant.(traits.Sizer); ok && v.kind == constant {
		size, _ := sizer.Size().(types.Int)
		return int(size), true, true
	}
	if v.kind != list && v.kind != entries && (v.kind != unknown || v.shape == nil || v.shape.Element == nil) {
		return 0, false, false
	}
	keys, _ := r.rangeOf(&v)
	isWhole = v.kind == entries || v.kind == list && !v.mayHaveMore || v.kind == unknown && len(keys) < maxElements
	return len(keys), isWhole, true
}

func (r *run) isZero(v value) bool {
	if zeroer, ok := v.constant.(traits.Zeroer); ok && v.kind == constant {
		return zeroer.IsZeroValue()
	}
	if size, isWhole, ok := r.sizeOf(v); ok {
		return size == 0 && isWhole
	}
	return r.is("zero "+v.key, true)
}

func (r *run) in(item, of value) value {
	switch {
	case of.kind == list:
		r.steps -= len(of.items) / 4
		for _, other := range of.items {
			if r.equals(item, other) {
				return boolOf(true)
			}
		}
		if !of.mayHaveMore || len(of.items) == 0 {
			return boolOf(false)
		}
	case of.kind == entries || of.kind == unknown && of.shape != nil && !of.shape.IsList && of.shape.Element != nil:
		_, exists := r.lookup(&of, item)
		return boolOf(exists)
	case of.kind == unknown && of.shape != nil && of.shape.IsList:
		if elements := r.elements(&of); len(elements.items) == 0 {
			return boolOf(false)
		}
	}
	return unknownOf("in(" + item.key + "," + of.key + ")")
}
