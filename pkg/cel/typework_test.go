/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel_test

import (
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// TestOrdinaryConditionsCompileWithinTheTypeWork compiles policies of many terms.
func TestOrdinaryConditionsCompileWithinTheTypeWork(t *testing.T) {
	t.Parallel()
	compiler := newCompiler(t)
	for _, tc := range []struct{ name, expression string }{
		{"300 comparisons of fields", strings.Repeat(`object.spec.x == "a" || `, 300) + "false"},
		{"80 labels", strings.Repeat(`object.metadata.labels["team"] == "a" || `, 80) + "false"},
		{"a list of 2000 names", `object.metadata.name in [` + strings.Repeat(`"n", `, 1999) + `"n"]`},
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
}

// closing is an expression whose residual for each of 100 elements has a part without variables, which
// is padded to some length.
func closing(padding string) string {
	return "[" + strings.Repeat("0,", 99) + `1].exists(g, dyn(g < 1000 ? request.name + string(g) : object.x) in ["a", 1 == 2 && (` + padding + `true) ? "b" : "c"])`
}

// TestClosingIsPaidAndNotKept evaluates residuals without variables, which are compiled.
func TestClosingIsPaidAndNotKept(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text  string
		least, most uint64
		stays       bool
	}{
		{name: "short", text: closing(""), least: 100 * 1000, most: 1_000_000},
		{name: "too long to be closed", text: closing(strings.Repeat("1==2||", 200)), most: 1_000_000, stays: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			conditions := newCompiler(t)
			policies, err := cel.NewPolicyCompiler(conditions)
			if err != nil {
				t.Fatal(err)
			}
			outcome := planFor(t, policies, tc.text).Eval(t.Context(), cel.Values{cel.Request: cel.Known(map[string]any{"name": "n"})})
			if outcome.Cost() < tc.least || outcome.Cost() > tc.most {
				t.Errorf("got the cost %d, want %d to %d", outcome.Cost(), tc.least, tc.most)
			}
			if stays := outcome.Residual() != nil; stays != tc.stays || outcome.Err() != nil {
				t.Errorf("got a residual: %t, %v, want %t", stays, outcome.Err(), tc.stays)
			}
			if kept := cel.KeptPrograms(conditions); kept != 0 {
				t.Errorf("got %d programs in the cache of conditions, want none", kept)
			}
		})
	}
}
