/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// val converts a Go value to a value of CEL.
func val(v any) ref.Val { return types.DefaultTypeAdapter.NativeToValue(v) }

func vals(values ...any) (result []ref.Val) {
	for _, v := range values {
		result = append(result, val(v))
	}
	return result
}

func text(n int) string { return strings.Repeat("a", n) }

func list(n int, v any) []any {
	result := make([]any, n)
	for i := range result {
		result[i] = v
	}
	return result
}

// TestArgumentsAtTheBounds calls the check of each kind of function with the largest arguments that it accepts, and with
// slightly larger ones.
func TestArgumentsAtTheBounds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, function string
		good, bad      []ref.Val // nil if there is none
	}{
		{name: "a number", function: "int", good: vals(text(maxShortText)), bad: vals(text(maxShortText + 1))},
		{name: "a text that is copied", function: "split", good: vals(text(maxText), ","), bad: vals(text(maxText+1), ",")},
		{name: "a separator", function: "split", good: vals("a", text(maxText)), bad: vals("a", text(maxText+1))},
		{name: "a URL", function: "url", good: vals(text(8 << 10)), bad: vals(text(8<<10 + 1))},
		{name: "a search", function: "indexOf", good: vals(text(8192), text(4096)), bad: vals(text(8193), text(4096))},
		{name: "a search of something longer", function: "indexOf", good: vals("a", text(maxText)), bad: vals("a", text(maxText+1))},
		{name: "a replacement", function: "replace", good: vals(text(1024), "a", text(1023)), bad: vals(text(1024), "a", text(1024))},
		{name: "a replacement of nothing", function: "replace", good: vals(text(1<<19), "", "b"), bad: vals(text(1<<19+1), "", "b")},
		{name: "a replacement by nothing", function: "replace", good: vals(text(1<<19), "a", ""), bad: vals(text(1<<19+1), "a", "")},
		{name: "texts that are joined", function: "join", good: vals(list(1024, text(1024))), bad: vals(append(list(1024, text(1024)), "a"))},
		{name: "separators of texts that are joined", function: "join", good: vals(list(1024, ""), text(1024)), bad: vals(list(1025, ""), text(1024))},
		{name: "a list that is reversed", function: "reverse", good: vals(list(maxWork, nil)), bad: vals(list(maxWork+1, nil))},
		{name: "a part of a list", function: "slice", good: vals(list(maxWork+2, nil), 1, maxWork+1), bad: vals(list(maxWork+2, nil), 0, maxWork+1)},
		{name: "a part of a list that ends before it begins", function: "slice", good: vals(list(maxWork+2, nil), maxWork, 1)},
		{name: "a part of a list with numbers below zero", function: "slice", good: vals(list(maxWork+2, nil), -5, -1)},
		{name: "elements that are compared", function: "distinct", good: vals(list(1024, 1)), bad: vals(list(1025, 1))},
		{name: "two lists", function: "sets.contains", good: vals(list(2048, 1), list(512, 1)), bad: vals(list(2048, 1), list(513, 1))},
		{name: "two lists of lists", function: "sets.contains", good: vals(list(512, list(7, 1)), list(512, list(7, 1))), bad: vals(list(1024, list(16, 1)), list(1024, list(16, 1)))},
		{name: "no elements", function: "sets.intersects", good: vals([]any{}, []any{})},
		{name: "values that are compared", function: "_==_", good: vals(list(maxDeep/2-1, 1), list(maxDeep/2-1, 1)), bad: vals(list(maxDeep/2, 1), list(maxDeep/2, 1))},
		{name: "long texts that are compared", function: "_==_", good: vals(text(50<<20), text(40<<20)), bad: vals(text(50<<20), text(50<<20))},
		{name: "values that are printed", function: "format", good: vals("", []any{text(64*(maxDeep-3) + 63)}), bad: vals("", []any{text(64 * (maxDeep - 2))})},
		{name: "elements that are unwrapped", function: "optional.unwrap", good: vals([]any{text(64*(maxDeep-2) + 63)}), bad: vals([]any{text(64 * (maxDeep - 1))})},
		{name: "elements that unwrap", function: "unwrapOpt", good: vals([]any{text(64*(maxDeep-2) + 63)}), bad: vals([]any{text(64 * (maxDeep - 1))})},
		{name: "a list that is flattened", function: "flatten", good: vals(list(maxDeep-1, 1)), bad: vals(list(maxDeep, 1))},
		{name: "a pattern and a text", function: "matches", good: vals(text(8<<20), "aaa"), bad: vals(text(8<<20+1), "aaa")},
		{name: "the matches of a text", function: "findAll", good: vals(text(maxText), "a"), bad: vals(text(maxText+1), "a")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			check, ok := guarded[tc.function]
			if !ok {
				t.Fatalf("%s is not guarded", tc.function)
			}
			if err := check(tc.good); err != nil {
				t.Errorf("at the bound: got %v, want no error", err)
			}
			if tc.bad != nil {
				if err := check(tc.bad); !errors.Is(err, errWork) {
					t.Errorf("over the bound: got %v, want errWork", err)
				}
			}
		})
	}
}

