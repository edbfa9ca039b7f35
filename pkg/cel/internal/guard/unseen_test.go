/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// TestCostOfEveryFunction calls every function of the environment with long texts, which the tracker
// reads whatever the function does, and with lists of elements that the estimator of Kubernetes counts as nothing. Each
// call must cost more than a call with small values, also if it fails.
func TestCostOfEveryFunction(t *testing.T) {
	t.Parallel()
	compiler := newCompiler(t)
	const bytesPerUnit, readsPerUnit = 512, 4
	long := types.String(strings.Repeat("a", 200_000))
	empty := types.DefaultTypeAdapter.NativeToValue([]any{})
	for _, expression := range calls(t) {
		if !readsValues(expression) {
			continue
		}
		program, err := compiler.Compile(expression)
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range []ref.Val{types.String("a"), types.Int(1), long} {
			if _, cost, err := program.Eval(t.Context(), cel.Values{cel.Object: long, cel.OldObject: other}); cost < uint64(len(long))/bytesPerUnit {
				t.Errorf("%s of a long text and %.10v: got %d units, %.100v", expression, other, cost, err)
			}
		}
		for name, element := range map[string]ref.Val{"texts": types.String("a"), "lists": empty} {
			for _, other := range []ref.Val{types.String("b"), types.Int(100), empty} {
				var reads int
				values := cel.Values{cel.Object: counted(10_000, element, &reads), cel.OldObject: other}
				if _, cost, err := program.Eval(t.Context(), values); cost < uint64(reads)/readsPerUnit {
					t.Errorf("%s of %s and %v: got %d reads for %d units, %.100v", expression, name, other.Value(), reads, cost, err)
				}
			}
		}
	}
}

// readsValues reports whether an expression calls a function that reads its arguments. Functions that pass
// them on take the same time for all values, and so do operators of logic and indexes, which are no calls.
func readsValues(expression string) bool {
	if !strings.Contains(expression, "object") || expression == "[dyn(dyn(object))].size() == 7" {
		return false
	}
	for _, other := range []string{".sets.", ")[", "&&", "||", "!dyn"} {
		if strings.Contains(expression, other) {
			return false
		}
	}
	for _, passing := range []string{
		"type", "first", "last", "reverse", "slice", "lists.range", "optional.of", "optional.ofNonZeroValue", "optional.none", "optional.unwrap", "unwrapOpt", "hasValue", "value", "or", "orValue",
	} {
		if strings.Contains(expression, "."+passing+"(") || strings.Contains(expression, "["+passing+"(") {
			return false
		}
	}
	return true
}

