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

	"github.com/proviso-authz/proviso/pkg/cel"
)

func newCompiler(tb testing.TB) *cel.Compiler {
	tb.Helper()
	c, err := cel.NewCompiler()
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// TestCompilationIsBounded compiles what would keep a processor busy, or fill the memory,
// for minutes. A regression shows as a test that does not end.
func TestCompilationIsBounded(t *testing.T) {
	t.Parallel()
	const typeWork, typeParts = "takes more than 262144 copies of type variables", "may have more than 256 parts"
	compiler := newCompiler(t)
	for _, tc := range []struct {
		name, expression, want string
	}{
		{"a chain of optMap", "optional.of(true)" + strings.Repeat(".optMap(v, v)", 30) + ".value()", "macros expand to more than"},
		{"a chain of optFlatMap", "optional.of(true)" + strings.Repeat(".optFlatMap(v, optional.of(v))", 30) + ".value()", "macros expand to more than"},
		{"deep lists", strings.Repeat("[", 200) + strings.Repeat("]", 200) + " == []", "nested more than"},
		{"deep maps", strings.Repeat("{1: ", 200) + "1" + strings.Repeat("}", 200) + " == {}", "nested more than"},
		{"a huge pattern", `"x".matches("` + strings.Repeat("a{1000}", 1000) + `")`, "regular expressions are larger"},
		{"many large patterns", strings.Repeat(`"x".matches("a{900}") || `, 10) + "true", "regular expressions are larger"},
		{"many patterns that take long to parse", strings.Repeat(`"x".matches("(?i)[!-\uD7FF]") || `, 2) + "true", "regular expressions take too long to parse"},
		{"many patterns that are wrong and take long to parse", strings.Repeat(`"x".matches("(?i)[`+strings.Repeat(`\\pL`, 10)+`") || `, 3) + "true", "regular expressions take too long to parse"},
		{"a huge pattern of find", `"x".find("` + strings.Repeat("a{900}", 6) + `") == ""`, "regular expressions are larger"},
		{"a huge pattern of findAll", `"x".findAll("` + strings.Repeat("a{900}", 6) + `", 1) == []`, "regular expressions are larger"},
		{"types that double", "[1]" + strings.Repeat(".map(a, {a: a})", 14) + " == []", "more than 10 macros that make lists"},
		{"types that double and are compared", "[1]" + strings.Repeat(".map(a, {a: a})", 9) + ".all(z, [" + strings.Repeat("z, ", 3000) + "z] == [])", typeParts},
		{"large types that are compared", "[1]" + strings.Repeat(".map(a, {a: a})", 7) + ".all(z, [" + strings.Repeat("z, ", 3000) + "z] == [])", typeWork},
		{"types that double where they are compared", unified(20), typeWork},
		{"wrapped types", strings.Repeat("optional.of(", 60) + "1" + strings.Repeat(")", 60) + " == optional.none()", "more than 48 optional.of"},
		{"types that double behind a variable that hides another", hiding(14), typeParts},
		{"qualified functions that begin with a dot", strings.Repeat(".sets.contains([1],[1])||", 390) + "true", typeWork},
		{"a huge pattern of a function whose name begins with a dot", `.matches("x", "` + strings.Repeat("a{900}", 6) + `")`, "regular expressions are larger"},
		{"types to be inferred", "[" + strings.Repeat("{},", 2000) + "{}] == []", "more than 64 empty literals"},
		{"comparisons", strings.Repeat("1==2||", 1700) + "true", typeWork},
		{"indexes", strings.Repeat("object"+strings.Repeat("[0]", 100)+" || ", 30) + "true", typeWork},
		{"indexes of a macro's variable", "[object].all(o, " + strings.Repeat("o"+strings.Repeat("[0]", 100)+" || ", 33) + "true)", typeWork},
		{"optional indexes", strings.Repeat("object"+strings.Repeat("[?0]", 100)+".hasValue() || ", 20) + "true", typeWork},
		{"ternaries", strings.Repeat("(true?true:true)||", 560) + "true", typeWork},
		{"overloads that are tried after indexes", "object" + strings.Repeat("[0]", 150) + " == 1 " + strings.Repeat("||1<2", 1900), typeWork},
		{"elements after indexes", "[object" + strings.Repeat("[0]", 150) + strings.Repeat(",1", 4800) + "] == []", typeWork},
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
	compiler := newCompiler(t)
	for _, tc := range []struct {
		name, expression string
		object           any
	}{
		{"a quantity of the expression", `quantity("1e2000000000").isGreaterThan(quantity("1"))`, nil},
		{"a quantity of the object", `quantity(object).isLessThan(quantity("10Gi"))`, "1e2000000000"},
		{"a tiny quantity of the object", `quantity(object).isLessThan(quantity("10Gi"))`, "1e-2000000000"},
		{"a long quantity of the object", `quantity(object).isLessThan(quantity("10Gi"))`, strings.Repeat("9", 1000000)},
		{"an exponent beyond every range", `isQuantity(object)`, "1e99999999999999999999"},
		{"a pattern that is put together", `"x".matches("a{900}a{900}a{900}" + "a{900}a{900}")`, nil},
		{"a pattern of the object", `"x".matches(object)`, strings.Repeat("a{900}", 6)},
		{"a pattern of the object, for find", `"x".find(object) == ""`, strings.Repeat("a{900}", 6)},
		{"a pattern of the object, for findAll", `"x".findAll(object) == []`, strings.Repeat("a{900}", 6)},
		{"sets that are multiplied", `sets.equivalent(object, object)`, numbers(20_000)},
		{"distinct, which compares all with all", `object.distinct() == []`, numbers(20_000)},
		{"values that are compared", `object == oldObject`, numbers(60_000)},
		{"a value that is looked for", `object in [oldObject]`, numbers(60_000)},
		{"a replacement that multiplies", `object.replace("", object) == ""`, strings.Repeat("a", 100_000)},
		{"a text that is split", `object.split("") == []`, strings.Repeat("a", 1_000_000)},
		{"a number of many digits", `int(object) == 1`, strings.Repeat("9", 1_000_000)},
		{"an address of many parts", `isIP(object)`, strings.Repeat("1.", 500_000)},
		{"a long text that is printed often", `"%s".format([lists.range(50).map(x, object)]) == "x"`, strings.Repeat("a", 1_000_000)},
		{"a long text that is compared often", `lists.range(200).map(x, object) == lists.range(200).map(x, oldObject)`, strings.Repeat("a", 1_000_000)},
		{"long texts that are compared with each other", `lists.range(1000).map(x, object).distinct() == []`, strings.Repeat("a", 30_000)},
		{"a list at the bottom of many", `object.flatten(2000) == []`, nested(1_000, numbers(5_000))},
		{"many empty texts that are joined", `object.join() == "x"`, slices.Repeat([]any{""}, 110_000)},
		{"shared parts that are walked", `[1]` + strings.Repeat(".map(a, dyn([a, a]))", 10) + ` == object`, numbers(99_990)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			program, err := compiler.Compile(tc.expression)
			if err != nil {
				t.Fatal(err)
			}
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
	compiler := newCompiler(t)
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
	compiler := newCompiler(t)
	for _, tc := range []struct{ name, failing string }{
		{"a pattern for what is no string", `object.matches("a")`},
		{"a pattern of the object for what is no string", `object.matches(operation)`},
		{"the cost of distinct", `dyn(object).missing.distinct() == []`},
		{"the cost of sort", `impersonatedUser.groups.sort() == []`},
		{"the cost of flatten", `[[1]].flatten(dyn("x")) == []`},
		{"a key that cannot be hashed, of an element", `{"a": 1}[dyn(semver("1.2.3"))] == 1`},
		{"a key that cannot be hashed", `{semver("1.2.3"): 1}.size() == 1`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for text, want := range map[string]error{tc.failing: cel.ErrEvaluation, "(" + tc.failing + ") || object.size() == 0": nil} {
				program, err := compiler.Compile(text)
				if err != nil {
					t.Fatal(err)
				}
				got, _, err := program.Eval(t.Context(), cel.Values{cel.Object: map[string]any{}, cel.Operation: "("})
				if !errors.Is(err, want) || got != (want == nil) {
					t.Errorf("%s: got %v, %v, want %v, %v", text, got, err, want == nil, want)
				}
			}
		})
	}
	for _, text := range []string{`!(dyn(semver("1.2.3")) in ["a", "b"])`, `!(dyn(semver("1.2.3")) in {"a": 1})`, `!(dyn(semver("1.2.3")) in {object: 1})`} {
		program, err := compiler.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := program.Eval(t.Context(), cel.Values{cel.Object: "x"}); !got || err != nil {
			t.Errorf("what cannot be hashed is in nothing that is: %s: got %v, %v, want true", text, got, err)
		}
	}
}
