/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/test/testutil/cases"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

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
