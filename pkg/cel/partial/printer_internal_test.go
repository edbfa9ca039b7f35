/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// operatorNodes makes a node of each kind of operator, whose operands are the given node.
func operatorNodes(inner *node) map[string]*node {
	nodes := map[string]*node{
		"?:": function(operators.Conditional, types.DynType, inner, inner, inner), "!": function(operators.LogicalNot, types.BoolType, inner), "-x": function(operators.Negate, types.DynType, inner),
		"[]": function(operators.Index, types.DynType, inner, inner), "[?]": function(operators.OptIndex, types.DynType, inner, inner), "f()": function("dyn", types.DynType, inner),
		"select": {kind: selectNode, name: "f", target: inner, typ: types.DynType}, "has": {kind: selectNode, name: "f", target: &node{kind: selectNode, name: "g", target: inner, typ: types.DynType}, test: true, typ: types.BoolType},
		".f()": {kind: callNode, name: "size", target: inner, typ: types.IntType}, "list": {kind: listNode, args: []*node{inner, inner}, typ: types.DynType}, "map": {kind: mapNode, args: []*node{inner, inner}, typ: types.DynType},
		"macro": {kind: macroNode, name: "map", target: inner, binders: []string{"v"}, args: []*node{inner}, typ: types.DynType}, ".?": function(operators.OptSelect, types.DynType, inner, literal(types.String("f"), types.StringType)),
	}
	for name, op := range binary {
		nodes[op.symbol] = function(name, types.DynType, inner, inner)
	}
	return nodes
}

// TestOperatorsInOperators writes every operator within every other one, and reads the text back with the parser of cel-go: it must be
// nested in the same way. The text must not have more bytes than are counted.
func TestOperatorsInOperators(t *testing.T) {
	t.Parallel()
	env := policyEnv(t)
	compared := 0
	for _, leaf := range []*node{
		{kind: variableNode, name: "object", typ: types.DynType, free: map[string]bool{"object": true}}, literal(types.Int(-1), types.IntType), literal(types.Double(math.Copysign(0, -1)), types.DoubleType), literal(types.Int(1), types.IntType),
	} {
		for innerName, inner := range operatorNodes(leaf) {
			for outerName, outer := range operatorNodes(inner) {
				if leaf.kind == constantNode && !slices.Contains([]string{"-x", "-", "!", ".f()"}, outerName) {
					continue // only a minus before a number makes a difference
				}
				text := textOf(outer)
				parsed, issues := env.Parse(text)
				if issues.Err() != nil {
					t.Errorf("%s in %s: %s: %v", innerName, outerName, text, issues.Err())
					continue
				}
				// The parser makes a tree of calls and no node. What the text is read as is written again, fully in parentheses.
				if got, want := parenthesized(parsed.NativeRep().Expr()), parenthesizedNode(outer); got != want && !strings.Contains(outerName+innerName, "&&") && !strings.Contains(outerName+innerName, "||") {
					t.Errorf("%s in %s is written as %s, which is read as %s, want %s", innerName, outerName, text, got, want)
				}
				compared++
				if got := lengthOf(outer, 10_000); got != len(text) {
					t.Errorf("%s: got the length %d, want %d", text, got, len(text))
				}
				for _, limit := range []int{0, 1, len(text) / 2, len(text) - 1, len(text)} {
					short, ok := boundedTextOf(outer, limit)
					if ok != (limit == len(text)) || len(short) > limit || !strings.HasPrefix(text, short) {
						t.Errorf("%s, within %d bytes: got %s, %t", text, limit, short, ok)
					}
				}
			}
		}
	}
	if compared < 900 {
		t.Errorf("got %d pairs of operators", compared)
	}
}

// TestFieldsAreQuoted writes fields whose names are no identifiers, or words of the language.
func TestFieldsAreQuoted(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"a": true, "_": true, "A1": true, "a_b": true, "_0": true, "if": true, "package": true, "inx": true, "": false, "0": false, "1a": false, "a-b": false, "a.b": false, "a b": false, "ä": false, "aä": false,
		"in": false, "true": false, "false": false, "null": false, "a/b": false, "a\n": false,
	} {
		n := &node{kind: selectNode, name: name, target: &node{kind: variableNode, name: "x"}}
		if got, text := isIdentifier(name), textOf(n); got != want || text != map[bool]string{true: "x." + name, false: "x.`" + name + "`"}[want] {
			t.Errorf("%q: is an identifier %t, want %t, and is written as %s", name, got, want, text)
		}
	}
}

// TestTextsThatAreOmitted writes what has a part that is too long for any text: it is longer than any limit.
func TestTextsThatAreOmitted(t *testing.T) {
	t.Parallel()
	whole := function(operators.Equals, types.BoolType, &node{kind: variableNode, name: "x"}, omitted(types.DynType))
	for _, limit := range []int{0, 10, 10_240, math.MaxInt - 1} {
		if text, ok := boundedTextOf(whole, limit); ok {
			t.Errorf("within %d bytes: got %s", limit, text)
		}
		if got := lengthOf(whole, limit); got <= limit {
			t.Errorf("within %d bytes: got the length %d", limit, got)
		}
	}
	// A value that has no literal must not be read as another one.
	if text := textOf(literal(types.IntType, types.DynType)); !strings.HasPrefix(text, "<") {
		t.Errorf("got %s for a type", text)
	}
}

// TestChainsKeepTheirNesting writes chains of one operator that are nested in every way, and reads them back.
func TestChainsKeepTheirNesting(t *testing.T) {
	t.Parallel()
	env := policyEnv(t)
	leaf := func(i int) *node { return &node{kind: variableNode, name: fmt.Sprintf("v%d", i)} }
	var nestings func(from, to int) []*node
	nestings = func(from, to int) (all []*node) {
		if to-from == 1 {
			return []*node{leaf(from)}
		}
		for split := from + 1; split < to; split++ {
			for _, left := range nestings(from, split) {
				for _, right := range nestings(split, to) {
					all = append(all, function(operators.LogicalAnd, types.BoolType, left, right))
				}
			}
		}
		return all
	}
	for terms := 2; terms <= 6; terms++ {
		balanced := 0
		for _, n := range nestings(0, terms) {
			text := exactTextOf(n)
			parsed, issues := env.Parse(text)
			if issues.Err() != nil {
				t.Fatalf("%s: %v", text, issues.Err())
			}
			if got, want := parenthesized(parsed.NativeRep().Expr()), parenthesizedNode(n); got != want {
				t.Errorf("%s is read as %s, want %s", text, got, want)
			}
			if !strings.Contains(text, "(") {
				balanced++
			}
			if plain := textOf(n); strings.Contains(plain, "(") {
				t.Errorf("got %s, want no parentheses where the nesting does not matter", plain)
			}
		}
		if balanced != 1 {
			t.Errorf("%d terms: %d nestings are written without parentheses, want the one of the parser", terms, balanced)
		}
	}
}