// TestGuardsOfOddArguments calls every check with arguments of every type, in every number that a call can have, also
// errors and unknown values. A check that panics would replace the error of the function by another one.
func TestGuardsOfOddArguments(t *testing.T) {
	t.Parallel()
	odd := []ref.Val{
		types.NullValue, types.True, types.Int(-1), types.Uint(1), types.Double(0.5), types.String(""), types.String("\xff"), types.Bytes("a"),
		types.Duration{Duration: -time.Hour}, types.Timestamp{}, types.IntType, types.OptionalNone, types.OptionalOf(types.String("a")),
		types.NewErr("an error"), types.NewUnknown(1, nil), val([]any{}), val(map[string]any{}), val([]any{nil, []any{"a"}}), val(map[string]any{"a": map[string]any{}}),
	}
	for name, check := range guarded {
		for _, a := range odd {
			for _, b := range odd {
				for _, args := range [][]ref.Val{{a}, {a, b}, {a, b, a}, {a, b, b, a}} {
					func() {
						defer func() {
							if r := recover(); r != nil {
								t.Errorf("%s of %v panics: %v", name, args, r)
							}
						}()
						if err := check(args); err != nil && !errors.Is(err, errPattern) {
							t.Errorf("%s of %v: got %v, want no error for what is small", name, args, err)
						}
					}()
				}
			}
		}
	}
}

// TestQuantities refuses quantities that are cheap to parse and expensive to compare, in every way to write one.
func TestQuantities(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		quantity string
		want     bool // that it is refused
	}{
		{quantity: ""},
		{quantity: "1"},
		{quantity: "1.5Gi"},
		{quantity: "1E"},
		{quantity: "1Ei"},
		{quantity: "1e3"},
		{quantity: "1e64"},
		{quantity: "1e-64"},
		{quantity: "1e+64"},
		{quantity: "1e65", want: true},
		{quantity: "1E65", want: true},
		{quantity: "1e-65", want: true},
		{quantity: "1e0065", want: true},
		{quantity: "1e99999999999999999999", want: true},
		{quantity: "1e-99999999999999999999", want: true},
		{quantity: "elephant"},
		{quantity: "1e6 5"},
		{quantity: "1e6e7"},
		{quantity: strings.Repeat("9", MaxQuantityBytes)},
		{quantity: strings.Repeat("9", MaxQuantityBytes+1), want: true},
		{quantity: "0." + strings.Repeat("0", MaxQuantityBytes-3) + "1"},
	} {
		if err := guarded["quantity"](vals(tc.quantity)); (err != nil) != tc.want || err != nil && !errors.Is(err, errQuantity) {
			t.Errorf("%q: got %v, want it refused %v", tc.quantity, err, tc.want)
		}
	}
}

// TestPatternsAreMeasured compares the estimates of patterns: of their size, which is the same for patterns that compile to the
// same program, and of the work to parse them, which only reads their text.
func TestPatternsAreMeasured(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pattern            string
		wantSize           [2]int // at least, at most
		wantFolds          bool
		wantWork, mostWork uint64
	}{
		{pattern: "", wantSize: [2]int{0, 1}, mostWork: 16},
		{pattern: "abc", wantSize: [2]int{1, 4}, mostWork: 25},
		{pattern: "(", wantSize: [2]int{0, 0}, mostWork: 19},
		{pattern: "a{1000}", wantSize: [2]int{1000, 2000}, mostWork: 50},
		{pattern: "(a{10}){100}", wantSize: [2]int{1000, 3000}, mostWork: 60},
		{pattern: "((a{1000}){1000}){1000}", wantSize: [2]int{0, 0}, mostWork: 100}, // the parser refuses it
		{pattern: "a{5,}", wantSize: [2]int{5, 20}, mostWork: 40},
		{pattern: strings.Repeat("a", maxPatternSize), wantSize: [2]int{1, maxPatternSize}, mostWork: 20_000},
		{pattern: strings.Repeat("a", maxPatternSize+1), wantSize: [2]int{maxPatternSize + 1, maxPatternSize + 1}, mostWork: 20_000},
		{pattern: `\pL`, wantSize: [2]int{100, 2000}, wantWork: 512, mostWork: 600},
		{pattern: `(?i)\pL`, wantSize: [2]int{100, 3000}, wantFolds: true, wantWork: 1536, mostWork: 1700},
		{pattern: `(?s)\PL`, wantSize: [2]int{100, 2000}, wantWork: 512, mostWork: 600},
		{pattern: `(?s-i)a`, wantSize: [2]int{1, 3}, wantFolds: true, mostWork: 100},
		{pattern: `(?P<i>a)`, wantSize: [2]int{1, 5}, mostWork: 100},
		{pattern: `(?:i)`, wantSize: [2]int{1, 3}, mostWork: 100},
		{pattern: `(?:a)(?i:b)`, wantSize: [2]int{1, 8}, wantFolds: true, mostWork: 100},
		{pattern: `(?i)[a-z]`, wantSize: [2]int{1, 10}, wantFolds: true, wantWork: 12, mostWork: 100},
		{pattern: "(?i)[B-\U00025942]", wantSize: [2]int{1, 3000}, wantFolds: true, wantWork: 70_000, mostWork: 90_000},
		{pattern: `(?i)[\x{0}-\x{10FFFF}]`, wantSize: [2]int{1, 10}, wantFolds: true, wantWork: 1 << 16, mostWork: 70_000},
		{pattern: "[B-\U00025942]", wantSize: [2]int{1, 3}, mostWork: 100},
	} {
		t.Run(fmt.Sprintf("%.30q", tc.pattern), func(t *testing.T) {
			t.Parallel()
			if got := PatternSize(tc.pattern); got < tc.wantSize[0] || got > tc.wantSize[1] {
				t.Errorf("got %d instructions, want %d to %d", got, tc.wantSize[0], tc.wantSize[1])
			}
			if got := foldsCase(tc.pattern); got != tc.wantFolds {
				t.Errorf("folds case: got %v, want %v", got, tc.wantFolds)
			}
			if got := patternWork(tc.pattern); got < tc.wantWork || got > tc.mostWork {
				t.Errorf("got %d units to parse it, want %d to %d", got, tc.wantWork, tc.mostWork)
			}
		})
	}
}

