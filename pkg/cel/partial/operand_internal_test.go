/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"testing"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/proviso-authz/proviso/pkg/cel/internal/syntax"
)

// TestHiddenFromThePlanner lists the places in which a literal must not be a constant to the planner.
func TestHiddenFromThePlanner(t *testing.T) {
	t.Parallel()
	text, number := syntax.Literal(types.String("a"), types.StringType), syntax.Literal(types.Int(1), types.IntType)
	of := func(elements ...*syntax.Node) *syntax.Node {
		return &syntax.Node{Kind: syntax.ListNode, Type: types.NewListType(elements[0].Type), Args: elements}
	}
	for _, tc := range []struct {
		name, function string
		argument       int
		n              *syntax.Node
		want           string
	}{
		{name: "an operand of ==", function: operators.Equals, argument: 0, n: text, want: `"a"`},
		{name: "a constant key", function: operators.Index, argument: 1, n: text, want: `"a"`},
		{name: "a key that is a list", function: operators.Index, argument: 1, n: of(text), want: `[["a"]][0]`},
		{name: "a key of an optional index that is a list", function: operators.OptIndex, argument: 1, n: of(text), want: `[["a"]][0]`},
		{name: "a list that is indexed", function: operators.Index, argument: 0, n: of(text), want: `["a"]`},
		{name: "a list of texts beside in", function: operators.In, argument: 1, n: of(text, text), want: `["a", "a"]`},
		{name: "a list of numbers beside in", function: operators.In, argument: 1, n: of(number), want: `dyn([1])`},
		{name: "a list of doubles beside in", function: operators.In, argument: 1, n: of(syntax.Literal(types.Double(1), types.DoubleType)), want: `dyn([1.0])`},
		{name: "a list of numbers without sign beside in", function: operators.In, argument: 1, n: of(syntax.Literal(types.Uint(1), types.UintType)), want: `dyn([1u])`},
		{name: "a list of several types beside in", function: operators.In, argument: 1, n: of(syntax.AsDyn(text), syntax.AsDyn(syntax.Literal(types.Double(1), types.DoubleType))), want: `dyn([dyn("a"), dyn(1.0)])`},
		{name: "a list that is looked for", function: operators.In, argument: 0, n: of(number), want: `[1]`},
		{name: "a map beside in", function: operators.In, argument: 1, n: &syntax.Node{Kind: syntax.MapNode, Args: []*syntax.Node{number, text}}, want: `{1: "a"}`},
		{name: "a pattern", function: "matches", argument: 0, n: text, want: `["a"][0]`},
		{name: "a format", function: "format", argument: -1, n: text, want: `["a"][0]`},
		{name: "another function", function: "startsWith", argument: 0, n: text, want: `"a"`},
	} {
		if got := hideFromPlanner(tc.function, tc.argument, tc.n).Text(); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
	for name := range sets.New("bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint", "find", "findAll") {
		if got := hideFromPlanner(name, 0, text).Text(); got != `["a"][0]` {
			t.Errorf("an argument of %s: got %s", name, got)
		}
	}
}
