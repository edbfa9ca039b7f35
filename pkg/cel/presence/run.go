/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package presence

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"
)

// maxElements is how many elements a list of an object has at most. Two are enough for an element that is a guard, and another that fails.
const maxElements = 2

// run is one evaluation with one series of choices.
type run struct {
	*search
	// chosen has the choices of the run.
	chosen map[string]bool
	// equal has the keys of the constants to which values are equal.
	equal     map[string]string
	variables map[string]value
	// expression is the number of the expression that is evaluated.
	expression int
}

// scope has the variables of macros.
type scope struct {
	name  string
	value value
	outer *scope
}

func (s *scope) with(name string, v value) *scope { return &scope{name: name, value: v, outer: s} }

// is returns the choice about a key, which it makes if there is none yet.
func (r *run) is(key string, first bool) bool {
	chosen, ok := r.chosen[key]
	if !ok {
		chosen = r.choose(first)
		r.chosen[key] = chosen
	}
	return chosen
}

// isPresent chooses whether a value exists.
func (r *run) isPresent(key, place string) bool { return r.assumed[place] || r.is("has "+key, false) }

func (r *run) isNull(v *value) bool {
	if v.kind == constant {
		return v.constant == types.NullValue
	}
	return v.kind == unknown && v.shape != nil && v.shape.Nullable && !r.assumed["null "+v.place] && r.is("null "+v.key, true)
}

// truth returns the bool that v is, or a failure.
func (r *run) truth(v value, id int64) value {
	switch {
	case v.kind == failure:
		return v
	case r.isNull(&v):
		return failureOf(missing{place: v.place, isNull: true, isArgument: true, id: id, expression: r.expression})
	case v.kind == constant:
		return v
	}
	return boolOf(r.is("true "+v.key, true))
}

// The bounds of one value. The values of an expression could otherwise double with each step.
const (
	maxKeyBytes  = 256
	maxTextBytes = 1 << 10
	maxItems     = 256
)

func (r *run) eval(e ast.Expr, s *scope) value {
	if r.steps--; r.steps < 0 {
		return value{}
	}
	return r.bounded(r.whole(e, s))
}

// bounded counts the size of a value as steps. If the value is too large, bounded returns an unknown value with the same key.
func (r *run) bounded(v value) value {
	r.steps -= len(v.items)/8 + len(v.key)/64
	if sizer, ok := v.constant.(traits.Sizer); len(v.items) > maxItems || ok && v.kind == constant && sizer.Size().(types.Int) > maxTextBytes {
		v = unknownOf(v.key)
	}
	if len(v.key) > maxKeyBytes {
		sum := sha256.Sum256([]byte(v.key))
		v.key = string(sum[:])
	}
	return v
}

func (r *run) whole(e ast.Expr, s *scope) value {
	switch e.Kind() {
	case ast.LiteralKind:
		return constantOf(e.AsLiteral())
	case ast.IdentKind:
		return r.ident(e.AsIdent(), s)
	case ast.SelectKind:
		selection := e.AsSelect()
		how := plain
		if selection.IsTestOnly() {
			how = test
		}
		return r.member(r.eval(selection.Operand(), s), constantOf(types.String(selection.FieldName())), e.ID(), how)
	case ast.CallKind:
		return r.call(e, s)
	case ast.ListKind:
		return r.list(e.AsList(), s)
	case ast.MapKind:
		return r.entries(e.AsMap(), s)
	case ast.ComprehensionKind:
		return r.comprehension(e.AsComprehension(), s)
	default:
		return unknownOf(fmt.Sprint(e.ID()))
	}
}

const variablesPrefix = "variables."

func (r *run) ident(name string, s *scope) value {
	for ; s != nil; s = s.outer {
		if s.name == name {
			return s.value
		}
	}
	if named, ok := strings.CutPrefix(name, variablesPrefix); ok {
		if v, ok := r.variables[named]; ok {
			return v
		}
		for i, of := range r.Expressions {
			if of.Name != named {
				continue
			}
			outer := r.expression
			r.expression = i
			v := r.eval(of.AST.Expr(), nil)
			r.expression, r.variables[named] = outer, v
			return v
		}
	}
	if v, ok := r.roots[name]; ok {
		return v
	}
	return unknownOf(name)
}

// access is how a member is accessed: as it is, as an optional, or to test whether it exists.
type access uint8

const (
	plain access = iota
	ifPresent
	test
)

// member returns a field, the value of a key, or an element.
func (r *run) member(v, key value, id int64, how access) value {
	switch {
	case v.kind == failure:
		return v
	case key.kind == failure:
		return key
	case v.kind == optional && v.inner == nil:
		return absent(v.missing, max(how, ifPresent))
	case v.kind == optional:
		return r.member(*v.inner, key, id, max(how, ifPresent))
	case r.isNull(&v):
		return absent(missing{place: v.place, isNull: true, id: id, expression: r.expression}, how)
	}
	found, exists := r.lookup(&v, key)
	switch {
	case !exists:
		return absent(missing{place: placeIn(&v, key), id: id, expression: r.expression}, how)
	case how == test:
		return boolOf(true)
	case how == ifPresent:
		return someOf(found)
	}
	return found
}

