/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// errNoLiteral says that a value has no literal.
var errNoLiteral = errors.New("the value has no literal")

func literal(v ref.Val, t *types.Type) *node {
	return &node{kind: constantNode, value: v, typ: t}
}

// omitted returns a node of type t that stands for a value whose text is too long for a residual.
func omitted(t *types.Type) *node {
	return &node{kind: omittedNode, typ: t}
}

func function(name string, t *types.Type, args ...*node) *node {
	return &node{kind: callNode, name: name, typ: t, args: args}
}

// asDyn returns dyn(n), or n if it is a call of dyn already. It hides a literal from the optimizations of the planner, which
// would evaluate it by other rules than the whole expression, and from the checker, which would give it a narrower type than
// the expression that it replaces.
func asDyn(n *node) *node {
	if n.kind == callNode && n.name == "dyn" {
		return n
	}
	return &node{kind: callNode, name: "dyn", typ: types.DynType, args: []*node{n}, changed: true}
}

// errorTerm returns an expression that always fails. Its text contains no data.
func errorTerm() *node {
	missing := &node{kind: callNode, name: operators.Index, typ: types.DynType,
		args: []*node{{kind: mapNode, typ: types.DynType}, literal(types.String("error"), types.StringType)}}
	return asDyn(missing)
}

// failing are the functions that make values of types without literals. A call with an empty string
// compiles, and fails when it is evaluated.
var failing = map[string]string{
	"kubernetes.Quantity": "quantity", "net.IP": "ip", "net.CIDR": "cidr", "kubernetes.Semver": "semver", "kubernetes.URL": "url",
}

// errorTermOf returns an expression of type t that always fails. If there is none for t, it returns errorTerm, which is dyn.
func errorTermOf(t *types.Type) *node {
	if name, ok := failing[t.TypeName()]; ok {
		return function(name, t, literal(types.String(""), types.StringType))
	}
	zero := zeroOf(t)
	if zero == nil {
		return errorTerm()
	}
	missing := &node{kind: mapNode, typ: types.NewMapType(types.StringType, t), args: []*node{literal(types.String(""), types.StringType), zero}}
	return function(operators.Index, t, missing, literal(types.String("error"), types.StringType))
}

// restoreType returns an expression with the value of n and the type t, if n has become dyn and errorTermOf has an expression
// of type t; otherwise it returns n. The checker chooses overloads by the type, though a value may have another type where the
// checker has inferred t from the expression around it. The expression of type t is a fallback that is never evaluated.
func restoreType(n *node, t *types.Type) *node {
	witness := errorTermOf(t)
	if !n.changed || !witness.typ.IsExactType(t) || t.Kind() == types.DynKind {
		return n
	}
	held := asDyn(function("optional.of", types.NewOptionalType(types.DynType), asDyn(n)))
	return &node{kind: callNode, name: "orValue", typ: t, target: held, args: []*node{witness}}
}

// zeroOf returns a literal of a type, or nil if there is none.
func zeroOf(t *types.Type) *node {
	switch t.Kind() {
	case types.BoolKind:
		return literal(types.False, t)
	case types.IntKind:
		return literal(types.Int(0), t)
	case types.UintKind:
		return literal(types.Uint(0), t)
	case types.DoubleKind:
		return literal(types.Double(0), t)
	case types.StringKind:
		return literal(types.String(""), t)
	case types.DurationKind:
		return function("duration", t, literal(types.String("0s"), types.StringType))
	case types.TimestampKind:
		return function("timestamp", t, literal(types.String("1970-01-01T00:00:00Z"), types.StringType))
	case types.OpaqueKind:
		if t.TypeName() == "optional_type" {
			if held := zeroOf(t.Parameters()[0]); held != nil {
				return function("optional.of", t, held)
			}
		}
	case types.ListKind:
		if element := zeroOf(t.Parameters()[0]); element != nil {
			return &node{kind: listNode, typ: t, args: []*node{element}}
		}
	case types.MapKind:
		if key, value := zeroOf(t.Parameters()[0]), zeroOf(t.Parameters()[1]); key != nil && value != nil {
			return &node{kind: mapNode, typ: t, args: []*node{key, value}}
		}
	default:
	}
	return nil
}

