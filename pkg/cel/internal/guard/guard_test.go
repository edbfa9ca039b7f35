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
	"sync"
	"testing"

	"github.com/google/cel-go/common/types"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// TestCompilationIsBounded compiles what would keep a processor busy, or fill the memory,
// for minutes. A regression shows as a test that does not end.
func TestCompilationIsBounded(t *testing.T) {
	t.Parallel()
	const typeWork, typeParts = "takes more than 262144 copies of type variables", "may have more than 256 parts"
	compiler := compilers.Conditions(t)
	for _, tc := range []struct {
		name, expression, want string
	}{
		{name: "a chain of optMap", expression: "optional.of(true)" + strings.Repeat(".optMap(v, v)", 30) + ".value()", want: "macros expand to more than"},
		{name: "a chain of optFlatMap", expression: "optional.of(true)" + strings.Repeat(".optFlatMap(v, optional.of(v))", 30) + ".value()", want: "macros expand to more than"},
		{name: "deep lists", expression: strings.Repeat("[", 200) + strings.Repeat("]", 200) + " == []", want: "nested more than"},
		{name: "deep maps", expression: strings.Repeat("{1: ", 200) + "1" + strings.Repeat("}", 200) + " == {}", want: "nested more than"},
		{name: "a huge pattern", expression: `"x".matches("` + strings.Repeat("a{1000}", 1000) + `")`, want: "regular expressions are larger"},
		{name: "many large patterns", expression: strings.Repeat(`"x".matches("a{900}") || `, 10) + "true", want: "regular expressions are larger"},
		{name: "many patterns that take long to parse", expression: strings.Repeat(`"x".matches("(?i)[!-\uD7FF]") || `, 2) + "true", want: "regular expressions take too long to parse"},
		{name: "many patterns that are wrong and take long to parse", expression: strings.Repeat(`"x".matches("(?i)[`+strings.Repeat(`\\pL`, 10)+`") || `, 3) + "true", want: "regular expressions take too long to parse"},
		{name: "a huge pattern of find", expression: `"x".find("` + strings.Repeat("a{900}", 6) + `") == ""`, want: "regular expressions are larger"},
		{name: "a huge pattern of findAll", expression: `"x".findAll("` + strings.Repeat("a{900}", 6) + `", 1) == []`, want: "regular expressions are larger"},
		{name: "types that double", expression: "[1]" + strings.Repeat(".map(a, {a: a})", 14) + " == []", want: "more than 10 macros that make lists"},
		{name: "types that double and are compared", expression: "[1]" + strings.Repeat(".map(a, {a: a})", 9) + ".all(z, [" + strings.Repeat("z, ", 3000) + "z] == [])", want: typeParts},
		{name: "large types that are compared", expression: "[1]" + strings.Repeat(".map(a, {a: a})", 7) + ".all(z, [" + strings.Repeat("z, ", 3000) + "z] == [])", want: typeWork},
		{name: "types that double where they are compared", expression: unified(20), want: typeWork},
		{name: "wrapped types", expression: strings.Repeat("optional.of(", 60) + "1" + strings.Repeat(")", 60) + " == optional.none()", want: "more than 48 optional.of"},
		{name: "types that double behind a variable that hides another", expression: hiding(14), want: typeParts},
		{name: "qualified functions that begin with a dot", expression: strings.Repeat(".sets.contains([1],[1])||", 390) + "true", want: typeWork},
		{name: "a huge pattern of a function whose name begins with a dot", expression: `.matches("x", "` + strings.Repeat("a{900}", 6) + `")`, want: "regular expressions are larger"},
		{name: "types to be inferred", expression: "[" + strings.Repeat("{},", 2000) + "{}] == []", want: "more than 64 empty literals"},
		{name: "comparisons", expression: strings.Repeat("1==2||", 1700) + "true", want: typeWork},
		{name: "indexes", expression: strings.Repeat("object"+strings.Repeat("[0]", 100)+" || ", 30) + "true", want: typeWork},
		{name: "indexes of a macro's variable", expression: "[object].all(o, " + strings.Repeat("o"+strings.Repeat("[0]", 100)+" || ", 33) + "true)", want: typeWork},
		{name: "optional indexes", expression: strings.Repeat("object"+strings.Repeat("[?0]", 100)+".hasValue() || ", 20) + "true", want: typeWork},
		{name: "ternaries", expression: strings.Repeat("(true?true:true)||", 560) + "true", want: typeWork},
		{name: "overloads that are tried after indexes", expression: "object" + strings.Repeat("[0]", 150) + " == 1 " + strings.Repeat("||1<2", 1900), want: typeWork},
		{name: "elements after indexes", expression: "[object" + strings.Repeat("[0]", 150) + strings.Repeat(",1", 4800) + "] == []", want: typeWork},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if program, err := compiler.Compile(tc.expression); !errors.Is(err, cel.ErrCompile) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, %v, want %q", program, err, tc.want)
			}
		})
	}
}

