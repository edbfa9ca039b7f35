/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"

	"github.com/proviso-authz/proviso/pkg/cel"
)

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
func withoutDyn(n *node) *node {
	if n.kind == callNode && n.name == "dyn" && n.args[0].kind != constantNode {
		return withoutDyn(n.args[0])
	}
	c := *n
	if c.target != nil {
		c.target = withoutDyn(c.target)
	}
	c.args = nil
	for _, arg := range n.args {
		c.args = append(c.args, withoutDyn(arg))
	}
	return &c
}

// shape writes how a tree is nested, without types.
func shape(n *node) string {
	if n == nil {
		return "-"
	}
	parts := []string{fmt.Sprint(n.kind, " ", n.name, " ", n.test, " ", n.binders, " ", n.optional, " ", n.value), shape(n.target)}
	for _, arg := range n.args {
		parts = append(parts, shape(arg))
	}
	return "(" + strings.Join(parts, " ") + ")"
}

// TestTextsAreReadBack prints random trees of all operators with as few parentheses as the printer leaves, and parses the text: it must be nested as the
// tree is. Texts of residuals go to other servers, where other nesting would be another condition.
func TestTextsAreReadBack(t *testing.T) {
	t.Parallel()
	compiler := compilerForTest(t)
	compared := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 6)) //nolint:gosec // a test must be repeatable
		text := "[" + randomText(r, 1+r.IntN(3)) + "] == dyn([])"
		e, err := compiler.Compile(text)
		if err != nil {
			t.Fatalf("seed %d: %v:\n%s", seed, err, text)
		}
		tree := withoutDyn(e.tree)
		printed := exactTextOf(tree)
		again, err := compiler.Compile(printed)
		if err != nil {
			if strings.Contains(err.Error(), "no matching overload") || strings.Contains(err.Error(), "expected type") {
				continue // without dyn, the types do not fit
			}
			t.Fatalf("seed %d: %v:\n%s\nfrom\n%s", seed, err, printed, text)
		}
		if got, want := shape(withoutDyn(again.tree)), shape(tree); got != want {
			t.Fatalf("seed %d: printed as\n%s\nfrom\n%s\ngot  %s\nwant %s", seed, printed, text, got, want)
		}
		compared++
		checkBounds(t, e.tree)
	}
	if compared < 150 {
		t.Errorf("only %d texts were compared", compared)
	}
}

// checkBounds prints a tree into as many bytes as it needs, and into fewer.
func checkBounds(t *testing.T, tree *node) {
	t.Helper()
	whole := textOf(tree)
	for _, limit := range []int{0, 1, len(whole) / 2, len(whole) - 1, len(whole), len(whole) + 1} {
		text, ok := boundedTextOf(tree, limit)
		if fits := len(whole) <= limit; ok != fits || ok && text != whole || len(text) > limit || !strings.HasPrefix(whole, text) {
			t.Errorf("%d bytes of %q: got %q, %v", limit, whole, text, ok)
		}
		if length := lengthOf(tree, limit); length != len(whole) && (length <= limit || len(whole) <= limit) {
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
		if got := isIdentifier(name); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}

// TestOmittedPartsHaveNoText prints a residual of which a part was left out because it was too large.
func TestOmittedPartsHaveNoText(t *testing.T) {
	t.Parallel()
	omitted := &node{kind: omittedNode}
	constant := &node{kind: constantNode, value: types.True}
	for name, n := range map[string]*node{
		"alone": omitted, "in a list": {kind: listNode, args: []*node{constant, omitted}}, "as a target": {kind: selectNode, target: omitted, name: "a"},
		"in a macro":                         {kind: macroNode, name: "all", target: constant, binders: []string{"x"}, args: []*node{omitted}},
		"a value of a type without literals": {kind: listNode, args: []*node{omitted, {kind: constantNode, value: types.BoolType}}},
	} {
		if text, ok := boundedTextOf(n, cel.MaxExpressionBytes); ok {
			t.Errorf("%s: got %q", name, text)
		}
		if got := lengthOf(n, cel.MaxExpressionBytes); got <= cel.MaxExpressionBytes {
			t.Errorf("%s: counted %d bytes", name, got)
		}
	}
}
