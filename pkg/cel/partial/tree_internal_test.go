/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// refusedMacros are macros of the environment that policies cannot use, each for a reason
// that is beside the table of those that they can.
var refusedMacros = map[string]bool{"sortBy:2": true}

// TestMacrosAreKnown fails when a new version of the libraries brings a macro of which it
// has not been decided what it binds.
func TestMacrosAreKnown(t *testing.T) {
	t.Parallel()
	environment, err := cel.NewPolicyEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, m := range environment.Engine().Env.Macros() {
		key := fmt.Sprintf("%s:%d", m.Function(), m.ArgCount())
		found[key] = true
		if _, ok := macros[key]; !ok && !refusedMacros[key] && m.Function() != operators.Has {
			t.Errorf("the macro %s is neither supported nor refused", key)
		}
	}
	for key := range macros {
		if !found[key] {
			t.Errorf("the macro %s is supported, but does not exist", key)
		}
	}
}

// TestIsBool has expressions that the checker takes for a bool, because && and || need one. Only those that cannot have another value may be left alone
// when true && or false || before them is left out: otherwise a residual could be a number, which no && accepts.
func TestIsBool(t *testing.T) {
	t.Parallel()
	compiler := compilerForTest(t)
	for text, want := range map[string]bool{
		`true`: true, `1`: false, `"true"`: false, `null`: false, `[true]`: false, `{"a": true}`: false,
		`object`: false, `object.a`: false, `has(object.a)`: true, `dyn(true)`: false, `request.name`: false,
		`object.a == 1`: true, `object.a != 1`: true, `object.a < 1`: true, `object.a in [1]`: true, `object.a + 1`: false,
		`!object.a`: true, `object.a && object.b`: true, `object.a || object.b`: true,
		`object.a ? true : false`: true, `object.a ? object.b : false`: false, `object.a ? true : object.b`: false, `object.a ? object.b == 1 : has(object.c)`: true,
		`object.a[0]`: false, `object.?a.orValue(true)`: false, `object.?a.hasValue()`: true,
		`object.a.startsWith("x")`: true, `object.a.matches("x")`: true, `object.a.size()`: false, `string(object.a)`: false, `bool(object.a)`: true,
		`object.l.all(x, x)`: true, `object.l.exists(x, x)`: true, `object.l.exists_one(x, x)`: true, `object.l.all(i, x, x)`: true, `object.l.existsOne(i, x, x)`: true,
		`object.l.map(x, true)`: false, `object.l.filter(x, x)`: false, `object.?a.optMap(x, true).orValue(true)`: false,
		`authorizer.path("/a").check("get").allowed()`: true, `authorizer.path("/a").check("get").reason()`: false,
	} {
		e, err := compiler.Compile("[" + text + "] == dyn([])")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := e.tree.args[0].args[0].isBool(); got != want {
			t.Errorf("%s: always a bool: %v, want %v", text, got, want)
		}
	}
}

