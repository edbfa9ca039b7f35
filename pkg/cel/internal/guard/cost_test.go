/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
	"github.com/proviso-authz/proviso/test/testutil/rows"
)

// pairs returns n maps of two parts each.
func pairs(n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = map[string]any{"a": int64(i)}
	}
	return list
}

func texts(n, length int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = strings.Repeat("a", length) + fmt.Sprint(i)
	}
	return list
}

// lists returns n lists of numbers that differ in the last one only.
func lists(n, length int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = append(numbers(length-1), int64(-i))
	}
	return all
}

// TestCostOfWork evaluates expressions over large values. Each must cost at least what its work
// is worth, in units that take about as long as a step of a macro; the trackers of cel-go and
// Kubernetes count some of them at 5 units.
func TestCostOfWork(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	object := map[string]any{
		"dense": map[string]any{"x": pairs(16_000)}, "long": strings.Repeat("a", 1_000_000), "text": strings.Repeat("a", 64_000), "short": strings.Repeat("a", 4_000),
		"texts": texts(1_000, 1_000), "numbers": numbers(20_000), "lists": lists(100, 480), "one": []any{numbers(90_000)},
	}
	values := cel.Values{cel.Object: object, cel.OldObject: object}
	type row struct {
		Expression string
		Want       uint64 // at least
	}
	rows.Run(t, "testdata/work.yaml", func(t *testing.T, tc row) {
		program := compilers.Compiled(t, compiler, tc.Expression)
		_, cost, err := program.Eval(t.Context(), values)
		if cost < tc.Want || err != nil && !errors.Is(err, cel.ErrCost) {
			t.Errorf("got cost %d, %v, want at least %d", cost, err, tc.Want)
		}
	})
}

// TestCostGrowsWithWork evaluates expressions over a text or list of n and of up to 8n parts. What
// takes more time must cost more units, also if the text that a pattern is tried on is empty, and
// if the pattern is wrong.
func TestCostGrowsWithWork(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	const n = 20
	for _, tc := range []struct {
		name, expression, part string
		want                   uint64 // at least, for n
	}{
		{name: "a pattern on the empty text", expression: `"".matches(object.x)`, part: "a", want: 90},
		{name: "a pattern that is wrong", expression: `"".matches("(" + object.x) || true`, part: "a", want: 90},
		{name: "a pattern that is found", expression: `"".find(object.x) == "x"`, part: "a", want: 90},
		{name: "all patterns that are found", expression: `"".findAll(object.x).size() == 1`, part: "a", want: 90},
		{name: "classes of letters", expression: `"".matches(object.x)`, part: `\pL`, want: 10_000},
		{name: "repeated instructions", expression: `"".matches(object.x)`, part: "a{9}", want: 400},
		{name: "a text that is looked for", expression: `(object.x + object.x + object.x).indexOf(object.x + "b") == 1`, part: strings.Repeat("a", 8), want: 200},
		{name: "a text that is looked for from the end", expression: `(object.x + object.x + object.x).lastIndexOf("b" + object.x) == 1`, part: strings.Repeat("a", 8), want: 200},
		{name: "values that are formatted", expression: `object.x.format(object.list) == "x"`, part: "%s", want: 300},
		{name: "digits that are formatted", expression: `object.list.all(x, "%.99f".format([double(x)]) != "x")`, want: 700},
		{name: "time zones", expression: `object.list.all(x, timestamp(0).getHours("Europe/Vienna") == 1)`, want: 5_000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			program := compilers.Compiled(t, compiler, tc.expression)
			var costs []uint64
			for _, n := range []int{n, 8 * n} {
				part := tc.part
				if len(part)*n > 180 && strings.Contains(tc.expression, "matches(") {
					n = 180 / len(part) // a longer one is refused
				}
				_, cost, _ := program.Eval(t.Context(), cel.Values{cel.Object: map[string]any{"x": strings.Repeat(part, n), "list": numbers(n)}})
				costs = append(costs, cost)
			}
			if costs[0] < tc.want || 2*costs[1] < 3*costs[0] {
				t.Errorf("got costs %v, want at least %d and half as much again", costs, tc.want)
			}
		})
	}
}

