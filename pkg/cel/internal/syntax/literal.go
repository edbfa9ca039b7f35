/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package syntax

import (
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

// AsDyn returns dyn(n), or n if it is a call of dyn already. It hides a literal from the optimizations of the planner, which
// would evaluate it by other rules than the whole expression, and from the checker, which would give it a narrower type than
// the expression that it replaces.
func AsDyn(n *Node) *Node {
	if n.Kind == CallNode && n.Name == "dyn" {
		return n
	}
	return &Node{Kind: CallNode, Name: "dyn", Type: types.DynType, Args: []*Node{n}, IsChanged: true}
}

// ErrorTerm returns an expression that always fails. Its text contains no data.
func ErrorTerm() *Node {
	missing := &Node{Kind: CallNode, Name: operators.Index, Type: types.DynType,
		Args: []*Node{{Kind: MapNode, Type: types.DynType}, Literal(types.String("error"), types.StringType)}}
	return AsDyn(missing)
}

// failing are the functions that make values of types without literals. A call with an empty string
// compiles, and fails when it is evaluated.
var failing = map[string]string{
	"kubernetes.Quantity": "quantity", "net.IP": "ip", "net.CIDR": "cidr", "kubernetes.Semver": "semver", "kubernetes.URL": "url",
}

// errorTermOf returns an expression of type t that always fails. If there is none for t, it returns ErrorTerm, which is dyn.
func errorTermOf(t *types.Type) *Node {
	if name, ok := failing[t.TypeName()]; ok {
		return Function(name, t, Literal(types.String(""), types.StringType))
	}
	zero := zeroOf(t)
	if zero == nil {
		return ErrorTerm()
	}
	missing := &Node{Kind: MapNode, Type: types.NewMapType(types.StringType, t), Args: []*Node{Literal(types.String(""), types.StringType), zero}}
	return Function(operators.Index, t, missing, Literal(types.String("error"), types.StringType))
}

// RestoreType returns an expression with the value of n and the type t, if n has become dyn and errorTermOf has an expression
// of type t; otherwise it returns n. The checker chooses overloads by the type, though a value may have another type where the
// checker has inferred t from the expression around it. The expression of type t is a fallback that is never evaluated.
func RestoreType(n *Node, t *types.Type) *Node {
	witness := errorTermOf(t)
	if !n.IsChanged || !witness.Type.IsExactType(t) || t.Kind() == types.DynKind {
		return n
	}
	held := AsDyn(Function("optional.of", types.NewOptionalType(types.DynType), AsDyn(n)))
	return &Node{Kind: CallNode, Name: "orValue", Type: t, Target: held, Args: []*Node{witness}}
}

// zeroOf returns a literal of a type, or nil if there is none.
func zeroOf(t *types.Type) *Node {
	switch t.Kind() {
	case types.BoolKind:
		return Literal(types.False, t)
	case types.IntKind:
		return Literal(types.Int(0), t)
	case types.UintKind:
		return Literal(types.Uint(0), t)
	case types.DoubleKind:
		return Literal(types.Double(0), t)
	case types.StringKind:
		return Literal(types.String(""), t)
	case types.DurationKind:
		return Function("duration", t, Literal(types.String("0s"), types.StringType))
	case types.TimestampKind:
		return Function("timestamp", t, Literal(types.String("1970-01-01T00:00:00Z"), types.StringType))
	case types.OpaqueKind:
		if t.TypeName() == "optional_type" {
			if held := zeroOf(t.Parameters()[0]); held != nil {
				return Function("optional.of", t, held)
			}
		}
	case types.ListKind:
		if element := zeroOf(t.Parameters()[0]); element != nil {
			return &Node{Kind: ListNode, Type: t, Args: []*Node{element}}
		}
	case types.MapKind:
		if key, value := zeroOf(t.Parameters()[0]), zeroOf(t.Parameters()[1]); key != nil && value != nil {
			return &Node{Kind: MapNode, Type: t, Args: []*Node{key, value}}
		}
	default:
	}
	return nil
}

// LiteralOf returns the literal of a value, or nil if there is none. The literal is wrapped in dyn() if its type
// differs from want, the type that the checker found, or if it is an empty list or map.
func LiteralOf(v ref.Val, want *types.Type) *Node {
	n := bareLiteral(v)
	if n == nil {
		return nil
	}
	//guard:literal-another-type
	if want != nil && n.Type.IsExactType(want) && !n.IsEmptyAggregate() {
		return n
	}
	return AsDyn(n)
}

func bareLiteral(v ref.Val) *Node {
	switch value := v.(type) {
	case types.Bool, types.Int, types.Uint, types.Bytes, types.Null:
		return Literal(v, v.Type().(*types.Type))
	case types.Double:
		if math.IsNaN(float64(value)) || math.IsInf(float64(value), 0) {
			text := types.String(strconv.FormatFloat(float64(value), 'g', -1, 64))
			return Function("double", types.DoubleType, Literal(text, types.StringType))
		}
		return Literal(v, types.DoubleType)
	case types.String:
		if !utf8.ValidString(string(value)) {
			return nil
		}
		return Literal(v, types.StringType)
	case types.Duration:
		// Whole seconds and nanoseconds, so that no digit is lost on the way.
		nanos := value.Nanoseconds()
		text := fmt.Sprintf("%ds%dns", nanos/1e9, (value.Duration % time.Second).Abs())
		//guard:literal-sign-duration
		if nanos < 0 && nanos > -1e9 {
			text = "-" + text
		}
		return Function("duration", types.DurationType, Literal(types.String(text), types.StringType))
	case types.Timestamp:
		//guard:literal-nanoseconds-timestamp
		text := types.String(value.UTC().Format("2006-01-02T15:04:05.999999999Z07:00"))
		return Function("timestamp", types.TimestampType, Literal(text, types.StringType))
	case *types.Optional:
		if !value.HasValue() {
			return Function("optional.none", types.NewOptionalType(types.DynType))
		}
		inner := bareLiteral(value.GetValue())
		if inner == nil {
			return nil
		}
		if inner.IsEmptyAggregate() {
			//guard:literal-optional-nothing
			inner = AsDyn(inner)
		}
		return Function("optional.of", types.NewOptionalType(inner.Type), inner)
	case traits.Lister:
		return listLiteral(value)
	case traits.Mapper:
		return mapLiteral(value)
	}
	return nil
}

func listLiteral(list traits.Lister) *Node {
	n := &Node{Kind: ListNode}
	for it := list.Iterator(); it.HasNext() == types.True; {
		element := bareLiteral(it.Next())
		if element == nil {
			return nil
		}
		n.Args = append(n.Args, element)
	}
	n.Type = types.NewListType(uniform(n.Args))
	return n
}

// mapLiteral returns the literal of a map, with sorted keys, so that equal maps have the same text.
func mapLiteral(m traits.Mapper) *Node {
	type entry struct {
		text       string
		key, value *Node
	}
	var entries []entry
	for it := m.Iterator(); it.HasNext() == types.True; {
		k := it.Next()
		key, value := bareLiteral(k), bareLiteral(m.Get(k))
		if key == nil || value == nil {
			return nil
		}
		entries = append(entries, entry{key.Text(), key, value})
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.text, b.text) })
	var keys, values []*Node
	for _, e := range entries {
		keys, values = append(keys, e.key), append(values, e.value)
	}
	n := &Node{Kind: MapNode, Type: types.NewMapType(uniform(keys), uniform(values))}
	for i := range keys {
		n.Args = append(n.Args, keys[i], values[i])
	}
	return n
}