// TestVariablesOfNodes has macros that bind variables. What a node depends on decides whether it is evaluated while the request is known only.
func TestVariablesOfNodes(t *testing.T) {
	t.Parallel()
	compiler := compilerForTest(t)
	for _, tc := range []struct {
		text string
		want string
		body string // what the body of the macro depends on, if there is one
	}{
		{text: `true`},
		{text: `object == oldObject`, want: "object oldObject"},
		{text: `type(object) == int`, want: "object"},
		{text: `[1].all(x, x == 1)`, body: "x"},
		{text: `object.l.all(x, x == request.name)`, want: "object request", body: "request x"},
		{text: `[1].all(x, [x].all(y, x == y && object.a == 1))`, want: "object", body: "object x"},
		{text: `object.l.all(x, oldObject.l.all(y, x == y))`, want: "object oldObject", body: "oldObject x"},
		{text: `object.m.all(k, v, k == v)`, want: "object", body: "k v"},
		{text: `object.m.all(k, v, k == "a")`, want: "object", body: "k"},
		{text: `{"k": object.a}.all(k, options.a == 1)`, want: "object options", body: "options"},
	} {
		e, err := compiler.Compile(tc.text)
		if err != nil {
			t.Errorf("%s: %v", tc.text, err)
			continue
		}
		names := func(n *node) string { return strings.Join(slices.Sorted(maps.Keys(n.free)), " ") }
		if got := names(e.tree); got != tc.want {
			t.Errorf("%s: depends on %q, want %q", tc.text, got, tc.want)
		}
		if tc.body != "" {
			if got := names(e.tree.args[0]); e.tree.kind != macroNode || got != tc.body {
				t.Errorf("%s: the body depends on %q, want %q", tc.text, got, tc.body)
			}
		}
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

// TestOmittedPartsHaveNoText prints a residual without a part that was too large.
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

// operandTexts are expressions with everything in them that could be taken for a && at the top, or for the end of something.
var operandTexts = []string{
	`object.a == 1`, `object.b == "x && y"`, `object.c == 'it\'s // no comment'`, `object.d in ["a && b", "(c"]`, `object.e.all(x, x.f && x.g)`,
	`!(object.h && object.i)`, "object.`j //k` == 1", `object.?l.orValue(1) == 1`, `object.r == r"\"`, `object.s == """a "&&" (b"""`, `object.u == R'\' || true == false`,
	`has(object.t)`, `object.m || object.n`, `object.o ? object.p == 1 : object.q && true`, `object.v == {"a)": "b"}`, `object.w == '''it's'''`,
	`variables.one`, `variables.both`, `variables.either`,
}

// TestPartsAreWhatIsEvaluated joins operands at random, with white space, comments and parentheses between them. The text of each part must compile to
// the node that is evaluated for it: otherwise a refusal would show a part of the condition that does not refuse.
func TestPartsAreWhatIsEvaluated(t *testing.T) {
	t.Parallel()
	compiler := compilerForTest(t)
	variables := []cel.NamedExpression{
		{Name: "one", Expression: `object.one == 1`}, {Name: "both", Expression: "(object.x == 1 // &&\n && variables.one)"}, {Name: "either", Expression: `object.x || object.y && object.z`},
	}
	joints := []string{" && ", "&&", "\n\t&& ", " && // a note && (more\n", " // \"\n&&\r\n"}
	seen, alone := 0, map[string]*Expression{}
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 5)) //nolint:gosec // a test must be repeatable
		var write func(depth int) (text string, parts int)
		write = func(depth int) (string, int) {
			if depth == 0 || r.IntN(3) == 0 {
				operand := operandTexts[r.IntN(len(operandTexts))]
				parts := 1
				if operand == "variables.both" {
					parts = 2
				}
				return "(" + operand + ")", parts
			}
			text, parts := write(depth - 1)
			for range r.IntN(3) {
				more, n := write(depth - 1)
				text, parts = text+joints[r.IntN(len(joints))]+more, parts+n
			}
			if r.IntN(2) == 0 {
				text = "( " + text + "\n)"
			}
			return text, parts
		}
		text, want := write(3)
		e, err := compiler.CompileWithVariables(variables, text)
		if err != nil {
			t.Fatalf("seed %d: %v:\n%s", seed, err, text)
		}
		parts := e.Parts()
		if len(parts) != want {
			t.Fatalf("seed %d: got %d parts, want %d, of\n%s", seed, len(parts), want, text)
		}
		for i, p := range parts {
			if alone[p.Text] == nil {
				if alone[p.Text], err = compiler.CompileWithVariables(variables, p.Text); err != nil {
					t.Fatalf("seed %d: part %d has the text\n%s\nof\n%s\n%v", seed, i, p.Text, text, err)
				}
			}
			if !sameTree(p.node, alone[p.Text].tree) {
				t.Fatalf("seed %d: part %d has the text\n%s\nand evaluates %s, of\n%s", seed, i, p.Text, textOf(p.node), text)
			}
			if strings.ContainsAny(p.Text, "\n\r\t") {
				t.Errorf("seed %d: part %d is %q, which breaks lines", seed, i, p.Text)
			}
			seen++
		}
	}
	if seen < 400 {
		t.Errorf("only %d parts were compared", seen)
	}
}

