/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"math/bits"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/cel"
)

// bytesValue returns n bytes, which cost as much as a text of n bytes.
func bytesValue(n int) ref.Val { return types.Bytes(text(n)) }

// urlValue returns a URL of which each part has n bytes.
func urlValue(n int) ref.Val {
	part := text(n)
	return cel.URL{URL: &url.URL{Scheme: part, Opaque: part, Host: part, Path: part, RawPath: part, RawQuery: part, Fragment: part}}
}

// TestPricesOfWork computes by hand what each kind of function costs beyond the units of cel-go and Kubernetes. A price
// that is too low lets an expression keep a processor busy; one that is too high refuses ordinary conditions.
func TestPricesOfWork(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, function, overload string
		args                     []ref.Val
		result                   ref.Val
		want                     uint64
	}{
		{name: "no arguments", function: "size", want: 0},
		{name: "a small value", function: "size", args: vals(1), want: 0},
		{name: "a byte less than a unit", function: "size", args: vals(text(255)), want: 0},
		{name: "a unit", function: "size", args: vals(text(256)), want: 1},
		{name: "texts that make a unit together", function: "contains", args: vals(text(128), text(128)), want: 1},
		{name: "an argument and a result that make a unit together", function: "lowerAscii", args: vals(text(128)), result: val(text(128)), want: 1},
		{name: "bytes", function: "size", args: []ref.Val{bytesValue(2560)}, want: 10},
		{name: "the texts of a list, which are walked elsewhere", function: "size", args: vals(list(10, text(2560))), want: 0},
		{name: "an error", function: "size", args: []ref.Val{types.NewErr("an error")}, result: types.NewErr("an error"), want: 0},
		{name: "a URL", function: "getHost", args: []ref.Val{urlValue(32)}, want: 7},
		{name: "a URL that is nil", function: "getHost", args: []ref.Val{cel.URL{}}, want: 0},
		{name: "the query of a URL", function: "getQuery", args: []ref.Val{urlValue(32)}, want: 7 + 7*32/2},
		{name: "a text that becomes a URL", function: "url", args: vals(text(6400)), want: 25 + 100},
		{name: "a text that may be a URL", function: "isURL", args: vals(text(6400)), want: 25 + 100},
		{name: "a character", function: "charAt", args: vals(text(3200), 1), want: 12 + 100},
		{name: "quotes", function: "strings.quote", args: vals(text(3200)), want: 12 + 200},
		{name: "a version", function: "semver", args: vals(text(240)), want: 30},
		{name: "a text that may be a version", function: "isSemver", args: vals(text(240)), want: 30},
		{name: "an hour in no time zone", function: "getHours", args: vals(types.Timestamp{}), want: 0},
		{name: "no arguments of an hour", function: "getHours", want: 0},

		{name: "a format of nothing", function: "format", args: vals("", []any{}), want: 48},
		{name: "no arguments of a format", function: "format", want: 0},
		{name: "a format of two values", function: "format", args: vals("%s%d", []any{"a", 1}), want: 3 * 48},
		{name: "a long format", function: "format", args: vals(text(2560), []any{}), want: 48 + 256 + 10},
		{name: "a long result of a format", function: "format", args: vals("%s", []any{1}), result: val(text(2560)), want: 2*48 + 256 + 10},
		{name: "a format that is no text", function: "format", args: vals(1, []any{}), want: 48},

		{name: "a search", function: "indexOf", args: vals(text(3200), text(128)), want: 3328/256 + 3328/32 + (3200 - 128)},
		{name: "a search from the end", function: "lastIndexOf", args: vals(text(3200), text(128)), want: 3328/256 + 3328/32 + (3200 - 128)},
		{name: "a search from a place on", function: "indexOf", args: vals(text(3200), text(128), 5), want: 3328/256 + 3328/32 + (3200 - 128)},
		{name: "a search for something longer", function: "indexOf", args: vals(text(128), text(3200)), want: 3328/256 + 3328/32},
		{name: "a search for something as long", function: "indexOf", args: vals(text(3200), text(3200)), want: 6400/256 + 6400/32},
		{name: "a search that is refused", function: "indexOf", args: vals(text(8193), text(4096)), want: (8193 + 4096) / 256},
		{name: "the largest search", function: "indexOf", args: vals(text(8192), text(4096)), want: 12288/256 + 12288/32 + 4096*4096/128},
		{name: "a search in a list", function: "indexOf", args: vals(list(100, 1), 1), want: 0},
		{name: "no arguments of a search", function: "indexOf", want: 0},

		{name: "an entry that is inserted", function: mapInsert, args: vals(map[string]any{}, "a", 1), want: 1},
		{name: "entries that are inserted", function: mapInsert, args: vals(map[string]any{}, map[string]any{"a": 1, "b": 2, "c": 3}), want: 3},
		{name: "a long key that is inserted", function: mapInsert, args: vals(map[string]any{}, text(2560), 1), want: 10 + 1},
		{name: "long keys that are inserted", function: mapInsert, args: vals(map[string]any{}, map[string]any{text(2560): 1, text(2561): 2}), want: 2 + 20},
		{name: "what is no map and is inserted", function: mapInsert, args: vals(map[string]any{}, 1), want: 1},

		{name: "a sort of numbers", function: "sort", args: vals(list(1024, 1)), want: 256 * 11},
		{name: "a sort of texts", function: "sort", args: vals(list(1024, text(256))), want: (256 + 1024) * 11},
		{name: "a sort of nothing", function: "sort", args: vals([]any{}), want: 0},
		{name: "a sort of what is no list", function: "sort", args: vals("a"), want: 0},
		{name: "no arguments of a sort", function: "sort", want: 0},
		{name: "a sort by the last argument", function: "@sortByAssociatedKeys", args: vals(list(1024, text(256)), list(1024, 1)), want: 256 * 11},

		{name: "a pattern", function: "matches", args: vals(text(1600), "aaaa"), want: 6 + (16 + 3*4) + 4*2 + 4*1600/16},
		{name: "a pattern that was compiled", function: "matches", overload: "matches_string" + constantPattern, args: vals(text(1600), "aaaa"), want: 6 + 4*1600/16},
		{name: "a pattern that is found", function: "find", args: vals(text(1600), "aaaa"), want: 6 + (16 + 3*4) + 4*2 + 4*1600/16},
		{name: "the empty pattern", function: "matches", args: vals(text(1600), ""), want: 6 + 16},
		{name: "a pattern on the empty text", function: "matches", args: vals("", "aaaa"), want: (16 + 3*4) + 4*2},
		{name: "a pattern that repeats", function: "matches", args: vals(text(160), "a{8}"), want: (16 + 3*4) + 16*2 + 16*160/16},
		{name: "a pattern with a class of letters", function: "matches", args: vals("", `\pL`), want: (16 + 3*3 + 512) + 3*2},
		{name: "a pattern that is refused for its length", function: "matches", args: vals(text(1600), text(4097)), want: (1600 + 4097) / 256},
		{name: "a pattern that is refused for its classes", function: "matches", args: vals(text(1600), strings.Repeat(`\pL`, 64)), want: (1600+192)/256 + 16},
		{name: "the same pattern, compiled in advance", function: "matches", overload: constantPattern, args: vals(text(1600), strings.Repeat(`\pL`, 64)), want: (1600+192)/256 + 192*1600/16},
		{name: "a pattern that is no text", function: "matches", args: vals(text(1600), 1), want: 6},
		{name: "no pattern", function: "matches", args: vals(text(1600)), want: 6},
		{name: "all matches", function: "findAll", args: vals(text(160), "a"), result: val(list(160, "a")), want: 160 + (16 + 3) + 2 + 10},
		{name: "all matches of a pattern that was compiled", function: "findAll", overload: constantPattern, args: vals(text(160), "a"), result: val(list(160, "a")), want: 160 + 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := unseenWork(tc.function, tc.overload, tc.args, tc.result); got != tc.want {
				t.Errorf("got %d units, want %d", got, tc.want)
			}
		})
	}
	for _, part := range []string{"FullYear", "Month", "DayOfYear", "DayOfMonth", "Date", "DayOfWeek", "Hours", "Minutes", "Seconds", "Milliseconds"} {
		if got := unseenWork("get"+part, "", vals(types.Timestamp{}, "Europe/Vienna"), nil); got != 256 {
			t.Errorf("get%s in a time zone: got %d units, want 256", part, got)
		}
	}
	for function := range passing {
		if got := unseenWork(function, "", vals(text(25600), text(25600)), val(text(25600))); got != 0 {
			t.Errorf("%s, which passes values on: got %d units, want 0", function, got)
		}
	}
}

