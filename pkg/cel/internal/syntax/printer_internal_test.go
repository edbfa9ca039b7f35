/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package syntax

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// operatorNodes makes a node of each kind of operator, whose operands are the given node.
func operatorNodes(inner *Node) map[string]*Node {
	nodes := map[string]*Node{
		"?:": Function(operators.Conditional, types.DynType, inner, inner, inner), "!": Function(operators.LogicalNot, types.BoolType, inner), "-x": Function(operators.Negate, types.DynType, inner),
		"[]": Function(operators.Index, types.DynType, inner, inner), "[?]": Function(operators.OptIndex, types.DynType, inner, inner), "f()": Function("dyn", types.DynType, inner),
		"select": {Kind: SelectNode, Name: "f", Target: inner, Type: types.DynType}, "has": {Kind: SelectNode, Name: "f", Target: &Node{Kind: SelectNode, Name: "g", Target: inner, Type: types.DynType}, IsTest: true, Type: types.BoolType},
		".f()": {Kind: CallNode, Name: "size", Target: inner, Type: types.IntType}, "list": {Kind: ListNode, Args: []*Node{inner, inner}, Type: types.DynType}, "map": {Kind: MapNode, Args: []*Node{inner, inner}, Type: types.DynType},
		"macro": {Kind: MacroNode, Name: "map", Target: inner, Binders: []string{"v"}, Args: []*Node{inner}, Type: types.DynType}, ".?": Function(operators.OptSelect, types.DynType, inner, Literal(types.String("f"), types.StringType)),
	}
	for symbol, name := range map[string]string{
		"||": operators.LogicalOr, "&&": operators.LogicalAnd, "==": operators.Equals, "!=": operators.NotEquals, "in": operators.In, "<": operators.Less, "<=": operators.LessEquals,
		">": operators.Greater, ">=": operators.GreaterEquals, "+": operators.Add, "-": operators.Subtract, "*": operators.Multiply, "/": operators.Divide, "%": operators.Modulo,
	} {
		nodes[symbol] = Function(name, types.DynType, inner, inner)
	}
	return nodes
}

