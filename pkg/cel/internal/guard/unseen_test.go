/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/test/testutil/cases"
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

// countedList is a list that counts how often elements are read from it. It has the same element at
// every index, which may be another countedList: a value that takes little memory and has
// many parts.
type countedList struct {
	traits.Lister
	reads *int
}

var errManyReads = errors.New("a function reads too many elements")

// Get returns an element. It fails after many reads, so that a test of an unbounded walk ends.
func (l countedList) Value() any { return l } // not converted

func (l countedList) Get(i ref.Val) ref.Val {
	if *l.reads++; *l.reads > 2_000_000 {
		panic(errManyReads)
	}
	return l.Lister.Get(i)
}

func (l countedList) Iterator() traits.Iterator { return &countedIterator{list: l} }

type countedIterator struct {
	ref.Val
	list countedList
	next types.Int
}

func (i *countedIterator) HasNext() ref.Val { return types.Bool(i.next < i.list.Size().(types.Int)) }

func (i *countedIterator) Next() ref.Val {
	i.next++
	return i.list.Get(i.next - 1)
}

// counted returns a list with n elements.
func counted(n int, element ref.Val, reads *int) ref.Val {
	elements := make([]ref.Val, n)
	for i := range elements {
		elements[i] = element
	}
	return countedList{types.DefaultTypeAdapter.NativeToValue(elements).(traits.Lister), reads}
}

// shared returns a list of 1 or more levels, each with 8 times the level below.
func shared(levels int, element ref.Val, reads *int) ref.Val {
	for range levels {
		element = counted(8, element, reads)
	}
	return element
}

// calls returns an expression for each overload of each function that takes arguments: each argument
// is a variable, or a constant if there is a number.
func calls(t *testing.T) (result []string) {
	t.Helper()
	environment, err := cel.NewConditionEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	compiler := cel.NewCompilerFor(environment)
	seen := map[string]bool{}
	for name, function := range environment.Engine().Env.Functions() {
		for _, overload := range function.OverloadDecls() {
			n := len(overload.ArgTypes())
			args := []string{"dyn(object)", "dyn(oldObject)", "dyn(oldObject)", "dyn(oldObject)"}
			if n == 0 || n > len(args) {
				continue
			}
			for _, call := range []string{
				fmt.Sprintf("%s(%s)", name, strings.Join(args[:n], ", ")),
				fmt.Sprintf("%s.%s(%s)", args[0], name, strings.Join(args[1:n], ", ")),
				strings.Replace(strings.Replace(strings.Trim(name, "@"), "_", args[0], 1), "_", args[1], 1),
				fmt.Sprintf("%s in %s", args[0], args[1]),
			} {
				text := "[" + call + "].size() == 7"
				if _, err := compiler.Compile(text); err == nil && !seen[text] {
					seen[text] = true
					result = append(result, text)
				}
			}
		}
	}
	if len(result) < 100 {
		t.Fatalf("got %d calls, too few to be all: %v", len(result), result)
	}
	return result
}

// TestNoFunctionWalksSharedValuesUnbounded calls every function of the environment with values of up
// to 8^9 parts. Nothing may read more than some parts, neither the function nor the count of what it costs.
func TestNoFunctionWalksSharedValuesUnbounded(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	const bound = 1_000_000
	expressions := calls(t)
	for c := cases.Of(len(expressions)); c.Next(); {
		expression := expressions[c.Number()]
		for name, element := range map[string]ref.Val{"numbers": types.Int(1), "texts": types.String("a"), "empty lists": types.DefaultTypeAdapter.NativeToValue([]any{})} {
			for _, other := range []string{"the same", "a number"} {
				var reads int
				values := cel.Values{cel.Object: shared(9, element, &reads), cel.OldObject: shared(9, element, &reads)}
				if other == "a number" {
					values[cel.OldObject] = int64(100)
				}
				program := compilers.Compiled(t, compiler, expression)
				_, cost, err := program.Eval(t.Context(), values)
				if reads > bound || uint64(reads) > 100+4*cost {
					t.Errorf("%s of %s and %s: got %d reads for %d units, %.100v", expression, name, other, reads, cost, err)
				}
			}
		}
	}
}

// TestValuesThatHoldThemselves evaluates what a short condition can make: macros that put a value
// eight times into a list, again and again.
func TestValuesThatHoldThemselves(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	value := `[dyn(object)]` + strings.Repeat(".map(a, [a, a, a, a, a, a, a, a])", 9)
	long := `[[1]]` + strings.Repeat(".map(a, a + a + a + a + a + a + a + a)", 8)
	for _, tc := range []struct{ name, expression string }{
		{name: "flatten", expression: value + `.flatten(100).size() == 1`},
		{name: "sum", expression: "dyn(" + value + `).sum() == 1`},
		{name: "min", expression: "dyn(" + value + `).min() == 1`},
		{name: "max", expression: "dyn(" + value + `).max() == 1`},
		{name: "isSorted", expression: "dyn(" + value + `).isSorted()`},
		{name: "includes", expression: value + `.includes(dyn(1))`},
		{name: "indexOf", expression: value + `.indexOf(dyn(1)) == 1`},
		{name: "lastIndexOf", expression: value + `.lastIndexOf(dyn(1)) == 1`},
		{name: "sort", expression: "dyn(" + value + `).sort() == []`},
		{name: "join", expression: "dyn(" + value + `).join() == ""`},
		{name: "reverse of a long list", expression: long + `.map(a, a.reverse().size()) == []`},
		{name: "slice of a long list", expression: long + `.map(a, a.slice(0, 16000000).size()) == []`},
		{name: "sort of a long list", expression: long + `.map(a, a.sort().size()) == []`},
		{name: "sum of a long list", expression: long + `.map(a, a.sum()) == []`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			program := compilers.Compiled(t, compiler, tc.expression)
			if got, cost, err := program.Eval(t.Context(), cel.Values{cel.Object: int64(1)}); got || (!errors.Is(err, cel.ErrEvaluation) && !errors.Is(err, cel.ErrCost)) {
				t.Errorf("got %v, %v at cost %d, want a refusal", got, err, cost)
			}
		})
	}
}
