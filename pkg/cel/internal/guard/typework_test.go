/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard_test

import (
	"strings"
	"testing"
)

// TestOrdinaryConditionsCompileWithinTheTypeWork compiles policies of many terms.
func TestOrdinaryConditionsCompileWithinTheTypeWork(t *testing.T) {
	t.Parallel()
	compiler := newCompiler(t)
	for _, tc := range []struct{ name, expression string }{
		{"300 comparisons of fields", strings.Repeat(`object.spec.x == "a" || `, 300) + "false"},
		{"80 labels", strings.Repeat(`object.metadata.labels["team"] == "a" || `, 80) + "false"},
		{"a list of 2000 names", `object.metadata.name in [` + strings.Repeat(`"n", `, 1999) + `"n"]`},
		{"30 macros over what a function finds", strings.Repeat(`object.list.distinct().all(e, e == "a" && e != "b") && `, 30) + "true"},
		{"maps of lists", strings.Repeat(`{"a": [{"b": [{"c": ["d"]}]}]}["a"][0]["b"][0]["c"][0] == "d" && `, 10) + "true"},
		{"100 macros", strings.Repeat(`object.list.all(e, e.x == "a") && `, 100) + "true"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if _, err := compiler.Compile(tc.expression); err != nil {
				t.Errorf("got %v, want no error", err)
			}
		})
	}
}

// TestCompileCost compares what compiling costs: it grows with the text and with the generic calls, and
// is the same for a program that is kept and for an expression that does not compile.
func TestCompileCost(t *testing.T) {
	t.Parallel()
	compiler := newCompiler(t)
	cost := func(text string) uint64 {
		_, cost, _ := compiler.CompileWithCost(text)
		return cost
	}
	plain, generic := strings.Repeat("1<2||", 100)+"true", strings.Repeat("1==2||", 100)+"true"
	for _, text := range []string{"true", plain, generic, "true +", generic + " == 1"} {
		if first, again := cost(text), cost(text); first != again || first < 1000+32*uint64(len(text)) {
			t.Errorf("%.20s: got the costs %d and %d, want twice the same, at least 32 for a byte", text, first, again)
		}
	}
	if cost(plain) != 1000+32*uint64(len(plain)) {
		t.Errorf("got the cost %d for calls that are not generic, want that of the text", cost(plain))
	}
	if got, least := cost(generic), cost(plain)+100*100; got < least {
		t.Errorf("got the cost %d for 100 comparisons, want at least %d", got, least)
	}
	// A map of maps seven deep, whose types double, has 256 parts.
	large := "[1]" + strings.Repeat(".map(a, {a: a})", 7) + ".all(z, [" + strings.Repeat("z,", 50) + "z] == [])"
	if got, least := cost(large), cost(strings.Repeat(" ", len(large)-4)+"true")+50*255; got < least {
		t.Errorf("got the cost %d for 50 values of a large type, want at least %d", got, least)
	}
}
