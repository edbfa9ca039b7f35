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
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// TestCostOfEveryFunction calls every function of the environment with long texts, which the tracker
// reads whatever the function does, and with lists of elements that the estimator of Kubernetes counts as nothing. Each
// call must cost more than a call with small values, also if it fails.
func TestCostOfEveryFunction(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	const bytesPerUnit, readsPerUnit = 512, 4
	long := types.String(strings.Repeat("a", 200_000))
	empty := types.DefaultTypeAdapter.NativeToValue([]any{})
	for _, expression := range calls(t) {
		if !readsValues(expression) {
			continue
		}
		program := compilers.Compiled(t, compiler, expression)
		for _, other := range []ref.Val{types.String("a"), types.Int(1), long} {
			if _, cost, err := program.Eval(t.Context(), cel.Values{cel.Object: long, cel.OldObject: other}); cost < uint64(len(long))/bytesPerUnit {
				t.Errorf("%s of a long text and %.10v: got %d units, %.100v", expression, other, cost, err)
			}
		}
		for name, element := range map[string]ref.Val{"texts": types.String("a"), "lists": empty, "optionals": types.OptionalOf(types.String("a"))} {
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
		"type", "first", "last", "reverse", "slice", "lists.range", "optional.of", "optional.ofNonZeroValue", "optional.none", "hasValue", "value", "or", "orValue",
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
	compiler := compilers.Conditions(t)
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
		{name: "indexOf in a list of short texts", expression: `object.short.indexOf("zz") == 1`, want: 90_000},
		{name: "lastIndexOf in a list of short texts", expression: `object.short.lastIndexOf("zz") == 1`, want: 90_000},
		{name: "includes in a list of short texts", expression: `object.short.includes("zz")`, want: 90_000},
		{name: "max of short texts", expression: `object.short.max() == ""`, want: 90_000},
		{name: "isSorted of short texts", expression: `object.short.isSorted()`, want: 90_000},
		{name: "sum of texts", expression: `object.short.sum() == 1 || true`, want: 90_000},
		{name: "sum of empty lists", expression: `object.empty.sum() == 1 || true`, want: 90_000},
		{name: "max of empty lists", expression: `object.empty.max() == 1 || true`, want: 90_000},
		{name: "isSorted of empty lists", expression: `object.empty.isSorted() || true`, want: 90_000},
		{name: "indexOf in a list of empty lists", expression: `object.empty.indexOf([1]) == 1`, want: 90_000},
		{name: "sets.intersects of none and a list", expression: `sets.intersects([], object.short)`, want: 90_000},
		{name: "sets.contains of a list and none", expression: `sets.contains(object.short, [])`, want: 90_000},
		{name: "join that fails", expression: `object.mixed.join("") == "" || true`, want: 90_000},
		{name: "all empty matches", expression: `object.text.findAll("").size() == 1`, want: 60_000},
		{name: "all short matches", expression: `object.text.findAll("a").size() == 1`, want: 60_000},
		{name: "a long text and a short one", expression: `object.long != "b"`, want: 3_000},
		{name: "a long text and a number", expression: `dyn(object.long) == 1`, want: 3_000},
		{name: "a long text and a key", expression: `object.long in {"b": 1}`, want: 3_000},
		{name: "a character of a long text", expression: `object.text.charAt(1) == ""`, want: 2_000},
		{name: "the query of a URL", expression: `[url(object.query)].all(u, object.numbers.all(x, u.getQuery().size() == 1))`, want: 20_000},
		{name: "the path of a URL", expression: `[url(object.path)].all(u, object.numbers.all(x, u.getEscapedPath() != ""))`, want: 2_000},
		{name: "equal URLs", expression: `[url(object.path)].all(u, object.numbers.all(x, u == u))`, want: 2_000},
		{name: "a text that is no URL", expression: `isURL(object.path)`, want: 150},
		{name: "a version", expression: `isSemver(object.version)`, want: 50},
		{name: "a long text in another", expression: `object.text.contains(object.quotes)`, want: 30_000_000},
		{name: "a long text that begins with another", expression: `object.long.startsWith(object.long) == false`, want: 90_000},
		{name: "a long text that is less than a short one", expression: `object.long < "b"`, want: 3_900},
		{name: "quotes", expression: `strings.quote(object.quotes) == ""`, want: 3_000},
		{name: "keys that are inserted", expression: `object.numbers.slice(0, 1).transformMapEntry(i, x, object.keys).size() == 1`, want: 5_000},
		{name: "a long text that is no optional, and is printed in the error", expression: `optional.unwrap([dyn(object.long)]).size() == 1 || true`, want: 1_500},
		{name: "a literal of many constants", expression: `[` + strings.Repeat(`"",`, 3100) + `string(object.name)].size() == 1`, want: 700},
		{name: "a literal of many constants that fails", expression: `[` + strings.Repeat(`1,`, 3200) + `1 / (size(object.numbers) - 10)].size() == 1 || true`, want: 400},
		{name: "a map of many constants", expression: `{` + strings.Repeat(`"": 1,`, 800) + `string(object.name): 1}.size() == 1 || true`, want: 200},
		{name: "an && of many constants", expression: strings.Repeat("true&&", 1600) + `object.name != ""`, want: 200},
		{name: "an || of many constants", expression: strings.Repeat("false||", 1400) + `object.name != ""`, want: 170},
		{name: "an && of many constants in a macro", expression: `object.numbers.all(x, ` + strings.Repeat("true&&", 1600) + `x >= 0)`, want: 2_000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			program := compilers.Compiled(t, compiler, tc.expression)
			if _, cost, err := program.Eval(t.Context(), values); cost < tc.want || err != nil && !errors.Is(err, cel.ErrCost) {
				t.Errorf("got cost %d, %v, want at least %d", cost, err, tc.want)
			}
		})
	}
}

// TestLongTextsAreRefused calls functions with texts that are too long for what they read.
func TestLongTextsAreRefused(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	for _, expression := range []string{
		`bool(object)`, `timestamp(0).getHours(object) == 1`, `timestamp(0).getFullYear(object) == 1`, `format.named(object).hasValue()`, `object.findAll("b") == []`,
	} {
		program := compilers.Compiled(t, compiler, expression)
		if got, cost, err := program.Eval(t.Context(), cel.Values{cel.Object: strings.Repeat("a", 100_000)}); got || err == nil || !strings.Contains(err.Error(), "too large") {
			t.Errorf("%s: got %v, %v at cost %d, want a refusal", expression, got, err, cost)
		}
	}
}

// TestMembershipInConstants searches literals for texts, also for texts that are longer than all elements.
func TestMembershipInConstants(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	for _, tc := range []struct {
		expression, object string
		want               bool
	}{
		{expression: `object in ["a", "bc"]`, object: "bc", want: true},
		{expression: `object in ["a", "bc"]`, object: "abc", want: false},
		{expression: `object in [1, 2]`, object: "", want: false},
		{expression: `object in [1, 2]`, object: "a", want: false},
		{expression: `object in {"a": 1, "bc": 2}`, object: "bc", want: true},
		{expression: `object in {"a": 1, "bc": 2}`, object: "abc", want: false},
		{expression: `object in []`, object: "a", want: false},
	} {
		program := compilers.Compiled(t, compiler, tc.expression)
		if got, _, err := program.Eval(t.Context(), cel.Values{cel.Object: tc.object}); got != tc.want || err != nil {
			t.Errorf("%s for %q: got %v, %v, want %v", tc.expression, tc.object, got, err, tc.want)
		}
	}
}
