/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// closing is an expression whose residual for each of so many elements has a part without variables, which
// is padded to some length.
func closing(elements int, padding string) string {
	return "[" + strings.Repeat("0,", elements-1) + `1].exists(g, dyn(g < 1000 ? request.name + string(g) : object.x) in ["a", 1 == 2 && (` + padding + `true) ? "b" : "c"])`
}

// TestClosingIsPaid evaluates residuals without variables, which are compiled.
func TestClosingIsPaid(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text  string
		least, most uint64
		stays       bool
	}{
		{name: "short", text: closing(100, ""), least: 100 * 1000, most: 1_000_000},
		{name: "too long to be closed", text: closing(100, strings.Repeat("1==2||", 200)), most: 1_000_000, stays: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			conditions := compilers.Conditions(t)
			policies, err := partial.NewPolicyCompiler(conditions)
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
		})
	}
}

// TestClosingDisplacesNoProgram evaluates more residuals without variables than a compiler keeps
// programs.
func TestClosingDisplacesNoProgram(t *testing.T) {
	t.Parallel()
	conditions := compilers.Conditions(t)
	policies, err := partial.NewPolicyCompiler(conditions)
	if err != nil {
		t.Fatal(err)
	}
	first := compilers.Compiled(t, conditions, "object == 1")
	plan := planFor(t, policies, closing(2, ""))
	for i := range 600 {
		if result := plan.Eval(t.Context(), cel.Values{cel.Request: cel.Known(map[string]any{"name": fmt.Sprint(i)})}); result.Err() != nil || result.Cost() < 2*1000 {
			t.Fatalf("got %v for %d, want two compilations", result.Err(), result.Cost())
		}
	}
	if again, err := conditions.Compile("object == 1"); err != nil || again != first {
		t.Errorf("got another program, %v, want the one that was compiled first", err)
	}
}
