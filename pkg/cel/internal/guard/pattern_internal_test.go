/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"errors"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// TestSizesOfPatterns compares the estimate of the instructions of a pattern with what the library compiles it to. An estimate
// that is far too low would let a program of megabytes pass.
func TestSizesOfPatterns(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{
		"", "a", "abc", ".", ".*", "^a$", "a|b|c", "(a)(b)(c)", "[a-z]", "[^a-z]+", "a{10}", "a{10,}", "a{3,900}", "(a{10}){100}", "((a{10}){10}){10}", "(a|bc){100}", "(a?){500}", "(a*)*", "[a-z]{3,63}(-[a-z]{1,9})*", `\d{100}`, `\w{100}`,
		`\pL`, `\pL{10}`, `\PL`, `(?i)\pL`, "(?i)abc", "(?i)[k]{100}", "[[:alpha:]]{50}", `\b\B{5}`, "(?:a{0}){1000}", "a{0,1000}", "(?P<name>a){100}", "(?s).{500}", "x*y+z?", "(^|$|a){200}", `\x{10ffff}{20}`,
	} {
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatalf("%s: %v", pattern, err)
		}
		compiled, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			t.Fatalf("%s: %v", pattern, err)
		}
		if got := PatternSize(pattern); len(compiled.Inst) > 4*got+8 {
			t.Errorf("%s: got the size %d, but it compiles to %d instructions", pattern, got, len(compiled.Inst))
		}
	}
	for _, tc := range []struct {
		pattern string
		want    int
	}{
		{pattern: "a{1000}", want: 2000}, {pattern: "(a{10}){100}", want: 100 * (1 + 1 + 20)}, {pattern: "a{0}", want: 2}, {pattern: "a{5,}", want: 10}, {pattern: "a{2,7}", want: 14}, {pattern: "[a-cx-z]", want: 3}, {pattern: "a{1001}", want: 0}, {pattern: "*", want: 0},
	} {
		if got := PatternSize(tc.pattern); got != tc.want {
			t.Errorf("%s: got the size %d, want %d", tc.pattern, got, tc.want)
		}
	}
}

// foldsAnywhere reports whether a part of a parsed pattern ignores upper and lower case.
func foldsAnywhere(re *syntax.Regexp) bool {
	found := re.Flags&syntax.FoldCase != 0
	for _, sub := range re.Sub {
		found = found || foldsAnywhere(sub)
	}
	return found
}

// TestFoldingIsNotMissed compares what is read from the text of a pattern with its parsed form: a pattern that ignores case takes a
// hundred times as long to parse, and must never be taken for another one.
func TestFoldingIsNotMissed(t *testing.T) {
	t.Parallel()
	folding := 0
	for _, pattern := range []string{
		"a", "(?i)a", "(?i:a)", "(?is)a", "(?si)a", "(?mUi)a", "(?-i)a", "(?s-i:a)", "(?i-s)a", "a(?i)b", "(a(?i)b)c", "(?:a)(?i)b", "(?P<i>a)", "(?P<n>(?i)a)", "(?<n>(?i)a)", "((?i)a|b)", "[(?i)]", `\(?i\)a`, `\Q(?i)\Ea`, "(?m)(?U)(?i)a", "(?s)a(?i:b)c",
		"(?i)", "(?)a", "(?i)(?-i)a", "x(?i:)y", "(?:(?:(?i)a))",
	} {
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			continue // refused later, and it takes no time to fold
		}
		if foldsAnywhere(parsed) {
			folding++
			if !foldsCase(pattern) {
				t.Errorf("%s ignores case, which is not noticed", pattern)
			}
		}
	}
	if folding < 10 {
		t.Errorf("got %d patterns that ignore case, too few to compare", folding)
	}
	for _, tc := range []struct {
		pattern string
		want    uint64
	}{
		{pattern: "", want: 0}, {pattern: "a-", want: (0xfffd - 'a') / 2}, {pattern: "-a", want: 0}, {pattern: "a-z", want: 25 / 2}, {pattern: "z-a", want: 0}, {pattern: "a-a", want: 0}, {pattern: "a-ca-c", want: 2}, {pattern: "a-c-e", want: 2},
		{pattern: `a-\x{10ffff}`, want: 1 << 16}, {pattern: "\u0100-\u0200", want: 128}, {pattern: "a-\U0010ffff", want: (0x10ffff - 'a') / 2}, {pattern: "a-\xff", want: (0xfffd - 'a') / 2},
	} {
		if got := workOfFolding(tc.pattern); got != tc.want {
			t.Errorf("%q: got %d units, want %d", tc.pattern, got, tc.want)
		}
	}
}

