/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard_test

import (
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
)

func newEngine(t *testing.T) *engine.Engine {
	t.Helper()
	environment, err := cel.NewPolicyEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	return environment.Engine()
}

func parse(t *testing.T, e *engine.Engine, text string) ast.Expr {
	t.Helper()
	parsed, issues := e.Env.Parse(text)
	if issues.Err() != nil {
		t.Fatalf("%.60s: %v", text, issues.Err())
	}
	return parsed.NativeRep().Expr()
}

// nest puts n times two texts around another one.
func nest(n int, before, text, after string) string {
	return strings.Repeat(before, n) + text + strings.Repeat(after, n)
}

// TestCheckTextAtTheBounds checks the largest expression of each kind that is accepted, and one that is a little larger.
func TestCheckTextAtTheBounds(t *testing.T) {
	t.Parallel()
	const expanded, depth, transformations, patterns, patternWork = "its macros expand to more than 16384 parts", "list and map literals are nested more than 16 deep",
		"it has more than 10 macros that make lists, maps or optionals, or more than 48 optional.of, or more than 64 empty literals", "its regular expressions are larger than 4096 instructions", "regular expressions take too long to parse"
	// A chain of six has 16,383 parts: each macro makes four copies of what it is called on, and adds three parts.
	chain := "optional.of(true)" + strings.Repeat(".optMap(v, v)", 6)
	classes := func(n int) string { return `"".matches("(` + strings.Repeat(`\\pL`, n) + `")` }
	for _, tc := range []struct {
		name, good, bad, want string
	}{
		{name: "lists", good: nest(16, "[", "1", "]"), bad: nest(17, "[", "1", "]"), want: depth},
		{name: "values of maps", good: nest(16, "{1: ", "1", "}"), bad: nest(17, "{1: ", "1", "}"), want: depth},
		{name: "keys of maps", good: nest(16, "{", "1", ": 1}"), bad: nest(17, "{", "1", ": 1}"), want: depth},
		{name: "lists in maps", good: nest(8, "[{1: ", "1", "}]"), bad: nest(8, "[{1: ", "[1]", "}]"), want: depth},
		{name: "lists behind functions", good: nest(16, "[dyn(", "1", ")]"), bad: nest(17, "[dyn(", "1", ")]"), want: depth},
		{name: "lists behind functions that are called on them", good: nest(16, "[", "1", "].size()"), bad: nest(17, "[", "1", "].size()"), want: depth},
		{name: "lists behind fields", good: nest(16, "[", "1", ".a]"), bad: nest(17, "[", "1", ".a]"), want: depth},
		{name: "lists that are arguments of macros", good: nest(16, "[1].all(x, x in [", "1", "])"), bad: nest(17, "[1].all(x, x in [", "1", "])"), want: depth},
		{name: "lists beside each other", good: "[" + strings.Repeat("[[[1]]],", 50) + "1]"},
		{name: "empty lists", good: "[" + strings.Repeat("[],", 64) + "1]", bad: "[" + strings.Repeat("[],", 65) + "1]", want: transformations},
		{name: "empty maps and lists", good: "[" + strings.Repeat("[],{},", 32) + "1]", bad: "[" + strings.Repeat("{},[],", 32) + "{}]", want: transformations},
		{name: "optional.of", good: nest(48, "optional.of(", "1", ")"), bad: nest(49, "optional.of(", "1", ")"), want: transformations},
		{name: "optional.of with a dot before it", good: nest(48, ".optional.of(", "1", ")"), bad: nest(49, ".optional.of(", "1", ")"), want: transformations},
		{name: "optional.of beside optional.ofNonZeroValue", good: nest(24, "optional.of(optional.ofNonZeroValue(", "1", "))"), bad: nest(24, "optional.of(optional.ofNonZeroValue(", "optional.of(1)", "))"), want: transformations},
		{name: "map", good: nest(10, "", "[1]", ".map(x, x)"), bad: nest(11, "", "[1]", ".map(x, x)"), want: transformations},
		{name: "map in map", good: nest(10, "[1].map(x, ", "1", ")"), bad: nest(11, "[1].map(x, ", "1", ")"), want: transformations},
		{name: "transformList", good: nest(10, "", "[1]", ".transformList(i, x, x)"), bad: nest(11, "", "[1]", ".transformList(i, x, x)"), want: transformations},
		{name: "transformMap", good: nest(10, "", "[1]", ".transformMap(i, x, x)"), bad: nest(11, "", "[1]", ".transformMap(i, x, x)"), want: transformations},
		{name: "transformMapEntry", good: nest(10, "", "[1]", ".transformMapEntry(i, x, {i: x})"), bad: nest(11, "", "[1]", ".transformMapEntry(i, x, {i: x})"), want: transformations},
		{name: "optMap", good: strings.Repeat("object.?a.optMap(x, x) == ", 9) + "object.?a.optMap(x, x)", bad: strings.Repeat("object.?a.optMap(x, x) == ", 10) + "object.?a.optMap(x, x)", want: transformations},
		{name: "optFlatMap", good: strings.Repeat("object.?a.optFlatMap(x, x) == ", 9) + "1", bad: strings.Repeat("object.?a.optFlatMap(x, x) == ", 11) + "1", want: transformations},
		{name: "macros that make nothing larger", good: "[1]" + strings.Repeat(".filter(x, x > 0)", 40) + ".all(x, true)"},
		{name: "a chain that is expanded", good: chain + ".hasValue()", bad: "!" + chain + ".hasValue()", want: expanded},
		{name: "a chain of optFlatMap that is expanded", good: strings.ReplaceAll(chain, "optMap", "optFlatMap") + ".hasValue()", bad: "!" + strings.ReplaceAll(chain, "optMap", "optFlatMap") + ".hasValue()", want: expanded},
		{name: "copies of what is large itself", good: "object.?a.b.optMap(x, x)", bad: "[" + strings.Repeat("1,", 4096) + "1].optMap(x, x)", want: expanded},
		{name: "a large pattern", good: `"".matches("a{1000}a{1000}")`, bad: `"".matches("a{1000}a{1000}a{1000}")`, want: patterns},
		{name: "patterns that are large together", good: `"".matches("a{1000}") || "".find("a{1000}") == "" || "".matches("a{48}")`, bad: `"".matches("a{1000}") || "".find("a{1000}") == "" || "".matches("a{49}")`, want: patterns},
		{name: "patterns of a function with a dot before it", good: `.matches("", "a{1000}a{1000}")`, bad: `.matches("", "a{1000}a{1000}a{1000}")`, want: patterns},
		{name: "the text of a function, which may be a pattern", good: `matches("a{1000}", "a{1000}")`, bad: `matches("a{1000}a{1000}", "a{49}")`, want: patterns},
		{name: "a pattern in a list", good: `["".matches("a{1000}")]`, bad: `["".matches("a{1000}a{1000}a{1000}")]`, want: patterns},
		{name: "a pattern behind a field", good: `{"a": "".matches("a{1000}")}.a`, bad: `{"a": "".matches("a{1000}a{1000}a{1000}")}.a`, want: patterns},
		{name: "a text that is no pattern", good: `"a{1000}a{1000}a{1000}".contains("a{1000}a{1000}a{1000}")`},
		{name: "a pattern that is put together at run time", good: `"".matches("a{1000}" + "a{1000}a{1000}")`},
		{name: "patterns with classes of letters", good: classes(31) + " || " + classes(31), bad: classes(31) + " || " + classes(32), want: patternWork},
		{name: "a pattern with classes of letters", good: classes(62), bad: classes(64), want: patternWork},
		{name: "a mistake in the syntax, which the compiler reports", good: "object."},
		{name: "nothing", good: ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := newEngine(t).Guard
			if err := g.CheckText(tc.good); err != nil {
				t.Errorf("at the bound: %v", err)
			}
			if tc.bad == "" {
				return
			}
			if err := g.CheckText(tc.bad); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("over the bound: got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestCheckPatterns counts the patterns of an expression into which others have been put, wherever they are.
func TestCheckPatterns(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	for _, tc := range []struct {
		name, expression, want string
	}{
		{name: "no pattern", expression: `object.a == "a{1000}a{1000}a{1000}"`},
		{name: "patterns at the bound", expression: `"".matches("a{1000}") || "".matches("a{1000}") || "".matches("a{48}")`},
		{name: "patterns over the bound", expression: `"".matches("a{1000}") || "".matches("a{1000}") || "".matches("a{49}")`, want: "its regular expressions are larger"},
		{name: "patterns in macros", expression: `[1].all(x, "".matches("a{1000}") && [2].exists(y, "".find("a{1000}a{1000}") == ""))`, want: "its regular expressions are larger"},
		{name: "a pattern that an optional copies", expression: `object.?a[?"".find("a{1000}")].optMap(x, x).hasValue() || "".matches("a{100}")`, want: "its regular expressions are larger"},
		{name: "a pattern that is too long to be parsed", expression: `"".matches("` + strings.Repeat("a", 4097) + `")`, want: "its regular expressions are larger"},
		{name: "a long pattern", expression: `"".matches("` + strings.Repeat("a", 4096) + `")`},
		{name: "classes of letters", expression: `"".matches("(` + strings.Repeat(`\\pL`, 64) + `")`, want: "regular expressions take too long to parse"},
		{name: "classes after a pattern that is too large", expression: `"".matches("a{1000}a{1000}a{1000}") || "".matches("(` + strings.Repeat(`\\pL`, 64) + `")`, want: "its regular expressions are larger"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if err := guard.CheckPatterns(parse(t, e, tc.expression)); (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestWhatCanBeInterrupted tells expressions that look at their context while they are evaluated. All that can take long must.
func TestWhatCanBeInterrupted(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	for _, tc := range []struct {
		expression string
		want       bool
	}{
		{expression: `true`},
		{expression: `object`},
		{expression: `object.a.b`},
		{expression: `has(object.a)`},
		{expression: `object.a == "x" && (object.b != 1 || !dryRun)`},
		{expression: `null == object.a`},
		{expression: `object[0]["a"] == "x"`},
		{expression: `object.?a[?0]`},
		{expression: `dryRun ? object.a < 1 : object.a + 1 > object.b`},
		{expression: `[object.a, {"k": object.b}][0].k`},
		{expression: `object.a == oldObject.a`, want: true},
		{expression: `object.a != oldObject.a`, want: true},
		{expression: `object.a == ["x"]`, want: true},
		{expression: `{"a": 1} != object.a`, want: true},
		{expression: `object.a in ["x"]`, want: true},
		{expression: `object.a.size() == 1`, want: true},
		{expression: `dyn(object)`, want: true},
		{expression: `object.a.matches("x")`, want: true},
		{expression: `[1].all(x, true)`, want: true},
		{expression: `[1].map(x, 1)`, want: true},
		{expression: `object.a == "x" && [object.b.size()][0] == 1`, want: true},
		{expression: `{"k": object.b.size()}.k`, want: true},
		{expression: `has(object.b[string(1)].a)`, want: true},
	} {
		if got := guard.CanBeInterrupted(parse(t, e, tc.expression)); got != tc.want {
			t.Errorf("%s: got %t, want %t", tc.expression, got, tc.want)
		}
	}
}

// TestGuardsNeedTheirFunctions makes a guard for environments in which a function is missing. A function that is not found could
// otherwise have another name in the next version of the library, and go unguarded.
func TestGuardsNeedTheirFunctions(t *testing.T) {
	t.Parallel()
	plain, err := celgo.NewEnv()
	if err != nil {
		t.Fatal(err)
	}
	if g, err := guard.New(plain); g != nil || err == nil || !strings.Contains(err.Error(), "is to be guarded, but is not there") {
		t.Errorf("got %v, %v, want an error", g, err)
	}
	if _, err := guard.New(newEngine(t).Env); err != nil {
		t.Errorf("the environment of policies: %v", err)
	}
}
