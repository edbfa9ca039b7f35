/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
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
	compiler := newCompiler(t)
	object := map[string]any{
		"dense": map[string]any{"x": pairs(16_000)}, "long": strings.Repeat("a", 1_000_000), "text": strings.Repeat("a", 64_000), "short": strings.Repeat("a", 4_000),
		"texts": texts(1_000, 1_000), "numbers": numbers(20_000), "lists": lists(100, 480), "one": []any{numbers(90_000)},
	}
	values := cel.Values{cel.Object: object, cel.OldObject: object}
	for _, tc := range []struct {
		name, expression string
		want             uint64 // at least
	}{
		{name: "dense objects that are compared", expression: `object.dense == oldObject.dense`, want: 60_000},
		{name: "dense objects that are told apart", expression: `object.dense != oldObject.dense`, want: 60_000},
		{name: "a dense object that is looked for", expression: `object.dense in [oldObject.dense]`, want: 60_000},
		{name: "a dense object that is printed", expression: `"%s".format([object.dense]) == "x"`, want: 30_000},
		{name: "sort of texts", expression: `object.texts.sort().size() == 1`, want: 20_000},
		{name: "sort of numbers", expression: `object.numbers.sort().size() == 1`, want: 50_000},
		{name: "sortBy of numbers beside its macro", expression: `object.numbers.sortBy(x, x).size() == 1`, want: 290_000},
		{name: "sortBy of texts", expression: `object.texts.sortBy(x, x).size() == 1`, want: 40_000},
		{name: "sets of lists", expression: `sets.equivalent(object.lists, oldObject.lists)`, want: 1_000_000},
		{name: "sets of lists that are contained", expression: `sets.contains(object.lists, oldObject.lists)`, want: 1_000_000},
		{name: "distinct lists", expression: `object.lists.distinct().size() == 1`, want: 500_000},
		{name: "lists that are flattened", expression: `object.one.flatten().size() == 1`, want: 20_000},
		{name: "a repetition of a pattern", expression: `object.short.matches("(a?){900}(a?){100}b")`, want: 50_000},
		{name: "a repetition of a pattern that is found", expression: `object.short.find("(a?){1000}b") == "x"`, want: 50_000},
		{name: "a character of a long text", expression: `object.text.charAt(3) == "x"`, want: 250},
		{name: "the size of a long text", expression: `object.long.size() == 3`, want: 3_900},
		{name: "the bytes of a long text", expression: `bytes(object.long).size() == 3`, want: 3_900},
		{name: "long texts that are put together", expression: `object.long + object.long == "x"`, want: 7_800},
		{name: "long texts that are ordered", expression: `object.long < oldObject.long`, want: 3_900},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			program, err := compiler.Compile(tc.expression)
			if err != nil {
				t.Fatal(err)
			}
			_, cost, err := program.Eval(t.Context(), values)
			if cost < tc.want || err != nil && !errors.Is(err, cel.ErrCost) {
				t.Errorf("got cost %d, %v, want at least %d", cost, err, tc.want)
			}
		})
	}
}

// TestWorkEndsMacros repeats what costs little by the trackers of Kubernetes. The cost limit must
// end it after a few of its steps, whatever || does with errors.
func TestWorkEndsMacros(t *testing.T) {
	t.Parallel()
	compiler := newCompiler(t)
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
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			program, err := compiler.Compile(expression)
			if err != nil {
				t.Fatal(err)
			}
			if got, cost, err := program.Eval(t.Context(), cel.Values{cel.Object: object, cel.OldObject: object}); got || !errors.Is(err, cel.ErrCost) {
				t.Errorf("got %v, %v at cost %d, want ErrCost", got, err, cost)
			}
		})
	}
}

// TestEvaluationNeedsAContext evaluates after the end of a request, also what has no macros.
func TestEvaluationNeedsAContext(t *testing.T) {
	t.Parallel()
	program, err := newCompiler(t).Compile(`object == oldObject`)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, cost, err := program.Eval(ctx, cel.Values{cel.Object: int64(1), cel.OldObject: int64(1)}); got || cost != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v at cost %d, want context.Canceled at no cost", got, err, cost)
	}
}
