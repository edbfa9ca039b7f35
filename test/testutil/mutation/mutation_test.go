/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mutation

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// guardOf returns the guard in a function with the lines.
func guardOf(t *testing.T, lines string) (*Guard, string) {
	t.Helper()
	source := "package p\n\nfunc f() {\n//guard:g\n" + lines + "\n}\n"
	guards := map[string]*Guard{}
	if err := collect("p.go", []byte(source), guards); err != nil {
		t.Fatal(err)
	}
	return guards["g"], source
}

func TestChanges(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, lines string
		change      Change
		want        string
	}{
		{name: "never: if", lines: `if a := b; a {}`, change: "never", want: `if a := b; !(ON) && (a) {}`},
		{name: "never: for", lines: `for a {}`, change: "never", want: `for !(ON) && (a) {}`},
		{name: "never: range", lines: `for a := range b { c() }`, change: "never", want: `for a := range b {if ON { break }; c() }`},
		{name: "always: if", lines: `if a {}`, change: "always", want: `if ON || (a) {}`},
		{name: "without: and", lines: `if a && b == c {}`, change: "without:2", want: `if a && (ON || (b == c)) {}`},
		{name: "without: or", lines: `return a || b`, change: "without:1", want: `return (!(ON) && (a)) || b`},
		{name: "without: a chain in a chain", lines: `return a || b && c || d`, change: "without:4", want: `return a || b && (ON || (c)) || d`},
		{name: "without: the inner chain", lines: `return a || b && c || d`, change: "without:2", want: `return a || (!(ON) && (b && c)) || d`},
		{name: "skip: a statement", lines: `a = b`, change: "skip", want: `if ON {} else {a = b}`},
		{name: "skip: a statement that is a call", lines: `a()`, change: "skip", want: `if ON {} else {a()}`},
		{name: "flip: equal", lines: `return a == b`, change: "flip", want: `return (ON != (a == b))`},
		{name: "flip: less", lines: `return a < b`, change: "flip", want: `return a <= b`},
		{name: "flip: and", lines: `return a && b`, change: "flip", want: `return a || b`},
		{name: "flip: not", lines: `return !a`, change: "flip", want: `return (ON != (!a))`},
		{name: "not: a result", lines: `return a, b`, change: "not:2", want: `return a, (ON != (b))`},
		{name: "zero: a result", lines: `return a, b`, change: "zero:2", want: `return a, mutantZero(ON, b)`},
		{name: "zero: an argument", lines: `a(b)`, change: "zero", want: `a(mutantZero(ON, b))`},
		{name: "unwrap: an argument", lines: `a = b(c, d)`, change: "unwrap", want: `a = mutantOr(ON, c, b(c, d))`},
		{name: "unwrap: a receiver", lines: `a = b.c()`, change: "unwrap", want: `a = mutantOr(ON, b, b.c())`},
		{name: "omit: an element", lines: `a = []string{"b", "c"}`, change: "omit:2", want: `a = []string{"b", }`},
		{name: "no statement of a function in the guard", lines: `a(func() bool { return b && c }, d && e)`, change: "without:2", want: `a(func() bool { return b && c }, d && (ON || (e)))`},
		{name: "not what is in the body", lines: `if a { return b && c }`, change: "never", want: `if !(ON) && (a) { return b && c }`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g, source := guardOf(t, tc.lines)
			edits, err := g.edits(tc.change, "ON")
			if err != nil {
				t.Fatal(err)
			}
			got := string(edited(g.files, g.source, edits))
			if want := strings.Replace(source, tc.lines, tc.want, 1); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestChangesOfDeclarations has guards that are no statements.
func TestChangesOfDeclarations(t *testing.T) {
	t.Parallel()
	const source = `package p

// is is a function.
//
//guard:function
func is(a int) bool { return a == 1 || a == 2 }

var list = []string{
	"a",
	//guard:element
	"b",
}

func cases(a, b bool) (err error, n int) {
	switch {
	//guard:case
	case a, b:
	}
	//guard:return
	return nil, 1
}
`
	guards := map[string]*Guard{}
	if err := collect("p.go", []byte(source), guards); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		guard       string
		change      Change
		old, wanted string
	}{
		{guard: "function", change: "never", old: "{ return a == 1", wanted: "{if ON {var mutant0 bool;return mutant0}; return a == 1"},
		{guard: "function", change: "always", old: "{ return a == 1", wanted: "{if ON { return true }; return a == 1"},
		{guard: "function", change: "without:2", old: "a == 2", wanted: "(!(ON) && (a == 2))"},
		{guard: "element", change: "skip", old: `"b",`, wanted: ""},
		{guard: "case", change: "never:2", old: "a, b:", wanted: "a, !(ON) && (b):"},
		{guard: "return", change: "zero:2", old: "nil, 1", wanted: "nil, mutantZero(ON, 1)"},
	} {
		g := guards[tc.guard]
		edits, err := g.edits(tc.change, "ON")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Replace(source, tc.old, tc.wanted, 1), string(edited(g.files, g.source, edits))); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", tc.guard, tc.change, diff)
		}
	}
}