// hiding nests macros whose types double. Each sixth result passes through a field of a variable of a macro that hides
// the variable authorizer.requestResource.
func hiding(doublings int) string {
	text, closing := "v == v", ")"
	for i := range doublings {
		text, closing = "[{v: v}].all(v, "+text, closing+")"
		if i%6 == 5 {
			text, closing = `[{"requestResource": v}].all(authorizer, [authorizer.requestResource].all(v, `+text, closing+"))"
		}
	}
	return "[1].all(v, " + text + closing
}

// unified nests macros over lists of unknown types. A comparison makes each type a map with the next type as key and value.
func unified(depth int) string {
	var macros, comparisons strings.Builder
	for i := range depth {
		fmt.Fprintf(&macros, "[[]].all(v%d, ", i)
		if i > 0 {
			fmt.Fprintf(&comparisons, "v%[1]d == [{v%[2]d: v%[2]d}] && ", i-1, i)
		}
	}
	return macros.String() + comparisons.String() + "true" + strings.Repeat(")", depth)
}

// TestEvaluationIsBounded evaluates what the cost limit does not see.
func TestEvaluationIsBounded(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	for _, tc := range []struct {
		name, expression string
		object           any
	}{
		{name: "a quantity of the expression", expression: `quantity("1e2000000000").isGreaterThan(quantity("1"))`, object: nil},
		{name: "a quantity of the object", expression: `quantity(object).isLessThan(quantity("10Gi"))`, object: "1e2000000000"},
		{name: "a tiny quantity of the object", expression: `quantity(object).isLessThan(quantity("10Gi"))`, object: "1e-2000000000"},
		{name: "a long quantity of the object", expression: `quantity(object).isLessThan(quantity("10Gi"))`, object: strings.Repeat("9", 1000000)},
		{name: "an exponent beyond every range", expression: `isQuantity(object)`, object: "1e99999999999999999999"},
		{name: "a pattern that is put together", expression: `"x".matches("a{900}a{900}a{900}" + "a{900}a{900}")`, object: nil},
		{name: "a pattern of the object", expression: `"x".matches(object)`, object: strings.Repeat("a{900}", 6)},
		{name: "a pattern of the object, for find", expression: `"x".find(object) == ""`, object: strings.Repeat("a{900}", 6)},
		{name: "a pattern of the object, for findAll", expression: `"x".findAll(object) == []`, object: strings.Repeat("a{900}", 6)},
		{name: "sets that are multiplied", expression: `sets.equivalent(object, object)`, object: numbers(20_000)},
		{name: "distinct, which compares all with all", expression: `object.distinct() == []`, object: numbers(20_000)},
		{name: "values that are compared", expression: `object == oldObject`, object: numbers(60_000)},
		{name: "a value that is looked for", expression: `object in [oldObject]`, object: numbers(60_000)},
		{name: "a replacement that multiplies", expression: `object.replace("", object) == ""`, object: strings.Repeat("a", 100_000)},
		{name: "a text that is split", expression: `object.split("") == []`, object: strings.Repeat("a", 1_000_000)},
		{name: "a number of many digits", expression: `int(object) == 1`, object: strings.Repeat("9", 1_000_000)},
		{name: "an address of many parts", expression: `isIP(object)`, object: strings.Repeat("1.", 500_000)},
		{name: "a long text that is printed often", expression: `"%s".format([lists.range(50).map(x, object)]) == "x"`, object: strings.Repeat("a", 1_000_000)},
		{name: "a long text that is compared often", expression: `lists.range(200).map(x, object) == lists.range(200).map(x, oldObject)`, object: strings.Repeat("a", 1_000_000)},
		{name: "long texts that are compared with each other", expression: `lists.range(1000).map(x, object).distinct() == []`, object: strings.Repeat("a", 30_000)},
		{name: "a list at the bottom of many", expression: `object.flatten(2000) == []`, object: nested(1_000, numbers(5_000))},
		{name: "many empty texts that are joined", expression: `object.join() == "x"`, object: slices.Repeat([]any{""}, 110_000)},
		{name: "shared parts that are walked", expression: `[1]` + strings.Repeat(".map(a, dyn([a, a]))", 10) + ` == object`, object: numbers(99_990)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			program := compilers.Compiled(t, compiler, tc.expression)
			if got, _, err := program.Eval(t.Context(), cel.Values{cel.Object: tc.object, cel.OldObject: tc.object}); got || (!errors.Is(err, cel.ErrEvaluation) && !errors.Is(err, cel.ErrCost)) {
				t.Errorf("got %v, %v, want ErrEvaluation or ErrCost", got, err)
			}
		})
	}
}

