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
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// TestFailureClassQuotesNothing evaluates expressions whose errors quote the object.
func TestFailureClassQuotesNothing(t *testing.T) {
	t.Parallel()
	const secret = "se(cret"
	compiler := compilers.Conditions(t)
	object := map[string]any{"s": secret, "m": map[string]any{}, "l": []any{}, "i": int64(77), "big": int64(1 << 62)}
	for _, tc := range []struct{ name, expression, want string }{
		{name: "a field", expression: `object.missing == 1`, want: "no such key"},
		{name: "a key from the object", expression: `object.m[object.s] == 1`, want: "no such key"},
		{name: "an index from the object", expression: `object.l[object.i] == 1`, want: "index out of bounds"},
		{name: "an IP address", expression: `ip(object.s) == ip("::1")`, want: "conversion failed"},
		{name: "a network", expression: `cidr(object.s).containsIP("1.1.1.1")`, want: "conversion failed"},
		{name: "a URL", expression: `url(object.s).getHost() == "x"`, want: "conversion failed"},
		{name: "a quantity", expression: `quantity(object.s).isGreaterThan(quantity("1"))`, want: "conversion failed"},
		{name: "a timestamp", expression: `timestamp(object.s) == timestamp("2020-01-01T00:00:00Z")`, want: "conversion failed"},
		{name: "a duration", expression: `duration(object.s) == duration("1s")`, want: "conversion failed"},
		{name: "an int", expression: `int(object.s) == 1`, want: "conversion failed"},
		{name: "a time zone", expression: `timestamp("2020-01-01T00:00:00Z").getHours(object.s) == 1`, want: "conversion failed"},
		{name: "a pattern", expression: `"a".matches(object.s)`, want: "invalid regular expression"},
		{name: "a pattern to find", expression: `"a".find(object.s) == ""`, want: "invalid regular expression"},
		{name: "a slice", expression: `object.l.slice(5, 9) == []`, want: "index out of bounds"},
		{name: "types", expression: `object.s + object.i == "x"`, want: "no such overload"},
		{name: "zero", expression: `1 / (object.i - 77) == 1`, want: "division by zero"},
		{name: "overflow", expression: `object.big + object.big == 1`, want: "overflow"},
		{name: "no optional", expression: `object.?none.value() == 1`, want: "the optional has no value"},
		{name: "any other", expression: `semver(object.s).major() == 1`, want: "evaluation failed"},
		{name: "cost", expression: `[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d, [0,1,2,3,4,5,6,7,8,9].all(e, [0,1,2,3,4,5,6,7,8,9].all(f, [0,1,2,3,4,5,6,7,8,9].all(g, object.i != a + b + c + d + e + f + g + 100)))))))`, want: "cost limit exceeded"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			program := compilers.Compiled(t, compiler, tc.expression)
			_, _, err := program.Eval(t.Context(), cel.Values{cel.Object: object})
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