func absent(m missing, how access) value {
	switch how {
	case test:
		return boolOf(false)
	case ifPresent:
		return value{kind: optional, key: "none", missing: m}
	default:
		return failureOf(m)
	}
}

func (r *run) lookup(v *value, key value) (found value, exists bool) {
	at := v.key + "[" + key.key + "]"
	if text, _ := key.text(); text == verbField && v.key == request && r.verb != "" {
		return constantOf(types.String(r.verb)), true
	}
	switch {
	case v.kind == entries:
		text, _ := key.text()
		found, exists = v.byKey[text]
		return found, exists
	case v.kind == list:
		return r.element(v, key)
	case v.kind != unknown || v.shape == nil:
		return unknownOf(at), true
	case v.shape.IsList:
		elements := r.elements(v)
		return r.element(&elements, key)
	}
	text, isText := key.text()
	child, isKnown := v.shape.Fields[text]
	isSure := isText && isKnown && (child == nil || child.Always) || key.keyOf == v.key
	switch {
	case isText && isKnown:
	case v.shape.Element != nil:
		child = v.shape.Element
	case v.shape.Free:
		child = free
	default:
		return unknownOf(at), true // the check of types tells
	}
	found = value{key: at, place: placeIn(v, key), shape: child}
	return found, isSure || r.isPresent(at, found.place)
}

// element returns an element of a list. The first element of a list that may have more is as good as any.
func (r *run) element(v *value, key value) (found value, exists bool) {
	i, isNumber := key.constant.(types.Int)
	switch {
	case isNumber && i >= 0 && int(i) < len(v.items):
		return v.items[i], true
	case isNumber && (i < 0 || !v.mayHaveMore) && !r.assumed[placeIn(v, key)]:
		return value{}, false
	}
	at := v.key + "[" + key.key + "]"
	if len(v.items) == 0 {
		return unknownOf(at), r.assumed[placeIn(v, key)]
	}
	found = v.items[0]
	found.key = at
	return found, r.isPresent(at, placeIn(v, key))
}

// elements returns the elements of a list in an object.
func (r *run) elements(v *value) value {
	l := value{kind: list, key: v.key, place: v.place, mayHaveMore: true}
	for i := range maxElements {
		key := fmt.Sprintf("%s#%d", v.key, i)
		if isSure := i == 0 && v.shape != nil && v.shape.Element != nil && v.shape.Element.Always; !isSure && !r.is("has "+key, true) {
			l.mayHaveMore = false
			break
		}
		item := value{key: key, place: v.place + "[*]"}
		if v.shape != nil {
			if item.shape = v.shape.Element; v.shape.Free {
				item.shape = free
			}
		}
		l.items = append(l.items, item)
	}
	return l
}

// rangeOf returns the keys and the values over which a macro goes.
func (r *run) rangeOf(v *value) (keys, values []value) {
	switch {
	case v.kind == entries:
		for _, key := range slices.Sorted(maps.Keys(v.byKey)) {
			keys, values = append(keys, constantOf(types.String(key))), append(values, v.byKey[key])
		}
		return keys, values
	case v.kind == list:
	case v.kind == unknown && v.shape != nil && !v.shape.IsList && (v.shape.Element != nil || len(v.shape.Fields) > 0):
		for i := range maxElements {
			if key := fmt.Sprintf("%s@%d", v.key, i); r.is("has "+key, true) {
				k := value{key: key, keyOf: v.key}
				item, _ := r.lookup(v, k)
				keys, values = append(keys, k), append(values, item)
			}
		}
		return keys, values
	default:
		elements := r.elements(v)
		v = &elements
	}
	for i, item := range v.items {
		keys, values = append(keys, constantOf(types.Int(i))), append(values, item)
	}
	return keys, values
}

func (r *run) comprehension(c ast.ComprehensionExpr, s *scope) value {
	over := r.eval(c.IterRange(), s)
	if over.kind == failure {
		return over
	}
	if r.isNull(&over) {
		return failureOf(missing{place: over.place, isNull: true, isArgument: true, id: c.IterRange().ID(), expression: r.expression})
	}
	keys, values := r.rangeOf(&over)
	accumulated := s.with(c.AccuVar(), r.eval(c.AccuInit(), s))
	for i := range keys {
		if goesOn := r.eval(c.LoopCondition(), accumulated); goesOn.isBool(false) || r.steps < 0 {
			break
		}
		inner := accumulated
		switch isMap := over.kind == entries || keys[i].keyOf != ""; {
		case c.HasIterVar2():
			inner = inner.with(c.IterVar(), keys[i]).with(c.IterVar2(), values[i])
		case isMap:
			inner = inner.with(c.IterVar(), keys[i])
		default:
			inner = inner.with(c.IterVar(), values[i])
		}
		accumulated = s.with(c.AccuVar(), r.eval(c.LoopStep(), inner))
	}
	if len(keys) == 0 {
		r.eval(c.LoopCondition(), accumulated)
	}
	return r.eval(c.Result(), accumulated)
}