// TestPatternsThatTakeLongToParse asks that a pattern is refused before it is parsed if that takes
// long, and at run time if it is long and not a constant.
func TestPatternsThatTakeLongToParse(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	for _, pattern := range []string{
		strings.Repeat(`(?i:\\pL)`, 280), `(?i)[A-\\x{1e942}]`, `(?i)[B-\U0001e942]`, `(?sU-i)[B-\U0001e942]`, strings.Repeat(`[\\PL]`, 200),
	} {
		if _, err := compiler.Compile(`"".matches("` + pattern + `")`); !errors.Is(err, cel.ErrCompile) {
			t.Errorf("%.40s: got %v, want ErrCompile", pattern, err)
		}
		program := compilers.Compiled(t, compiler, `"".matches("`+pattern+`" + object)`)
		if _, cost, err := program.Eval(t.Context(), cel.Values{cel.Object: ""}); !errors.Is(err, cel.ErrEvaluation) || cost > 2_000 {
			t.Errorf("%.40s in parts: got cost %d, %v, want a refusal", pattern, cost, err)
		}
	}
	for _, pattern := range []string{`(?i)^[a-z]+-[а-я]+$`, strings.Repeat("a", 300), `^\\p{Lu}\\p{Ll}*$`} {
		if _, err := compiler.Compile(`object.matches("` + pattern + `")`); err != nil {
			t.Errorf("%.40s: got %v, want none", pattern, err)
		}
	}
	program := compilers.Compiled(t, compiler, `"".matches(object)`)
	for _, tc := range []struct {
		length int
		failed bool
	}{{length: 256, failed: false}, {length: 257, failed: true}} {
		_, _, err := program.Eval(t.Context(), cel.Values{cel.Object: strings.Repeat("a", tc.length)})
		if failed := err != nil; failed != tc.failed {
			t.Errorf("a dynamic pattern of %d bytes: got %v, want an error: %t", tc.length, err, tc.failed)
		}
	}
}

// TestWorkEndsMacros repeats what costs little by the trackers of Kubernetes. The cost limit must
// end it after a few of its steps, whatever || does with errors.
func TestWorkEndsMacros(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	object := map[string]any{
		"dense": map[string]any{"x": pairs(16_000)}, "long": strings.Repeat("a", 1_000_000), "short": strings.Repeat("a", 4_000), "numbers": numbers(20_000), "texts": texts(1_000, 1_000),
	}
	for _, expression := range []string{
		`object.numbers.all(x, object.dense == oldObject.dense)`,
		`object.numbers.exists(x, object.dense != oldObject.dense) || true`,
		`object.numbers.all(x, object.long.size() > 0)`,
		`object.numbers.all(x, object.texts.sort().size() > 0)`,
		`object.numbers.all(x, object.texts.sortBy(t, t).size() > 0)`,
		`object.numbers.all(x, !object.short.matches("(a?){900}(a?){100}b"))`,
		`[object.texts.map(t, optional.of(t))].all(l, object.numbers.all(x, optional.unwrap(l).size() > 0))`,
		`[object.texts.map(t, optional.of(t))].all(l, object.numbers.all(x, l.unwrapOpt().size() > 0))`,
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			program := compilers.Compiled(t, compiler, expression)
			if got, cost, err := program.Eval(t.Context(), cel.Values{cel.Object: object, cel.OldObject: object}); got || !errors.Is(err, cel.ErrCost) {
				t.Errorf("got %v, %v at cost %d, want ErrCost", got, err, cost)
			}
		})
	}
}

// TestEvaluationNeedsAContext evaluates after the end of a request, also what has no macros.
func TestEvaluationNeedsAContext(t *testing.T) {
	t.Parallel()
	program := compilers.Compiled(t, compilers.Conditions(t), `object == oldObject`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, cost, err := program.Eval(ctx, cel.Values{cel.Object: int64(1), cel.OldObject: int64(1)}); got || cost != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v at cost %d, want context.Canceled at no cost", got, err, cost)
	}
}

// cancelling is data that ends the context when its field is read.
type cancelling struct {
	cancel context.CancelFunc
	read   *[]string
}

func (c cancelling) Field(key string) (cel.Value, bool) {
	*c.read = append(*c.read, key)
	c.cancel()
	return cel.Text("a"), true
}

func (c cancelling) Whole() cel.Value { return cel.Text("") }

// TestEvaluationEndsWithItsContext ends the context while an expression is evaluated. The next
// function must not be called, and no || absorbs the end.
func TestEvaluationEndsWithItsContext(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	for _, expression := range []string{
		`object.a.matches("b") || object.b.matches("b") || true`,
		`object.a.find("b") == "x" || object.b.lowerAscii() == "b" || true`,
		`object.a in dyn([oldObject]) || object.b == oldObject || object.a == "a"`,
		`[1].exists(x, object.a == "b") || [1].exists(x, object.b.matches("b")) || true`,
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			program := compilers.Compiled(t, compiler, expression)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var read []string
			object := cel.Lazy(cancelling{cancel: cancel, read: &read})
			got, _, err := program.Eval(ctx, cel.Values{cel.Object: object, cel.OldObject: "x"})
			if got || !errors.Is(err, context.Canceled) || len(read) != 1 {
				t.Errorf("got %v, %v, having read %v, want context.Canceled after a", got, err, read)
			}
		})
	}
}