// TestPatternsAtTheBounds checks patterns and the texts on which they are tried, at each bound and over it.
func TestPatternsAtTheBounds(t *testing.T) {
	t.Parallel()
	classes := func(n int) string { return "(" + strings.Repeat(`\pL`, n) }
	for _, tc := range []struct {
		name  string
		check func([]ref.Val) error
		args  []ref.Val
		want  error
	}{
		{name: "no pattern", check: checkMatch, args: vals("a")},
		{name: "a pattern that is no text", check: checkMatch, args: vals("a", 1)},
		{name: "the largest pattern", check: checkMatch, args: vals("a", "a{1000}a{1000}a{47}")},
		{name: "a larger pattern", check: checkMatch, args: vals("a", "a{1000}a{1000}a{48}"), want: errPattern},
		{name: "the longest pattern", check: checkMatch, args: vals("a", text(4096))},
		{name: "a longer pattern", check: checkMatch, args: vals("a", text(4097)), want: errPattern},
		{name: "a longer pattern with classes, which is not parsed either", check: checkMatch, args: vals("a", classes(1400)), want: errPattern},
		{name: "the most classes that are parsed", check: checkMatch, args: vals("a", classes(62))},
		{name: "a class more", check: checkMatch, args: vals("a", classes(63)), want: errPatternWork},
		{name: "a pattern on the longest text", check: checkMatch, args: vals(text(8<<20), "a{1}")},
		{name: "a pattern on a longer text", check: checkMatch, args: vals(text(8<<20+1), "a{1}"), want: errWork},
		{name: "a pattern on bytes", check: checkMatch, args: []ref.Val{bytesValue(8<<20 + 1), val("a{1}")}, want: errWork},
		{name: "a wrong pattern on any text", check: checkMatch, args: vals(text(20<<20), "(")},
		{name: "all matches in the longest text", check: checkMatches, args: vals(text(64<<10), "a")},
		{name: "all matches in a longer text", check: checkMatches, args: vals(text(64<<10+1), "a"), want: errWork},
		{name: "all matches of a pattern that is too large", check: checkMatches, args: vals("a", text(4097)), want: errPattern},
		{name: "the longest pattern that is no constant", check: checkDynamicMatch, args: vals("a", text(256))},
		{name: "a longer pattern that is no constant", check: checkDynamicMatch, args: vals("a", text(257)), want: errDynamicPattern},
		{name: "no pattern that is no constant", check: checkDynamicMatch, args: vals("a")},
		{name: "a pattern that is no constant and too large", check: checkDynamicMatch, args: vals("a", "a{1000}a{1000}a{1000}"), want: errPattern},
	} {
		if err := tc.check(tc.args); !errors.Is(err, tc.want) || tc.want == nil && err != nil {
			t.Errorf("%s: got %v, want %v", tc.name, err, tc.want)
		}
	}
	for name, want := range map[string]bool{"matches": true, "find": true, "findAll": true, "contains": false, "replace": false, "": false} {
		if takesPattern(name) != want {
			t.Errorf("%q takes a pattern: got %t, want %t", name, !want, want)
		}
	}
}

// TestConstantPatternsBoundTheirTexts plans calls with constant patterns. The text may be the longer the smaller the pattern is.
func TestConstantPatternsBoundTheirTexts(t *testing.T) {
	t.Parallel()
	called := &functions.Overload{Binary: func(a, _ ref.Val) ref.Val { return types.Bool(!types.IsError(a)) }}
	for _, tc := range []struct {
		name, function string
		pattern        ref.Val
		longest        int
	}{
		{name: "a small pattern", function: "matches", pattern: val("a"), longest: 16 << 20},
		{name: "a pattern of two instructions", function: "find", pattern: val("a{1}"), longest: 8 << 20},
		{name: "a large pattern", function: "matches", pattern: val("a{1000}"), longest: 16 << 20 / 2000},
		{name: "a wrong pattern", function: "matches", pattern: val("("), longest: 16 << 20},
		{name: "a pattern that is no text", function: "matches", pattern: types.Int(1), longest: 16 << 20},
		{name: "all matches of a small pattern", function: "findAll", pattern: val("a"), longest: 64 << 10},
		{name: "all matches of a large pattern", function: "findAll", pattern: val("a{1000}"), longest: 16 << 20 / 2000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, n := range []int{0, tc.longest, tc.longest + 1} {
				call := interpreter.NewCall(1, tc.function, tc.function+"_string", []interpreter.InterpretableV2{interpreter.NewConstValue(2, val(text(n))), interpreter.NewConstValue(3, tc.pattern)}, func(...ref.Val) ref.Val { return types.False })
				pattern, constant := constantPatternOf(call)
				if !constant || pattern != tc.pattern {
					t.Fatalf("got the pattern %v, %t", pattern, constant)
				}
				marked := withConstantPattern(call, called, pattern).(interpreter.InterpretableCall)
				if marked.OverloadID() != tc.function+"_string@constant" || len(marked.Args()) != 2 {
					t.Errorf("got the overload %s", marked.OverloadID())
				}
				if got := marked.Eval(interpreter.EmptyActivation()); types.IsError(got) != (n > tc.longest) {
					t.Errorf("a text of %d bytes: got %v, want an error: %t", n, got, n > tc.longest)
				}
			}
		})
	}
}