// uniform returns the type of the elements of a literal. It makes all elements dyn if they have different
// types, because the checker demands one type.
func uniform(elements []*Node) *types.Type {
	if len(elements) == 0 {
		return types.DynType
	}
	first := elements[0].Type
	for _, e := range elements {
		//guard:uniform-types
		if !e.Type.IsExactType(first) || e.IsEmptyAggregate() {
			for i := range elements {
				elements[i] = AsDyn(elements[i])
			}
			return types.DynType
		}
	}
	return first
}

// LeastLength subtracts a lower bound of the length of the literal of a value from room. It returns how
// many parts of the value it has read, and whether there was room.
func LeastLength(v ref.Val, room *int) (parts uint64, ok bool) {
	parts, *room = 1, *room-1
	inner := func(element ref.Val) bool {
		n, ok := LeastLength(element, room)
		parts += n
		return ok
	}
	if *room < 0 {
		return parts, false
	}
	switch value := v.(type) {
	case types.String:
		*room -= len(value) + 1
	case traits.Lister:
		for it := value.Iterator(); it.HasNext() == types.True; {
			if !inner(it.Next()) {
				return parts, false
			}
		}
	case traits.Mapper:
		for it := value.Iterator(); it.HasNext() == types.True; {
			if key := it.Next(); !inner(key) || !inner(value.Get(key)) {
				return parts, false
			}
		}
	case *types.Optional:
		return parts, !value.HasValue() || inner(value.GetValue())
	}
	return parts, *room >= 0
}