// TestPricesOfWalks computes what the trackers of functions over lists, and the walk through arguments, cost.
func TestPricesOfWalks(t *testing.T) {
	t.Parallel()
	deep := list(10, list(9, 1)) // 1 + 10*(1+9) = 101 parts
	tracked := func(tracker func([]ref.Val, ref.Val) *uint64, result any, args ...any) uint64 {
		return *tracker(vals(args...), val(result))
	}
	for _, tc := range []struct {
		name      string
		got, want uint64
	}{
		{name: "parts of nothing", got: partsOf(), want: 0},
		{name: "parts of a list of lists", got: partsOf(val(deep)), want: 101},
		{name: "parts of a long text", got: partsOf(val(text(2048))), want: 3},
		{name: "parts of too much", got: partsOf(val(list(maxDeep, 1))), want: maxDeep},
		{name: "work of simple values", got: workOfParts(vals(1, "a")), want: 0},
		{name: "work of a list of lists", got: workOfParts(vals(deep, 1)), want: 2 * 100},
		{name: "work of long texts", got: workOfParts(vals(text(10*1024), text(10*1024))), want: 2 * 20},
		{name: "distinct of nothing", got: tracked(costOfComparing, nil, []any{}), want: 1 + 10},
		{name: "distinct numbers", got: tracked(costOfComparing, nil, list(10, 1)), want: 1 + 10 + 210 + 2*10},
		{name: "distinct lists", got: tracked(costOfComparing, nil, deep), want: 1 + 10 + 210 + 50*(101/10)/4 + 2*100},
		{name: "distinct of what is no list", got: tracked(costOfComparing, nil, 1), want: 1 + 10 + 2},
		{name: "sets of numbers", got: tracked(costOfSets(1), nil, list(10, 1), list(20, 1)), want: 1 + 200 + 2*30},
		{name: "sets of numbers, both ways", got: tracked(costOfSets(2), nil, list(10, 1), list(20, 1)), want: 1 + 400 + 2*30},
		{name: "sets of lists", got: tracked(costOfSets(1), nil, deep, deep), want: 1 + 100 + 100*(202/20)/4 + 2*200},
		{name: "sets that are refused", got: tracked(costOfSets(1), nil, text(1<<12), text(1<<12)), want: 1 + 2<<20 + 2*8 - 2*0},
		{name: "an empty set", got: tracked(costOfSets(1), nil, []any{}, list(20, 1)), want: 1 + 2*20},
		{name: "flatten of nothing", got: tracked(costOfFlattening, []any{}, []any{}), want: 1 + 10},
		{name: "flatten of numbers", got: tracked(costOfFlattening, list(10, 1), list(10, 1)), want: 1 + 10 + 10 + 2*10},
		{name: "flatten of lists", got: tracked(costOfFlattening, list(90, 1), deep), want: 1 + 10 + 10 + 90/4 + 2*100 + 101/4},
		{name: "flatten of lists by two levels", got: tracked(costOfFlattening, list(90, 1), deep, 2), want: 1 + 10 + 20 + 90/4 + 2*100 + 102/4},
		{name: "flatten by no level", got: tracked(costOfFlattening, deep, deep, 0), want: 1 + 10 + 10 + 2*100},
		{name: "flatten by a level below zero", got: tracked(costOfFlattening, nil, deep, -5), want: 1 + 10 + 10 + 2*100},
		{name: "flatten by more levels than there are", got: tracked(costOfFlattening, list(90, 1), deep, 5000), want: 1 + 10 + 1000*10 + 90/4 + 2*100 + 102/4},
		{name: "comparisons of simple elements", got: workOfElements(100, val(list(10, 1))), want: 0},
		{name: "comparisons of lists", got: workOfElements(100, val(deep)), want: 100 * 10 / 4},
		{name: "comparisons in no list", got: workOfElements(100), want: 0},
		{name: "keys of what is no map", got: costOfKeys(val(list(10, text(256)))), want: 0},
		{name: "short keys", got: costOfKeys(val(map[string]any{"a": text(2560)})), want: 0},
		{name: "long keys", got: costOfKeys(val(map[string]any{text(128): 1, text(129): 1})), want: 1},
		{name: "a product that would overflow 64 bits", got: product(1<<40, 1<<40), want: maxProduct},
		{name: "a product that is larger than the bound", got: product(1<<21, 1<<20), want: maxProduct},
		{name: "a product", got: product(3, 5), want: 15},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.name, tc.got, tc.want)
		}
	}
}