// TestUnseenWorkIsCharged evaluates work that the trackers of cel-go and Kubernetes count as next to
// nothing. want is about a unit for each microsecond.
func TestUnseenWorkIsCharged(t *testing.T) {
	t.Parallel()
	compiler := newCompiler(t)
	object := map[string]any{
		"long": strings.Repeat("a", 1_000_000), "text": strings.Repeat("a", 64_000), "quotes": strings.Repeat(`"`, 60_000), "name": "n", "keys": map[string]any{},
		"short": slices.Repeat([]any{"a"}, 90_000), "empty": slices.Repeat([]any{[]any{}}, 90_000), "mixed": append(numbers(90_000), "a"), "numbers": numbers(10),
		"query": "https://a/?" + strings.Repeat("a&", 4000), "path": "https://a/" + strings.Repeat("%20", 2600), "version": "1.2.3-" + strings.Repeat("a.", 120) + "a",
	}
	for i := range 5_000 {
		object["keys"].(map[string]any)[strings.Repeat("a", i%50)+string(rune('a'+i%26))+strings.Repeat("b", i/50)] = int64(i)
	}
	values := cel.Values{cel.Object: object, cel.OldObject: object}
	for _, tc := range []struct {
		name, expression string
		want             uint64 // at least
	}{
		{"indexOf in a list of short texts", `object.short.indexOf("zz") == 1`, 90_000},
		{"lastIndexOf in a list of short texts", `object.short.lastIndexOf("zz") == 1`, 90_000},
		{"includes in a list of short texts", `object.short.includes("zz")`, 90_000},
		{"max of short texts", `object.short.max() == ""`, 90_000},
		{"isSorted of short texts", `object.short.isSorted()`, 90_000},
		{"sum of texts", `object.short.sum() == 1 || true`, 90_000},
		{"sum of empty lists", `object.empty.sum() == 1 || true`, 90_000},
		{"max of empty lists", `object.empty.max() == 1 || true`, 90_000},
		{"isSorted of empty lists", `object.empty.isSorted() || true`, 90_000},
		{"indexOf in a list of empty lists", `object.empty.indexOf([1]) == 1`, 90_000},
		{"sets.intersects of none and a list", `sets.intersects([], object.short)`, 90_000},
		{"sets.contains of a list and none", `sets.contains(object.short, [])`, 90_000},
		{"join that fails", `object.mixed.join("") == "" || true`, 90_000},
		{"all empty matches", `object.text.findAll("").size() == 1`, 60_000},
		{"all short matches", `object.text.findAll("a").size() == 1`, 60_000},
		{"a long text and a short one", `object.long != "b"`, 3_000},
		{"a long text and a number", `dyn(object.long) == 1`, 3_000},
		{"a long text and a key", `object.long in {"b": 1}`, 3_000},
		{"a character of a long text", `object.text.charAt(1) == ""`, 2_000},
		{"the query of a URL", `[url(object.query)].all(u, object.numbers.all(x, u.getQuery().size() == 1))`, 20_000},
		{"the path of a URL", `[url(object.path)].all(u, object.numbers.all(x, u.getEscapedPath() != ""))`, 2_000},
		{"equal URLs", `[url(object.path)].all(u, object.numbers.all(x, u == u))`, 2_000},
		{"a text that is no URL", `isURL(object.path)`, 150},
		{"a version", `isSemver(object.version)`, 50},
		{"a long text in another", `object.text.contains(object.quotes)`, 30_000_000},
		{"a long text that begins with another", `object.long.startsWith(object.long) == false`, 90_000},
		{"a long text that is less than a short one", `object.long < "b"`, 3_900},
		{"quotes", `strings.quote(object.quotes) == ""`, 3_000},
		{"keys that are inserted", `object.numbers.slice(0, 1).transformMapEntry(i, x, object.keys).size() == 1`, 5_000},
		{"a literal of many constants", `[` + strings.Repeat(`"",`, 3100) + `string(object.name)].size() == 1`, 700},
		{"a literal of many constants that fails", `[` + strings.Repeat(`1,`, 3200) + `1 / (size(object.numbers) - 10)].size() == 1 || true`, 400},
		{"a map of many constants", `{` + strings.Repeat(`"": 1,`, 800) + `string(object.name): 1}.size() == 1 || true`, 200},
		{"an && of many constants", strings.Repeat("true&&", 1600) + `object.name != ""`, 200},
		{"an || of many constants", strings.Repeat("false||", 1400) + `object.name != ""`, 170},
		{"an && of many constants in a macro", `object.numbers.all(x, ` + strings.Repeat("true&&", 1600) + `x >= 0)`, 2_000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			program, err := compiler.Compile(tc.expression)
			if err != nil {
				t.Fatal(err)
			}
			if _, cost, err := program.Eval(t.Context(), values); cost < tc.want || err != nil && !errors.Is(err, cel.ErrCost) {
				t.Errorf("got cost %d, %v, want at least %d", cost, err, tc.want)
			}
		})
	}
}

// TestLongTextsAreRefused calls functions with texts that are too long for what they read.
func TestLongTextsAreRefused(t *testing.T) {
	t.Parallel()
	compiler := newCompiler(t)
	for _, expression := range []string{
		`bool(object)`, `timestamp(0).getHours(object) == 1`, `timestamp(0).getFullYear(object) == 1`, `format.named(object).hasValue()`, `object.findAll("b") == []`,
	} {
		program, err := compiler.Compile(expression)
		if err != nil {
			t.Fatal(err)
		}
		if got, cost, err := program.Eval(t.Context(), cel.Values{cel.Object: strings.Repeat("a", 100_000)}); got || err == nil || !strings.Contains(err.Error(), "too large") {
			t.Errorf("%s: got %v, %v at cost %d, want a refusal", expression, got, err, cost)
		}
	}
}

// TestMembershipInConstants searches literals for texts, also for texts that are longer than all elements.
func TestMembershipInConstants(t *testing.T) {
	t.Parallel()
	compiler := newCompiler(t)
	for _, tc := range []struct {
		expression, object string
		want               bool
	}{
		{`object in ["a", "bc"]`, "bc", true},
		{`object in ["a", "bc"]`, "abc", false},
		{`object in [1, 2]`, "", false},
		{`object in [1, 2]`, "a", false},
		{`object in {"a": 1, "bc": 2}`, "bc", true},
		{`object in {"a": 1, "bc": 2}`, "abc", false},
		{`object in []`, "a", false},
	} {
		program, err := compiler.Compile(tc.expression)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := program.Eval(t.Context(), cel.Values{cel.Object: tc.object}); got != tc.want || err != nil {
			t.Errorf("%s for %q: got %v, %v, want %v", tc.expression, tc.object, got, err, tc.want)
		}
	}
}
