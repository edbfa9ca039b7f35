/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explanation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/syntax"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// operandTexts are expressions with everything in them that could be taken for a && at the top, or for the end of something.
var operandTexts = []string{
	`object.a == 1`, `object.b == "x && y"`, `object.c == 'it\'s // no comment'`, `object.d in ["a && b", "(c"]`, `object.e.all(x, x.f && x.g)`,
	`!(object.h && object.i)`, "object.`j //k` == 1", `object.?l.orValue(1) == 1`, `object.r == r"\"`, `object.s == """a "&&" (b"""`, `object.u == R'\' || true == false`,
	`has(object.t)`, `object.m || object.n`, `object.o ? object.p == 1 : object.q && true`, `object.v == {"a)": "b"}`, `object.w == '''it's'''`,
	`variables.one`, `variables.both`, `variables.either`,
}

// described describes the nodes of a tree, so that no other tree has the same description.
func described(tree *syntax.Node) (nodes []string) {
	for n := range tree.All {
		nodes = append(nodes, fmt.Sprintf("%d %s %t %q %v %s %q %T %v %t %d", n.Kind, n.Name, n.IsTest, n.Binders, n.Optional, n.Type, sets.List(n.Free), n.Value, n.Value, n.Target != nil, len(n.Args)))
	}
	return nodes
}

// TestPartsAreWhatIsEvaluated joins operands at random, with white space, comments and parentheses between them. The text of each part must compile to
// the node that is evaluated for it: otherwise a refusal would show a part of the condition that does not refuse.
func TestPartsAreWhatIsEvaluated(t *testing.T) {
	t.Parallel()
	compiler := compilers.Policies(t)
	variables := []cel.NamedExpression{
		{Name: "one", Expression: `object.one == 1`}, {Name: "both", Expression: "(object.x == 1 // &&\n && variables.one)"}, {Name: "either", Expression: `object.x || object.y && object.z`},
	}
	joints := []string{" && ", "&&", "\n\t&& ", " && // a note && (more\n", " // \"\n&&\r\n"}
	seen, alone := 0, map[string][]string{}
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
		parts := PartsOf(e).All()
		if len(parts) != want {
			t.Fatalf("seed %d: got %d parts, want %d, of\n%s", seed, len(parts), want, text)
		}
		for i, p := range parts {
			if alone[p.Text] == nil {
				read, err := compiler.CompileWithVariables(variables, p.Text)
				if err != nil {
					t.Fatalf("seed %d: part %d has the text\n%s\nof\n%s\n%v", seed, i, p.Text, text, err)
				}
				alone[p.Text] = described(read.Tree())
			}
			if !slices.Equal(described(p.node), alone[p.Text]) {
				t.Fatalf("seed %d: part %d has the text\n%s\nand evaluates %s, of\n%s", seed, i, p.Text, p.node.Text(), text)
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
		got := split(tc.text, named, nil)
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
		got := shortened(tc.text, len(tc.text) <= MaxPartBytes)
		if got != tc.want || len(got) > MaxPartBytes {
			t.Errorf("%s: got %d bytes: %s", tc.name, len(got), got)
		}
	}
	list := &syntax.Node{Kind: syntax.ListNode}
	for range 86 {
		list.Args = append(list.Args, &syntax.Node{Kind: syntax.VariableNode, Name: "x"}) // [x, x, …] has 3 bytes for each
	}
	if got := shortTextOf(list); !strings.HasSuffix(got, "…") || len(got) > MaxPartBytes {
		t.Errorf("got %d bytes: %s", len(got), got)
	}
	list.Args = list.Args[:85]
	if got := shortTextOf(list); len(got) != 255 || strings.HasSuffix(got, "…") {
		t.Errorf("got %d bytes: %s", len(got), got)
	}
}