// TestCostOfCalls computes the whole cost of calls as the tracker sees it: nil leaves the cost to cel-go.
func TestCostOfCalls(t *testing.T) {
	t.Parallel()
	c := costs{walks: sets.New("walked", operators.Equals, "contains", operators.In)}
	const nothing = ^uint64(0)
	for _, tc := range []struct {
		name, function, overload string
		args                     []ref.Val
		result                   ref.Val
		want                     uint64
	}{
		{name: "a round of a macro", function: roundFunction, overload: roundFunction, args: vals(text(25600)), want: 0},
		{name: "a surcharge", function: surchargeFunction, overload: "17", args: vals(text(25600)), want: 17},
		{name: "a surcharge that is no number", function: surchargeFunction, overload: "x", want: maxProduct},
		{name: "a key", function: entryKeyFunction, overload: entryKeyFunction, result: val(text(2560)), want: 10},
		{name: "a short key", function: entryKeyFunction, overload: entryKeyFunction, result: val("a"), want: 0},
		{name: "a key that is an error", function: entryKeyFunction, overload: entryKeyFunction, result: types.NewErr("an error"), want: 0},
		{name: "small values of a function that Kubernetes does not know", function: "unknown", args: vals(1), want: nothing},
		{name: "a long text of a function that Kubernetes does not know", function: "unknown", args: vals(text(2560)), want: 1 + 10},
		{name: "a long text of an operator", function: operators.Less, args: vals(text(2560), "a"), want: 1 + 256 + 10},
		{name: "a text that is converted", function: "bytes", args: vals(text(2560)), want: 1 + 256 + 10},
		{name: "a text that begins with another", function: "startsWith", args: vals(text(2560), ""), want: 1 + 256 + 10},
		{name: "a walk", function: "walked", args: vals(list(10, 1)), want: 1 + 2*10},
		{name: "no walk", function: "unwalked", args: vals(list(10, 1)), want: nothing},
		{name: "a walk that is refused", function: "walked", args: vals(list(maxDeep+1, 1)), want: 2 * (maxDeep - 1)},
		{name: "membership", function: operators.In, args: vals(1, list(10, 1)), want: 10 + 2*10},
		{name: "texts that are compared with each other", function: "contains", args: vals(text(2560), text(256)), want: 257*26 + (2560+256)/256 + 2*2},
		{name: "a compiled pattern", function: "matches", overload: "matches_string" + constantPattern, args: vals("aaa", "aaa"), want: 2},
		{name: "a compiled pattern on a longer text", function: "matches", overload: "matches_string" + constantPattern, args: vals(text(160), "aaaa"), want: 18*2 + 40},
		{name: "a compiled pattern that is found", function: "find", overload: constantPattern, args: vals("aaa", "a"), want: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := nothing
			if cost := c.CallCost(tc.function, tc.overload, tc.args, tc.result); cost != nil {
				got = *cost
			}
			if got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

// TestSearchesCostWhatTheyCompare counts the comparisons of a search by doing it, with the worst texts there are. The price of
// the search must grow as the comparisons do.
func TestSearchesCostWhatTheyCompare(t *testing.T) {
	t.Parallel()
	compare := func(searched, wanted string) (comparisons uint64) {
		for i := 0; i+len(wanted) <= len(searched); i++ {
			for j := range len(wanted) {
				if comparisons++; searched[i+j] != wanted[j] {
					break
				}
			}
		}
		return comparisons
	}
	for _, lengths := range [][2]int{{1000, 1}, {1000, 100}, {1000, 500}, {1000, 900}, {4000, 2000}, {100, 1000}} {
		searched, wanted := text(lengths[0]), text(lengths[1]-1)+"b"
		work := workOfSearching(vals(searched, wanted))
		comparisons := compare(searched, wanted)
		if least, most := comparisons/charactersPerUnit, 2*comparisons/charactersPerUnit+uint64(lengths[0]+lengths[1]); work+1 < least || work > most {
			t.Errorf("%v: got %d units, want %d to %d for %d comparisons", lengths, work, least, most, comparisons)
		}
	}
}

// TestSortsCostWhatTheyCompare counts the comparisons of a sort, and asks that the price is not far below.
func TestSortsCostWhatTheyCompare(t *testing.T) {
	t.Parallel()
	for _, n := range []int{8, 100, 1000, 20_000} {
		comparisons := 0
		numbers := make([]int, n)
		for i := range numbers {
			numbers[i] = i * 7919 % n
		}
		slices.SortFunc(numbers, func(a, b int) int { comparisons++; return a - b })
		work := workOfSorting(vals(list(n, 1)))
		if least, most := comparisons/comparisonsPerUnit/2, n*bits.Len(uint(n)); work < uint64(least) || work > uint64(most) {
			t.Errorf("%d numbers: got %d units, want %d to %d for %d comparisons", n, work, least, most, comparisons)
		}
	}
}