// TestWalks counts the parts of values of each kind, and stops after the bound.
func TestWalks(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name         string
		value        any
		walked       int
		printed      int  // if it is another number
		over, isOver bool // that it is over the bound for printing only, or always
	}{
		{name: "a number", value: 1, walked: 1},
		{name: "null", value: nil, walked: 1},
		{name: "a short text", value: text(63), walked: 1},
		{name: "a text that is printed as two parts", value: text(64), walked: 1, printed: 2},
		{name: "a text that is walked as two parts", value: text(1024), walked: 2, printed: 17},
		{name: "bytes", value: []byte(text(1024)), walked: 2, printed: 17},
		{name: "an empty list", value: []any{}, walked: 1},
		{name: "a list of lists", value: []any{[]any{1, 2}, []any{}}, walked: 5},
		{name: "a map, whose keys are no parts", value: map[string]any{"a": 1, "b": []any{2}}, walked: 4},
		{name: "a map with a long key", value: map[string]any{text(2048): 1}, walked: 4, printed: 34},
		{name: "none", value: types.OptionalNone, walked: 1},
		{name: "an optional", value: types.OptionalOf(val([]any{1})), walked: 3},
		{name: "a type", value: types.IntType, walked: 1},
		{name: "an error", value: types.NewErr("an error"), walked: 1},
		{name: "a list at the bound", value: list(maxDeep-1, 1), walked: maxDeep},
		{name: "a list over the bound", value: list(maxDeep, 1), isOver: true},
		{name: "lists that are over the bound together", value: []any{list(maxDeep/2, 1), list(maxDeep/2, 1)}, isOver: true},
		{name: "texts that are over the bound when they are printed", value: list(maxDeep/17+1, text(1024)), walked: 1 + (maxDeep/17+1)*2, over: true},
		{name: "an optional of a list over the bound", value: types.OptionalOf(val(list(maxDeep, 1))), isOver: true},
		{name: "a map of a list over the bound", value: map[string]any{"a": list(maxDeep, 1)}, isOver: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			printed := max(tc.printed, tc.walked)
			for _, way := range []struct {
				perPart, want int
				check         func([]ref.Val) error
				over          bool
			}{{textPerPart, tc.walked, checkDeep, tc.isOver}, {printedPerPart, printed, checkPrinted, tc.isOver || tc.over}} {
				parts, complete := walkAll(vals(tc.value), way.perPart)
				if complete == way.over || complete && parts != way.want || !complete && parts != maxDeep {
					t.Errorf("%d bytes for a part: got %d parts, %t, want %d, %t", way.perPart, parts, complete, way.want, !way.over)
				}
				if err := way.check(vals(tc.value)); (err != nil) != way.over {
					t.Errorf("%d bytes for a part: got %v, want an error: %t", way.perPart, err, way.over)
				}
			}
		})
	}
}

// TestLevelsOfLists counts the levels that flatten walks through. Copying the innermost elements once for each level must
// stay within the bound.
func TestLevelsOfLists(t *testing.T) {
	t.Parallel()
	deep := func(n int, innermost any) any {
		for range n {
			innermost = []any{innermost}
		}
		return innermost
	}
	for _, tc := range []struct {
		name   string
		args   []ref.Val
		nested int
		want   int
	}{
		{name: "what is no list", args: vals(1), nested: 0, want: 0},
		{name: "a list", args: vals([]any{1}), nested: 1, want: 1},
		{name: "an empty list", args: vals([]any{}), nested: 1, want: 1},
		{name: "the deepest of several lists", args: vals([]any{1, []any{[]any{}}, []any{}}), nested: 3, want: 2},
		{name: "a depth", args: vals(deep(9, 1), 4), nested: 9, want: 5},
		{name: "a depth of none", args: vals(deep(9, 1), 0), nested: 9, want: 1},
		{name: "a depth below zero", args: vals(deep(9, 1), -1), nested: 9, want: 1},
		{name: "a depth beyond all", args: vals(deep(9, 1), int64(1)<<62), nested: 9, want: 9},
		{name: "a depth that is no number", args: vals(deep(9, 1), "4"), nested: 9, want: 1},
		{name: "maps, which are not flattened", args: vals([]any{map[string]any{"a": []any{1}}}, 9), nested: 1, want: 1},
	} {
		if got := nesting(tc.args[0]); got != tc.nested {
			t.Errorf("%s: got %d nested lists, want %d", tc.name, got, tc.nested)
		}
		if got := levels(tc.args); got != tc.want {
			t.Errorf("%s: got %d levels, want %d", tc.name, got, tc.want)
		}
	}
	for _, tc := range []struct {
		levels, elements int
		want             bool // that it is refused
	}{
		{levels: 9, elements: 90_000}, {levels: 11, elements: 95_000}, {levels: 12, elements: 95_000, want: true}, {levels: 100, elements: 10_000}, {levels: 110, elements: 10_000, want: true}, {levels: 1000, elements: 10},
	} {
		if err := checkFlatten(vals(deep(tc.levels-1, list(tc.elements, 1)), 1<<30)); (err != nil) != tc.want {
			t.Errorf("%d elements in %d lists: got %v, want it refused: %t", tc.elements, tc.levels, err, tc.want)
		}
	}
}