// TestBudgetOfPolicies spends the budget of the expressions of one policy. Once a spending has failed, each one fails, so
// that no smaller expression passes after one that was too large.
func TestBudgetOfPolicies(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		times int
		texts []int // lengths
		works []TypeWork
		want  bool // that the last one fails
	}{
		{name: "nothing", times: 1},
		{name: "two expressions of the greatest length", times: 1, texts: []int{10240, 10240}},
		{name: "a byte more", times: 1, texts: []int{10240, 10240, 1}, want: true},
		{name: "nothing after the end", times: 1, texts: []int{maxTotalBytes + 1, 0}, want: true},
		{name: "for two policies", times: 2, texts: []int{maxTotalBytes, maxTotalBytes}},
		{name: "all nodes", times: 1, works: []TypeWork{{Nodes: maxTotalNodes}}},
		{name: "a node more", times: 1, works: []TypeWork{{Nodes: maxTotalNodes}, {Nodes: 1}}, want: true},
		{name: "all copies", times: 1, works: []TypeWork{{Copied: maxTotalTypeWork / 2}, {Copied: maxTotalTypeWork / 2}}},
		{name: "a copy more", times: 1, works: []TypeWork{{Copied: maxTotalTypeWork}, {Copied: 1}}, want: true},
		{name: "less after too many copies", times: 1, works: []TypeWork{{Copied: maxTotalTypeWork + 1}, {}}, want: true},
		{name: "so many copies that a difference would overflow", times: 1, works: []TypeWork{{Copied: 1}, {Copied: 1<<64 - 1}}, want: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := NewBudget(tc.times)
			var err error
			var cost uint64
			for _, n := range tc.texts {
				err = b.SpendText(text(n))
				cost += CompileCost(text(n))
			}
			for _, w := range tc.works {
				err = b.Spend(w)
				cost += unitsPerNode*uint64(w.Nodes) + w.Copied //nolint:gosec // not negative
			}
			if (err != nil) != tc.want || err != nil && !errors.Is(err, ErrBudget) {
				t.Errorf("got %v, want an error %v", err, tc.want)
			}
			if b.Cost() != cost {
				t.Errorf("got the cost %d, want %d, whether it fails or not", b.Cost(), cost)
			}
		})
	}
}

// unread is a list of a size, which must not be read.
type unread struct {
	traits.Lister
	t    *testing.T
	size int
}

func (u unread) Size() ref.Val { return types.Int(u.size) }

func (u unread) Iterator() traits.Iterator {
	u.t.Errorf("a list of %d elements is read", u.size)
	return types.DefaultTypeAdapter.NativeToValue([]any{}).(traits.Lister).Iterator()
}

// unreadMap is the same as a map.
type unreadMap struct {
	traits.Mapper
	list unread
}

func (u unreadMap) Size() ref.Val             { return u.list.Size() }
func (u unreadMap) Iterator() traits.Iterator { return u.list.Iterator() }

// TestLargeListsAreNotRead counts the parts of lists and maps that are larger than what is left. They are refused by their size: to
// read the first elements of a sum of lists can take as long as to read all.
func TestLargeListsAreNotRead(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		values []ref.Val
	}{
		{name: "a list", values: []ref.Val{unread{t: t, size: maxDeep}}},
		{name: "a map", values: []ref.Val{unreadMap{list: unread{t: t, size: maxDeep}}}},
		{name: "a list after another", values: []ref.Val{val(list(maxDeep/2, 1)), unread{t: t, size: maxDeep / 2}}},
		{name: "a map after a text", values: []ref.Val{val(text(1024 * (maxDeep - 100))), unreadMap{list: unread{t: t, size: 100}}}},
		{name: "a list in an optional", values: []ref.Val{types.OptionalOf(unread{t: t, size: maxDeep})}},
	} {
		if parts, complete := walkAll(tc.values, textPerPart); complete || parts != maxDeep {
			t.Errorf("%s: got %d parts, complete %t, want %d", tc.name, parts, complete, maxDeep)
		}
	}
}