// TestSplitterAtItsBounds splits texts that are not conjunctions, and more than there may be parts.
func TestSplitterAtItsBounds(t *testing.T) {
	t.Parallel()
	conjunction := func(n int) string { return strings.TrimSuffix(strings.Repeat("a && ", n), " && ") }
	for _, tc := range []struct {
		name, text string
		want       []string
		wantLen    int // 0 is the length of want
	}{
		{name: "one name", text: "a", want: []string{"a"}},
		{name: "white space around", text: " \t\r\n a  \n", want: []string{"a"}},
		{name: "a comment alone behind", text: "a // b && c", want: []string{"a"}},
		{name: "a comment that is none", text: `"// a" == b && c`, want: []string{`"// a" == b`, "c"}},
		{name: "an or at the top", text: "a && b || c", want: []string{"a && b || c"}},
		{name: "an or in parentheses", text: "a && (b || c)", want: []string{"a", "b || c"}},
		{name: "an or in brackets", text: "a[b || c] && d", want: []string{"a[b || c]", "d"}},
		{name: "an or in a string", text: `a == "||" && b`, want: []string{`a == "||"`, "b"}},
		{name: "an or in a comment", text: "a // ||\n && b", want: []string{"a", "b"}},
		{name: "a choice at the top", text: "a && b ? c : d", want: []string{"a && b ? c : d"}},
		{name: "an optional selection", text: "a.?b && c", want: []string{"a.?b", "c"}},
		{name: "an optional index", text: "a[?b] && c", want: []string{"a[?b]", "c"}},
		{name: "parentheses twice", text: "(( a && b ))", want: []string{"a", "b"}},
		{name: "parentheses of two", text: "(a) && (b)", want: []string{"a", "b"}},
		{name: "parentheses in a string", text: `("(" == a) && b`, want: []string{`"(" == a`, "b"}},
		{name: "a quote behind an escape", text: `a == "\"" && b`, want: []string{`a == "\""`, "b"}},
		{name: "a backslash before the end", text: `a == "\\" && b`, want: []string{`a == "\\"`, "b"}},
		{name: "a raw string that ends in a backslash", text: `a == r'\' && b == R"\"`, want: []string{`a == r'\'`, `b == R"\"`}},
		{name: "three quotes, one of them escaped", text: `a == """x\"""" && b`, want: []string{`a == """x\""""`, "b"}},
		{name: "an unknown variable", text: "variables.x && b", want: []string{"variables.x", "b"}},
		{name: "a variable that is used as more", text: "variables.both.x && b", want: []string{"variables.both.x", "b"}},
		{name: "a variable that is a conjunction", text: "variables.both && b", want: []string{"x", "y", "b"}},
		{name: "a variable that refers to itself", text: "variables.self", want: []string{"variables.self", "z"}},
		{name: "as many parts as may be", text: conjunction(64), wantLen: 64},
		{name: "a part more", text: conjunction(65), wantLen: 65}, // a number of its own, for which there is no explanation
		{name: "many more", text: conjunction(500), wantLen: 65},
	} {
		named := []cel.NamedExpression{{Name: "both", Expression: "x && y"}, {Name: "self", Expression: "variables.self && z"}}
		got := splitter{variables: named}.split(tc.text, nil)
		if tc.wantLen > 0 {
			if len(got) != tc.wantLen {
				t.Errorf("%s: got %d parts, want %d", tc.name, len(got), tc.wantLen)
			}
			continue
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestTextsOfPartsAtTheirBound shortens what the author wrote, and what is printed because the author's text is not known.
func TestTextsOfPartsAtTheirBound(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string
		want       string
	}{
		{name: "empty", text: "", want: ""},
		{name: "as long as may be", text: strings.Repeat("x", 256), want: strings.Repeat("x", 256)},
		{name: "a byte more", text: strings.Repeat("x", 257), want: strings.Repeat("x", 253) + "…"},
		{name: "cut within a letter", text: strings.Repeat("ß", 129), want: strings.Repeat("ß", 126) + "…"},
	} {
		got := shortened(tc.text)
		if got != tc.want || len(got) > MaxPartBytes {
			t.Errorf("%s: got %d bytes: %s", tc.name, len(got), got)
		}
	}
	list := &node{kind: listNode}
	for range 86 {
		list.args = append(list.args, &node{kind: variableNode, name: "x"}) // [x, x, …] has 3 bytes for each
	}
	if got := shortTextOf(list); !strings.HasSuffix(got, "…") || len(got) > MaxPartBytes {
		t.Errorf("got %d bytes: %s", len(got), got)
	}
	list.args = list.args[:85]
	if got := shortTextOf(list); len(got) != 255 || strings.HasSuffix(got, "…") {
		t.Errorf("got %d bytes: %s", len(got), got)
	}
}