// literalOf returns the literal of a value, or errNoLiteral if there is none. The literal is wrapped in dyn() if its type
// differs from want, the type that the checker found, or if it is an empty list or map.
func literalOf(v ref.Val, want *types.Type) (*node, error) {
	n, err := bareLiteral(v)
	if err != nil {
		return nil, err
	}
	//guard:literal-another-type
	if want != nil && n.typ.IsExactType(want) && !isEmptyAggregate(n) {
		return n, nil
	}
	return asDyn(n), nil
}

// isEmptyAggregate reports whether a literal has no element that would determine its type.
func isEmptyAggregate(n *node) bool {
	//guard:literal-optional-none
	return (n.kind == listNode || n.kind == mapNode || (n.kind == callNode && n.name == "optional.none")) && len(n.args) == 0
}

func bareLiteral(v ref.Val) (*node, error) {
	switch value := v.(type) {
	case types.Bool, types.Int, types.Uint, types.Bytes, types.Null:
		return literal(v, v.Type().(*types.Type)), nil
	case types.Double:
		if math.IsNaN(float64(value)) || math.IsInf(float64(value), 0) {
			text := types.String(strconv.FormatFloat(float64(value), 'g', -1, 64))
			return function("double", types.DoubleType, literal(text, types.StringType)), nil
		}
		return literal(v, types.DoubleType), nil
	case types.String:
		if !utf8.ValidString(string(value)) {
			return nil, errNoLiteral
		}
		return literal(v, types.StringType), nil
	case types.Duration:
		// Whole seconds and nanoseconds, so that no digit is lost on the way.
		nanos := value.Nanoseconds()
		text := fmt.Sprintf("%ds%dns", nanos/1e9, (value.Duration % time.Second).Abs())
		//guard:literal-sign-duration
		if nanos < 0 && nanos > -1e9 {
			text = "-" + text
		}
		return function("duration", types.DurationType, literal(types.String(text), types.StringType)), nil
	case types.Timestamp:
		//guard:literal-nanoseconds-timestamp
		text := types.String(value.UTC().Format("2006-01-02T15:04:05.999999999Z07:00"))
		return function("timestamp", types.TimestampType, literal(text, types.StringType)), nil
	case *types.Optional:
		if !value.HasValue() {
			return function("optional.none", types.NewOptionalType(types.DynType)), nil
		}
		inner, err := bareLiteral(value.GetValue())
		if err != nil {
			return nil, err
		}
		if isEmptyAggregate(inner) {
			//guard:literal-optional-nothing
			inner = asDyn(inner)
		}
		return function("optional.of", types.NewOptionalType(inner.typ), inner), nil
	case traits.Lister:
		return listLiteral(value)
	case traits.Mapper:
		return mapLiteral(value)
	}
	return nil, errNoLiteral
}

func listLiteral(list traits.Lister) (*node, error) {
	n := &node{kind: listNode}
	for it := list.Iterator(); it.HasNext() == types.True; {
		element, err := bareLiteral(it.Next())
		if err != nil {
			return nil, err
		}
		n.args = append(n.args, element)
	}
	n.typ = types.NewListType(uniform(n.args))
	return n, nil
}

// mapLiteral returns the literal of a map, with sorted keys, so that equal maps have the same text.
func mapLiteral(m traits.Mapper) (*node, error) {
	type entry struct {
		text       string
		key, value *node
	}
	var entries []entry
	for it := m.Iterator(); it.HasNext() == types.True; {
		k := it.Next()
		key, err := bareLiteral(k)
		if err != nil {
			return nil, err
		}
		value, err := bareLiteral(m.Get(k))
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{textOf(key), key, value})
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.text, b.text) })
	var keys, values []*node
	for _, e := range entries {
		keys, values = append(keys, e.key), append(values, e.value)
	}
	n := &node{kind: mapNode, typ: types.NewMapType(uniform(keys), uniform(values))}
	for i := range keys {
		n.args = append(n.args, keys[i], values[i])
	}
	return n, nil
}

// uniform returns the type of the elements of a literal. It makes all elements dyn if they have different
// types, because the checker demands one type.
func uniform(elements []*node) *types.Type {
	if len(elements) == 0 {
		return types.DynType
	}
	first := elements[0].typ
	for _, e := range elements {
		//guard:uniform-types
		if !e.typ.IsExactType(first) || isEmptyAggregate(e) {
			for i := range elements {
				elements[i] = asDyn(elements[i])
			}
			return types.DynType
		}
	}
	return first
}