func (r *run) list(l ast.ListExpr, s *scope) value {
	made := value{kind: list}
	for i, e := range l.Elements() {
		item := r.eval(e, s)
		if item.kind == failure {
			return item
		}
		if l.IsOptional(int32(i)) && item.kind == optional {
			if item.inner == nil {
				continue
			}
			item = *item.inner
		}
		made.items = append(made.items, item)
	}
	made.key = "[" + keysOf(made.items) + "]"
	return made
}

// entries returns a map that the expression makes. With a key that is no constant text, nothing is known of it.
func (r *run) entries(m ast.MapExpr, s *scope) value {
	made := value{kind: entries, byKey: map[string]value{}}
	var all []value
	for _, entry := range m.Entries() {
		e := entry.AsMapEntry()
		key, item := r.eval(e.Key(), s), r.eval(e.Value(), s)
		if key.kind == failure {
			return key
		}
		if item.kind == failure {
			return item
		}
		text, isText := key.text()
		if !isText || e.IsOptional() {
			made.kind = unknown
		}
		made.byKey[text] = item
		all = append(all, key, item)
	}
	made.key = "{" + keysOf(all) + "}"
	return made
}

func keysOf(values []value) string {
	keys := make([]string, len(values))
	for i := range values {
		keys[i] = values[i].key
	}
	return strings.Join(keys, ",")
}

func (r *run) equals(a, b value) bool {
	switch {
	case a.kind == optional && b.kind == optional:
		if a.inner == nil || b.inner == nil {
			return a.inner == nil && b.inner == nil
		}
		return r.equals(*a.inner, *b.inner)
	case a.kind == optional || b.kind == optional:
		return r.is("eq "+a.key+"~"+b.key, true)
	case r.isNull(&a) || r.isNull(&b):
		return r.isNull(&a) && r.isNull(&b)
	case a.key == b.key:
		return true
	case a.kind == constant && b.kind == constant && !a.isLeast && !b.isLeast:
		return a.constant.Equal(b.constant) == types.True
	case b.kind == unknown && a.kind != unknown:
		return r.equals(b, a)
	case a.kind == unknown && b.kind == list && a.shape != nil && a.shape.IsList:
		if elements := r.elements(&a); len(elements.items) == 0 || len(b.items) == 0 {
			return len(elements.items) == len(b.items)
		}
	case a.kind == unknown && b.kind == constant:
		return r.equalsConstant(a, b)
	case b.key < a.key:
		a, b = b, a
	}
	return r.is("eq "+a.key+"~"+b.key, true)
}

// equalsConstant chooses whether a value is equal to a constant. It is equal to one of them at most. A key of a map makes the map have the constant.
func (r *run) equalsConstant(a, b value) bool {
	if to, ok := r.equal[a.key]; ok {
		return to == b.key
	}
	if a.keyOf != "" && !r.is("has "+a.keyOf+"["+b.key+"]", false) {
		return false
	}
	is := r.is("eq "+a.key+"~"+b.key, true)
	if is {
		r.equal[a.key] = b.key
	}
	return is
}

var flipped = map[string]string{
	operators.Less: operators.Greater, operators.Greater: operators.Less, operators.LessEquals: operators.GreaterEquals, operators.GreaterEquals: operators.LessEquals,
}

// compare compares two values that are no failures by an operator of order.
func (r *run) compare(name string, a, b value) value {
	if b.isLeast {
		a, b, name = b, a, flipped[name]
	}
	x, isNumber := a.constant.(traits.Comparer)
	if a.kind != constant || b.kind != constant || !isNumber || b.isLeast {
		return unknownOf(name + "(" + a.key + "," + b.key + ")")
	}
	order, ok := x.Compare(b.constant).(types.Int)
	switch {
	case !ok || a.isLeast && order < 0:
	case a.isLeast && order == 0 && (name == operators.Greater || name == operators.LessEquals):
	case name == operators.Less:
		return boolOf(order < 0)
	case name == operators.LessEquals:
		return boolOf(order <= 0)
	case name == operators.Greater:
		return boolOf(order > 0)
	default:
		return boolOf(order >= 0)
	}
	return unknownOf(name + "(" + a.key + "," + b.key + ")")
}
