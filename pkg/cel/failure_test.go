/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// TestFailureClassQuotesNothing evaluates expressions whose errors quote the object.
func TestFailureClassQuotesNothing(t *testing.T) {
	t.Parallel()
	const secret = "se(cret"
	compiler, err := cel.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	object := map[string]any{"s": secret, "m": map[string]any{}, "l": []any{}, "i": int64(77), "big": int64(1 << 62)}
	for _, tc := range []struct{ name, expression, want string }{
		{"a field", `object.missing == 1`, "no such key"},
		{"a key from the object", `object.m[object.s] == 1`, "no such key"},
		{"an index from the object", `object.l[object.i] == 1`, "index out of bounds"},
		{"an IP address", `ip(object.s) == ip("::1")`, "conversion failed"},
		{"a network", `cidr(object.s).containsIP("1.1.1.1")`, "conversion failed"},
		{"a URL", `url(object.s).getHost() == "x"`, "conversion failed"},
		{"a quantity", `quantity(object.s).isGreaterThan(quantity("1"))`, "conversion failed"},
		{"a timestamp", `timestamp(object.s) == timestamp("2020-01-01T00:00:00Z")`, "conversion failed"},
		{"a duration", `duration(object.s) == duration("1s")`, "conversion failed"},
		{"an int", `int(object.s) == 1`, "conversion failed"},
		{"a time zone", `timestamp("2020-01-01T00:00:00Z").getHours(object.s) == 1`, "conversion failed"},
		{"a pattern", `"a".matches(object.s)`, "invalid regular expression"},
		{"a pattern to find", `"a".find(object.s) == ""`, "invalid regular expression"},
		{"a slice", `object.l.slice(5, 9) == []`, "index out of bounds"},
		{"types", `object.s + object.i == "x"`, "no such overload"},
		{"zero", `1 / (object.i - 77) == 1`, "division by zero"},
		{"overflow", `object.big + object.big == 1`, "overflow"},
		{"no optional", `object.?none.value() == 1`, "the optional has no value"},
		{"any other", `semver(object.s).major() == 1`, "evaluation failed"},
		{"cost", `[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d, [0,1,2,3,4,5,6,7,8,9].all(e, [0,1,2,3,4,5,6,7,8,9].all(f, [0,1,2,3,4,5,6,7,8,9].all(g, object.i != a + b + c + d + e + f + g + 100)))))))`, "cost limit exceeded"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			program, err := compiler.Compile(tc.expression)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = program.Eval(t.Context(), cel.Values{cel.Object: object})
			if err == nil {
				t.Fatal("the evaluation did not fail")
			}
			if !errors.Is(err, cel.ErrEvaluation) && !errors.Is(err, cel.ErrCost) {
				t.Errorf("got %v, want ErrEvaluation or ErrCost", err)
			}
			got := cel.FailureClass(fmt.Errorf("wrapped: %w", err))
			if got != tc.want || strings.Contains(got, "cret") || strings.Contains(got, "77") {
				t.Errorf("got class %q of %v, want %q", got, err, tc.want)
			}
		})
	}
}

// TestFailureClassOfOthers has errors that no evaluation made.
func TestFailureClassOfOthers(t *testing.T) {
	t.Parallel()
	if got := cel.FailureClass(errors.New("no such key: secret")); got != "evaluation failed" {
		t.Errorf("got %q", got)
	}
}