// TestChangesTogether makes several changes of one statement at the same time.
func TestChangesTogether(t *testing.T) {
	t.Parallel()
	g, _ := guardOf(t, `a(b == c && d)`)
	var all []edit
	for i, change := range []Change{"zero", "without:1", "flip:1", "unwrap", "skip", "without:2"} {
		edits, err := g.edits(change, fmt.Sprintf("n == %d", i))
		if err != nil {
			t.Fatal(err)
		}
		if isInsertion(edits) {
			all = append(all, edits...)
		}
	}
	got := string(edited(g.files, g.source, all))
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", got, 0)
	if err != nil {
		t.Fatalf("%v\n%s", err, got)
	}
	calls := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if _, ok := n.(*ast.CallExpr); ok {
			calls++
		}
		return true
	})
	if calls != 3 {
		t.Errorf("got %d calls, want those of a and of two helpers, in\n%s", calls, got)
	}
}

// TestCheck finds each mistake in a table of mutants, and in the code.
func TestCheck(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, content := range map[string]string{
		"pkg/a/a.go":      "package a\n\nfunc A(b bool) int {\n\t//guard:one\n\tif b {\n\t\treturn 1\n\t}\n\treturn 2 // quoted\n}\n",
		"pkg/a/a_test.go": "package a\n\nfunc TestA(t *testing.T) {}\nfunc TestBoth(t *testing.T) {}\n",
		"pkg/b/b_test.go": "package b\n\nfunc TestBoth(t *testing.T) {}\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	module, err := Load(root, "pkg")
	if err != nil {
		t.Fatal(err)
	}
	good := Mutant{Guard: "one", Change: "never", Test: "TestA"}
	if errs := module.Check([]Mutant{good, {Name: "two", Old: "return 2", New: "return 3", Test: "TestA"}}); len(errs) != 0 {
		t.Errorf("got %v for mutants without a mistake", errs)
	}
	for _, tc := range []struct {
		name    string
		mutants []Mutant
		want    string
	}{
		{"a guard without a mutant", nil, `the guard "one" has no mutant`},
		{"a mutant without a guard", []Mutant{good, {Guard: "none", Change: "never", Test: "TestA"}}, `no marker has the guard "none"`},
		{"a change that there is not", []Mutant{{Guard: "one", Change: "other", Test: "TestA"}}, `there is no change "other"`},
		{"a place that there is not", []Mutant{{Guard: "one", Change: "never:2", Test: "TestA"}}, `has 1 places for "never:2"`},
		{"a test that does not exist", []Mutant{{Guard: "one", Change: "never", Test: "TestB"}}, "the test TestB exists in 0 packages"},
		{"a test that exists twice", []Mutant{{Guard: "one", Change: "never", Test: "TestBoth"}}, "the test TestBoth exists in 2 packages"},
		{"the same mutant twice", []Mutant{good, good}, `two mutants "one never"`},
		{"a text that is gone", []Mutant{good, {Name: "two", Old: "return 4", Test: "TestA"}}, "the text occurs 0 times"},
		{"a text that is there twice", []Mutant{good, {Name: "two", Old: "return", Test: "TestA"}}, "the text occurs 2 times"},
		{"a text without which the code is no Go", []Mutant{good, {Name: "two", Old: "return 2", New: "return }", Test: "TestA"}}, "expected declaration"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			errs := module.Check(tc.mutants)
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), tc.want) {
				t.Errorf("got %v, want %s", errs, tc.want)
			}
		})
	}
}

func TestMarkersThatAreWrong(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"twice":   "package a\n\n//guard:one\nvar a = 1\n\n//guard:one\nvar b = 2\n",
		"nothing": "package a\n\nvar a = 1\n\n//guard:one\n",
	} {
		if err := collect("a.go", []byte(source), map[string]*Guard{}); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := Parse("# a comment\n\none  never    TestA\ntwo  without:2 TestB\n")
	want := []Mutant{{Guard: "one", Change: "never", Test: "TestA"}, {Guard: "two", Change: "without:2", Test: "TestB"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("got %v (-want +got):\n%s", err, diff)
	}
	for _, line := range []string{"one never", "one without 2 TestA"} {
		if _, err := Parse(line); err == nil {
			t.Errorf("got no error for %q", line)
		}
	}
}