// nested returns a value in n lists.
func nested(n int, v any) any {
	for range n {
		v = []any{v}
	}
	return v
}

func numbers(n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = int64(i)
	}
	return list
}

// TestGuardsLetOrdinaryExpressionsPass makes sure that the bounds are not in the way.
func TestGuardsLetOrdinaryExpressionsPass(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	for _, expression := range []string{
		`object.?a.optMap(v, v.b).optMap(w, w == "x").orValue(false) == false`,
		`"registry.example.com/team/image:1.2".matches("^registry[.]example[.]com/[a-z0-9-]{1,63}/[^:]+:[0-9.]+$")`,
		`quantity("1.5e3").isGreaterThan(quantity("1Gi")) == false && quantity("1E").isGreaterThan(quantity("1Ei")) == false`,
		`!isQuantity("elephant") && isQuantity("100m")`,
		`[[1, 2], [3]].exists(l, 3 in l) && {"a": {"b": [1]}}["a"]["b"][0] == 1`,
		`[1, 2].map(x, {x: [x]}).all(m, m.all(k, m[k] == [k]))`,
		unified(3) + " || true",
		`"abc 123 def".find("[0-9]+") == "123" && "a1b2".findAll("[0-9]").size() == 2`,
	} {
		program, err := compiler.Compile(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if got, _, err := program.Eval(t.Context(), cel.Values{cel.Object: map[string]any{}}); !got || err != nil {
			t.Errorf("%s: got %v, %v, want true", expression, got, err)
		}
	}
}

// TestPanicsOfFunctionsAreErrors: functions that panic would end the evaluation even where
// || does not look at them.
func TestPanicsOfFunctionsAreErrors(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	for _, tc := range []struct{ name, failing string }{
		{name: "a pattern for what is no string", failing: `object.matches("a")`},
		{name: "a pattern of the object for what is no string", failing: `object.matches(operation)`},
		{name: "the cost of distinct", failing: `dyn(object).missing.distinct() == []`},
		{name: "the cost of sort", failing: `impersonatedUser.groups.sort() == []`},
		{name: "the cost of flatten", failing: `[[1]].flatten(dyn("x")) == []`},
		{name: "a key that cannot be hashed, of an element", failing: `{"a": 1}[dyn(semver("1.2.3"))] == 1`},
		{name: "a key that cannot be hashed", failing: `{semver("1.2.3"): 1}.size() == 1`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for text, want := range map[string]error{tc.failing: cel.ErrEvaluation, "(" + tc.failing + ") || object.size() == 0": nil} {
				program := compilers.Compiled(t, compiler, text)
				got, _, err := program.Eval(t.Context(), cel.Values{cel.Object: map[string]any{}, cel.Operation: "("})
				if !errors.Is(err, want) || got != (want == nil) {
					t.Errorf("%s: got %v, %v, want %v, %v", text, got, err, want == nil, want)
				}
			}
		})
	}
	for _, text := range []string{`!(dyn(semver("1.2.3")) in ["a", "b"])`, `!(dyn(semver("1.2.3")) in {"a": 1})`, `!(dyn(semver("1.2.3")) in {object: 1})`} {
		program := compilers.Compiled(t, compiler, text)
		if got, _, err := program.Eval(t.Context(), cel.Values{cel.Object: "x"}); !got || err != nil {
			t.Errorf("what cannot be hashed is in nothing that is: %s: got %v, %v, want true", text, got, err)
		}
	}
}

// TestSharedErrorsDoNotRace evaluates at once what ends in errors that cel-go shares. It
// takes the race detector to fail; that they are labelled is checked anyway.
func TestSharedErrorsDoNotRace(t *testing.T) {
	t.Parallel()
	if e, ok := types.NoSuchOverloadErr().(*types.Err); !ok || e.NodeID() == 0 {
		t.Error("the error of overloads has no label")
	}
	compiler := compilers.Conditions(t)
	for _, text := range []string{`object.a / object.b == 1`, `timestamp(object.c) == timestamp(0)`} {
		program := compilers.Compiled(t, compiler, text)
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				values := cel.Values{cel.Object: map[string]any{"a": "x", "b": nil, "c": int64(1 << 62)}}
				if _, _, err := program.Eval(t.Context(), values); err == nil {
					t.Errorf("%s: got no error", text)
				}
			})
		}
		group.Wait()
	}
}