// TestCostIsThatOfKubernetes asks that what bounds expressions here does not make them
// cost more than where Kubernetes evaluates them, as long as values are small.
func TestCostIsThatOfKubernetes(t *testing.T) {
	t.Parallel()
	environment, err := cel.NewConditionEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	compiler, env := cel.NewCompilerFor(environment), environment.Engine().Env
	object := map[string]any{"a": map[string]any{"b": map[string]any{"c": "x"}}, "list": []any{"x", "y"}, "n": int64(1), "key": "a"}
	for _, expression := range []string{
		`object.n == 1`,
		`object.a.b.c == "x"`,
		`object["a"].b["c"].startsWith("x")`,
		`object[object.key].b.c == "x"`,
		`object.list.all(e, e.size() == 1 && object.a.b.c == "x")`,
		`object.list[0] == "x" && object.list.exists(e, e == object.a.b.c)`,
		`object.list.all(e, !object.a[?e].hasValue() && !object.a[?"z" + e].hasValue() && !object.a[?dyn(e)].hasValue())`,
		`object.list.all(e, object.a[e == "x" ? "b" : "b"].c == "x" && object[e == "x" ? object.key : object["key"]].b.c == "x")`,
		`object[object.?b.orValue("key")] == "a" && object[object.list.first().value() + "" == "x" ? "key" : "b"] == "a"`,
		`object[object.?key.optMap(k, k).value()].b.c == "x" && {object.?key.optMap(k, k).value(): 1}.size() == 1`,
		`object.list.all(e, object[?e].hasValue() || object[?dyn(object)[object.key].b.c].orValue(1) == 1)`,
		`object.list.all(e, {e: 1}[e] == 1 && {(e == "x" ? object : object).key: e}.size() == 1 && {(e == "x" ? e : "y"): e}.size() == 1)`,
		`{dyn(object.key): object.n, dyn(object)["key"]: object.n, object.list[0]: object.n}.size() == 2 && {"b" + object.key: 1}.size() == 1`,
		`{?object.key: object.?n, object.a.b.c: object.n}.size() == 2`,
		`object[has(object.n) ? "a" : "b"].b.c == "x" && {true: 1}[has(object.n)] == 1 && {has(object.n): 1}.size() == 1`,
		`!object.?a[?object.key].hasValue() && [object[optional.of("key").value()]][object.n - 1] == "a"`,
		`(object.n == 1 ? object.a.b : object.a).c == "x"`,
		`object.?a.?b.?c.orValue("y") == "x"`,
		`[object.a.b.c, dyn("y")].size() == 2 && {"k": object.n}.k == 1`,
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			program := compilers.Compiled(t, compiler, expression)
			checked, issues := env.Compile(expression)
			if issues.Err() != nil {
				t.Fatal(issues.Err())
			}
			plain, err := env.Program(checked, celgo.CostTracking(&library.CostEstimator{}))
			if err != nil {
				t.Fatal(err)
			}
			value, details, err := plain.Eval(map[string]any{"object": object})
			if err != nil || value != types.True {
				t.Fatalf("got %v, %v", value, err)
			}
			got, cost, err := program.Eval(t.Context(), cel.Values{cel.Object: object})
			if want := *details.ActualCost(); !got || err != nil || cost != want {
				t.Errorf("got %t, %v at cost %d, want true at cost %d", got, err, cost, want)
			}
		})
	}
}

// TestLongKeysAreCharged looks up long texts, which a map hashes, and makes maps with them. Every text must be paid for,
// also if the lookup or the map fails.
func TestLongKeysAreCharged(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	const size, bytesPerUnit = 1 << 20, 300
	type row struct {
		Expression string
		Texts      uint64
	}
	rows.Run(t, "testdata/keys.yaml", func(t *testing.T, tc row) {
		program := compilers.Compiled(t, compiler, tc.Expression)
		var costs []uint64
		for _, size := range []int{8, size} {
			text := strings.Repeat("a", size)
			object := map[string]any{"text": text, "texts": []any{text}, "long": map[string]any{text: text}, "map": map[string]any{"a": int64(1)}, "n": int64(1), "name": "a"}
			_, cost, err := program.Eval(t.Context(), cel.Values{cel.Object: object})
			if cost == 0 {
				t.Errorf("got %v at no cost", err)
			}
			costs = append(costs, cost)
		}
		if got, want := costs[1]-costs[0], tc.Texts*size/bytesPerUnit; got < want {
			t.Errorf("a long text costs %d units more than a short one, want at least %d", got, want)
		}
	})
}

// TestLongKeysInMacros looks a long text up in nested macros. The cost limit must end the evaluation soon.
func TestLongKeysInMacros(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	text := strings.Repeat("a", 1<<20)
	for _, step := range []string{`!object.map[?object.text].hasValue()`, `{object.text: 1}.size() == 1`} {
		expression := step
		for i := range 5 {
			expression = fmt.Sprintf("[0,1,2,3,4,5,6,7,8,9].all(x%d, %s)", i, expression)
		}
		program := compilers.Compiled(t, compiler, expression)
		_, cost, err := program.Eval(t.Context(), cel.Values{cel.Object: map[string]any{"text": text, "map": map[string]any{}}})
		if !errors.Is(err, cel.ErrCost) {
			t.Errorf("%s: got %v at cost %d, want ErrCost", step, err, cost)
		}
	}
}
