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

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/proviso-authz/proviso/pkg/cel"
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
	for symbol, name := range map[string]string{
		"||": operators.LogicalOr, "&&": operators.LogicalAnd, "==": operators.Equals, "!=": operators.NotEquals, "in": operators.In, "<": operators.Less, "<=": operators.LessEquals,
		">": operators.Greater, ">=": operators.GreaterEquals, "+": operators.Add, "-": operators.Subtract, "*": operators.Multiply, "/": operators.Divide, "%": operators.Modulo,
	} {
		nodes[symbol] = function(name, types.DynType, inner, inner)
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
		{kind: variableNode, name: "object", typ: types.DynType, free: sets.New("object")}, literal(types.Int(-1), types.IntType), literal(types.Double(math.Copysign(0, -1)), types.DoubleType), literal(types.Int(1), types.IntType),
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

// forgetUnchanged makes a plan evaluate the steps that it would leave as they are.
func (s *step) forgetUnchanged() (unchanged uint64) {
	if s == nil {
		return 0
	}
	unchanged, s.unchanged = s.unchanged, 0
	unchanged += s.target.forgetUnchanged()
	for _, group := range [][]*step{s.args, s.unrolled} {
		for _, operand := range group {
			unchanged += operand.forgetUnchanged()
		}
	}
	return unchanged
}

// compilerForTest returns a compiler of policies.
func compilerForTest(tb testing.TB) *Compiler {
	tb.Helper()
	conditions, err := cel.NewCompiler()
	if err != nil {
		tb.Fatal(err)
	}
	compiler, err := NewPolicyCompiler(conditions)
	if err != nil {
		tb.Fatal(err)
	}
	return compiler
}

// TestUnchangedStepsAreEvaluatedToThemselves checks that an unchanged step has the same result, at the
// same cost, as its evaluation.
func TestUnchangedStepsAreEvaluatedToThemselves(t *testing.T) {
	t.Parallel()
	compiler := compilerForTest(t)
	values := cel.Values{cel.Request: cel.Known(map[string]any{"name": "n", "namespace": "ns", "userInfo": map[string]any{"groups": []any{"a", "b"}}})}
	for _, tc := range []struct {
		expression string
		unchanged  bool
	}{
		{expression: `object.spec.size < 10 && request.name == "n"`, unchanged: true},
		{expression: `has(object.spec) && object.metadata.labels["a"].startsWith("b") && request.name == "n"`, unchanged: true},
		{expression: `operation == "CREATE" || object == oldObject || dryRun`, unchanged: true},
		{expression: `object.items.all(i, i.size < 3 && object.spec.size > 2)`, unchanged: true},
		{expression: `request.userInfo.groups.all(g, object.spec.name.contains("x") && g == object.spec.group)`, unchanged: true},
		{expression: `request.userInfo.groups.map(g, g).exists(g, g == object.spec.group)`, unchanged: true},
		{expression: `(request.name == "x" ? object.a : object.b.c) == 1`, unchanged: true},
		{expression: `object.?a.?b.orValue("x") == request.name`, unchanged: true},
		{expression: `object.?a.or(object.?b).orValue(request.name) == "n"`, unchanged: true},
		{expression: `object.a in [1, 2] && object.b in []`, unchanged: true},
		{expression: `(object.a == 1 && false) || (object.b ? object.c : object.d) == request.name`, unchanged: true},
		{expression: `-object.a == 1 && !(object.b == -2)`, unchanged: true},
		{expression: `object.a == quantity("1") || quantity(object.a).isGreaterThan(quantity("2"))`, unchanged: true},
		{expression: `object.a / 0 == 1 || [dyn(object.a), dyn(2)].exists(x, x == request.name.size())`, unchanged: true},
		{expression: `namespaceObject.metadata.name == object.metadata.namespace`, unchanged: true},
		{expression: `type(object.a) == string`, unchanged: true},
		{expression: `authorizer.group("").resource("pods").check("get").allowed()`, unchanged: true},
		{expression: `request.name == "n"`, unchanged: false},
	} {
		t.Run(tc.expression, func(t *testing.T) {
			t.Parallel()
			expression, err := compiler.Compile(tc.expression)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := expression.Plan(cel.Request)
			if err != nil {
				t.Fatal(err)
			}
			got, gotCost := cameTo(t, plan, values)
			if unchanged := plan.root.forgetUnchanged(); (unchanged > 0) != tc.unchanged {
				t.Errorf("%d steps are unchanged", unchanged)
			}
			if want, wantCost := cameTo(t, plan, values); got != want || gotCost != wantCost {
				t.Errorf("got %s for %d, want %s for %d", got, gotCost, want, wantCost)
			}
		})
	}
}

func cameTo(t *testing.T, plan *Plan, values cel.Values) (string, uint64) {
	t.Helper()
	outcome := plan.Eval(t.Context(), values)
	switch {
	case outcome.Residual() != nil:
		text, err := outcome.Residual().Text()
		if err != nil {
			t.Fatal(err)
		}
		return text, outcome.Cost()
	case outcome.Err() != nil:
		return outcome.Err().Error(), outcome.Cost()
	case outcome.IsTrue():
		return "true", outcome.Cost()
	}
	return "false", outcome.Cost()
}

// parenthesized writes a parsed expression with all calls in prefix form, so that nothing about its nesting is left open.
func parenthesized(e ast.Expr) string {
	all := func(exprs ...ast.Expr) string {
		parts := make([]string, 0, len(exprs))
		for _, e := range exprs {
			parts = append(parts, parenthesized(e))
		}
		return "(" + strings.Join(parts, " ") + ")"
	}
	switch e.Kind() {
	case ast.LiteralKind:
		return fmt.Sprintf("%v:%v", e.AsLiteral().Value(), e.AsLiteral().Type())
	case ast.IdentKind:
		return e.AsIdent()
	case ast.SelectKind:
		return fmt.Sprintf("select%t%s%s", e.AsSelect().IsTestOnly(), e.AsSelect().FieldName(), all(e.AsSelect().Operand()))
	case ast.CallKind:
		if e.AsCall().IsMemberFunction() {
			return e.AsCall().FunctionName() + "." + all(append([]ast.Expr{e.AsCall().Target()}, e.AsCall().Args()...)...)
		}
		return e.AsCall().FunctionName() + all(e.AsCall().Args()...)
	case ast.ListKind:
		return "list" + all(e.AsList().Elements()...)
	case ast.MapKind:
		var parts []ast.Expr
		for _, entry := range e.AsMap().Entries() {
			parts = append(parts, entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
		return "map" + all(parts...)
	case ast.ComprehensionKind: // of a macro map with one body, whose element is added to a list
		c := e.AsComprehension()
		return "macro" + all(c.IterRange(), c.LoopStep().AsCall().Args()[1].AsList().Elements()[0])
	default:
		return "?"
	}
}

// parenthesizedNode writes a node as parenthesized writes what it is to be read as.
func parenthesizedNode(n *node) string {
	all := func(nodes ...*node) string {
		parts := make([]string, 0, len(nodes))
		for _, n := range nodes {
			parts = append(parts, parenthesizedNode(n))
		}
		return "(" + strings.Join(parts, " ") + ")"
	}
	switch n.kind {
	case constantNode:
		return fmt.Sprintf("%v:%v", n.value.Value(), n.value.Type())
	case variableNode:
		return n.name
	case selectNode:
		return fmt.Sprintf("select%t%s%s", n.test, n.name, all(n.target))
	case callNode:
		if n.target != nil {
			return n.name + "." + all(append([]*node{n.target}, n.args...)...)
		}
		return n.name + all(n.args...)
	case listNode:
		return "list" + all(n.args...)
	case mapNode:
		return "map" + all(n.args...)
	case macroNode:
		return "macro" + all(n.target, n.args[0])
	default:
		return types.ErrType.TypeName()
	}
}

// readKey counts how often its value is read.
type readKey struct {
	types.String
	reads *int
}

func (k readKey) Value() any {
	*k.reads++
	return k.String.Value()
}

// TestKeysAreReadOnce sorts keys. Each must be printed once, not once for each comparison.
func TestKeysAreReadOnce(t *testing.T) {
	t.Parallel()
	const n = 100
	reads, all := 0, map[ref.Val]ref.Val{}
	for i := range n {
		all[readKey{types.String(fmt.Sprintf("%03d", n-i)), &reads}] = types.True
	}
	keys := sortedKeys(types.DefaultTypeAdapter.NativeToValue(all).(traits.Mapper))
	if reads != n || len(keys) != n {
		t.Errorf("got %d reads of %d keys, want one of each of %d", reads, len(keys), n)
	}
	for i, key := range keys {
		if want := fmt.Sprintf("%03d", i+1); key.Value() != want {
			t.Errorf("got %v at place %d, want %s", key.Value(), i, want)
		}
	}
}