// TestOperatorsInOperators writes every operator within every other one, and reads the text back with the parser of cel-go: it must be
// nested in the same way. The text must not have more bytes than are counted.
func TestOperatorsInOperators(t *testing.T) {
	t.Parallel()
	env := policyEnv(t)
	compared := 0
	for _, leaf := range []*Node{
		{Kind: VariableNode, Name: "object", Type: types.DynType, Free: sets.New("object")}, Literal(types.Int(-1), types.IntType), Literal(types.Double(math.Copysign(0, -1)), types.DoubleType), Literal(types.Int(1), types.IntType),
	} {
		for innerName, inner := range operatorNodes(leaf) {
			for outerName, outer := range operatorNodes(inner) {
				if leaf.Kind == ConstantNode && !slices.Contains([]string{"-x", "-", "!", ".f()"}, outerName) {
					continue // only a minus before a number makes a difference
				}
				text := outer.Text()
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
				if got := outer.Length(10_000); got != len(text) {
					t.Errorf("%s: got the length %d, want %d", text, got, len(text))
				}
				for _, limit := range []int{0, 1, len(text) / 2, len(text) - 1, len(text)} {
					short, ok := outer.BoundedText(limit)
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
		n := &Node{Kind: SelectNode, Name: name, Target: &Node{Kind: VariableNode, Name: "x"}}
		if got, text := IsIdentifier(name), n.Text(); got != want || text != map[bool]string{true: "x." + name, false: "x.`" + name + "`"}[want] {
			t.Errorf("%q: is an identifier %t, want %t, and is written as %s", name, got, want, text)
		}
	}
}

// TestTextsThatAreOmitted writes what has a part that is too long for any text: it is longer than any limit.
func TestTextsThatAreOmitted(t *testing.T) {
	t.Parallel()
	whole := Function(operators.Equals, types.BoolType, &Node{Kind: VariableNode, Name: "x"}, Omitted(types.DynType))
	for _, limit := range []int{0, 10, 10_240, math.MaxInt - 1} {
		if text, ok := whole.BoundedText(limit); ok {
			t.Errorf("within %d bytes: got %s", limit, text)
		}
		if got := whole.Length(limit); got <= limit {
			t.Errorf("within %d bytes: got the length %d", limit, got)
		}
	}
	// A value that has no literal must not be read as another one.
	if text := Literal(types.IntType, types.DynType).Text(); !strings.HasPrefix(text, "<") {
		t.Errorf("got %s for a type", text)
	}
}

// TestChainsKeepTheirNesting writes chains of one operator that are nested in every way, and reads them back.
func TestChainsKeepTheirNesting(t *testing.T) {
	t.Parallel()
	env := policyEnv(t)
	leaf := func(i int) *Node { return &Node{Kind: VariableNode, Name: fmt.Sprintf("v%d", i)} }
	var nestings func(from, to int) []*Node
	nestings = func(from, to int) (all []*Node) {
		if to-from == 1 {
			return []*Node{leaf(from)}
		}
		for split := from + 1; split < to; split++ {
			for _, left := range nestings(from, split) {
				for _, right := range nestings(split, to) {
					all = append(all, Function(operators.LogicalAnd, types.BoolType, left, right))
				}
			}
		}
		return all
	}
	for terms := 2; terms <= 6; terms++ {
		balanced := 0
		for _, n := range nestings(0, terms) {
			text := n.ExactText()
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
			if plain := n.Text(); strings.Contains(plain, "(") {
				t.Errorf("got %s, want no parentheses where the nesting does not matter", plain)
			}
		}
		if balanced != 1 {
			t.Errorf("%d terms: %d nestings are written without parentheses, want the one of the parser", terms, balanced)
		}
	}
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
func parenthesizedNode(n *Node) string {
	all := func(nodes ...*Node) string {
		parts := make([]string, 0, len(nodes))
		for _, n := range nodes {
			parts = append(parts, parenthesizedNode(n))
		}
		return "(" + strings.Join(parts, " ") + ")"
	}
	switch n.Kind {
	case ConstantNode:
		return fmt.Sprintf("%v:%v", n.Value.Value(), n.Value.Type())
	case VariableNode:
		return n.Name
	case SelectNode:
		return fmt.Sprintf("select%t%s%s", n.IsTest, n.Name, all(n.Target))
	case CallNode:
		if n.Target != nil {
			return n.Name + "." + all(append([]*Node{n.Target}, n.Args...)...)
		}
		return n.Name + all(n.Args...)
	case ListNode:
		return "list" + all(n.Args...)
	case MapNode:
		return "map" + all(n.Args...)
	case MacroNode:
		return "macro" + all(n.Target, n.Args[0])
	default:
		return types.ErrType.TypeName()
	}
}

// randomText writes an expression in which every operator has parentheses around it, so that it is known how it is nested.
func randomText(r *rand.Rand, depth int) string {
	atoms := []string{
		"object.a", "object.b.c", "object.`a-b`", `dyn("x")`, `dyn("a\n\"b\\")`, "dyn(1)", "dyn(-1)", "dyn(2.5)", "dyn(-0.0)", "dyn(3u)", "dyn(true)", "dyn(null)",
		"has(object.x)", "object.l[0]", "object.?a.orValue(1)", "object.l.all(x, x == 1)", "[object.a, ?object.?b]", `{"k": object.a, ?"l": object.?b}`, "object.s.size()",
	}
	if depth == 0 || r.IntN(6) == 0 {
		return atoms[r.IntN(len(atoms))]
	}
	operand := func() string { return randomText(r, depth-1) }
	switch r.IntN(8) {
	case 0:
		return "(dyn(" + operand() + ") ? dyn(" + operand() + ") : dyn(" + operand() + "))"
	case 1:
		return "(!dyn(" + operand() + "))"
	case 2:
		return "(-dyn(" + operand() + "))"
	case 3:
		return "dyn(" + operand() + ")[object.k]"
	default:
		binary := []string{"||", "&&", "==", "!=", "<", "<=", ">", ">=", "in", "+", "-", "*", "/", "%"}
		return "(dyn(" + operand() + ") " + binary[r.IntN(len(binary))] + " dyn(" + operand() + "))"
	}
}

// withoutDyn removes the calls of dyn that let the checker accept every operand, and would keep operators apart.
func withoutDyn(n *Node) *Node {
	if n.Kind == CallNode && n.Name == "dyn" && n.Args[0].Kind != ConstantNode {
		return withoutDyn(n.Args[0])
	}
	c := *n
	if c.Target != nil {
		c.Target = withoutDyn(c.Target)
	}
	c.Args = nil
	for _, arg := range n.Args {
		c.Args = append(c.Args, withoutDyn(arg))
	}
	return &c
}

// shape writes how a tree is nested, without types.
func shape(n *Node) string {
	if n == nil {
		return "-"
	}
	parts := []string{fmt.Sprint(n.Kind, " ", n.Name, " ", n.IsTest, " ", n.Binders, " ", n.Optional, " ", n.Value), shape(n.Target)}
	for _, arg := range n.Args {
		parts = append(parts, shape(arg))
	}
	return "(" + strings.Join(parts, " ") + ")"
}

// TestTextsAreReadBack prints random trees of all operators with as few parentheses as the printer leaves, and parses the text: it must be nested as the
// Tree is. Texts of residuals go to other servers, where other nesting would be another condition.
func TestTextsAreReadBack(t *testing.T) {
	t.Parallel()
	treeOf := trees(t)
	compared := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 6)) //nolint:gosec // a test must be repeatable
		text := "[" + randomText(r, 1+r.IntN(3)) + "] == dyn([])"
		read, err := treeOf(text)
		if err != nil {
			t.Fatalf("seed %d: %v:\n%s", seed, err, text)
		}
		tree := withoutDyn(read)
		printed := tree.ExactText()
		again, err := treeOf(printed)
		if err != nil {
			if strings.Contains(err.Error(), "no matching overload") || strings.Contains(err.Error(), "expected type") {
				continue // without dyn, the types do not fit
			}
			t.Fatalf("seed %d: %v:\n%s\nfrom\n%s", seed, err, printed, text)
		}
		if got, want := shape(withoutDyn(again)), shape(tree); got != want {
			t.Fatalf("seed %d: printed as\n%s\nfrom\n%s\ngot  %s\nwant %s", seed, printed, text, got, want)
		}
		compared++
		checkBounds(t, read)
	}
	if compared < 150 {
		t.Errorf("only %d texts were compared", compared)
	}
}

// checkBounds prints a tree into as many bytes as it needs, and into fewer.
func checkBounds(t *testing.T, tree *Node) {
	t.Helper()
	whole := tree.Text()
	for _, limit := range []int{0, 1, len(whole) / 2, len(whole) - 1, len(whole), len(whole) + 1} {
		text, ok := tree.BoundedText(limit)
		if fits := len(whole) <= limit; ok != fits || ok && text != whole || len(text) > limit || !strings.HasPrefix(whole, text) {
			t.Errorf("%d bytes of %q: got %q, %v", limit, whole, text, ok)
		}
		if length := tree.Length(limit); length != len(whole) && (length <= limit || len(whole) <= limit) {
			t.Errorf("%d bytes of %q: counted %d", limit, whole, length)
		}
	}
}

// TestNamesOfFields tells identifiers, which a path has as they are, from names that need quotes.
func TestNamesOfFields(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"a": true, "_": true, "a1": true, "A_b": true, "In": true, "trueish": true,
		"": false, "1a": false, "a-b": false, "a.b": false, "ä": false, "a b": false, "in": false, "true": false, "false": false, "null": false, "a`": false,
	} {
		if got := IsIdentifier(name); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}

// TestOmittedPartsHaveNoText prints a residual without a part that was too large.
func TestOmittedPartsHaveNoText(t *testing.T) {
	t.Parallel()
	omitted := &Node{Kind: OmittedNode}
	constant := &Node{Kind: ConstantNode, Value: types.True}
	for name, n := range map[string]*Node{
		"alone": omitted, "in a list": {Kind: ListNode, Args: []*Node{constant, omitted}}, "as a target": {Kind: SelectNode, Target: omitted, Name: "a"},
		"in a macro":                         {Kind: MacroNode, Name: "all", Target: constant, Binders: []string{"x"}, Args: []*Node{omitted}},
		"a value of a type without literals": {Kind: ListNode, Args: []*Node{omitted, {Kind: ConstantNode, Value: types.BoolType}}},
	} {
		if text, ok := n.BoundedText(cel.MaxExpressionBytes); ok {
			t.Errorf("%s: got %q", name, text)
		}
		if got := n.Length(cel.MaxExpressionBytes); got <= cel.MaxExpressionBytes {
			t.Errorf("%s: counted %d bytes", name, got)
		}
	}
}
