/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
	"github.com/proviso-authz/proviso/test/testutil/rows"
)

// TestLibrary evaluates every operator and function of CEL and of the libraries of Kubernetes on values that the compiler cannot see, as
// the specification of the language and the documents of the libraries say. Authors of policies rely on each of them, also
// at the ends of its range.
func TestLibrary(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	object := map[string]any{
		"zero": int64(0), "one": int64(1), "two": int64(2), "minus": int64(-7), "max": int64(math.MaxInt64), "min": int64(math.MinInt64), "half": 0.5, "nan": math.NaN(), "inf": math.Inf(1), "negzero": math.Copysign(0, -1),
		"yes": true, "no": false, "absent": nil, "empty": "", "a": "a", "text": "Grüße, Welt", "bad": "\xff", "list": []any{int64(3), int64(1), int64(2)}, "words": []any{"b", "a", "b"}, "none": []any{}, "nested": []any{[]any{int64(1)}, []any{int64(2), []any{int64(3)}}},
		"mixed": []any{int64(1), "1", 1.0, nil}, "map": map[string]any{"k": "v", "n": int64(1)}, "nothing": map[string]any{}, "quantity": "1500m", "ip": "10.0.0.1", "cidr": "10.0.0.0/8", "url": "https://u:p@h.example:8443/p%20q/?a=b&a=c&d=", "version": "1.2.3-rc.1+b",
		"time": "2024-02-29T23:59:59.123Z", "duration": "1h30m", "json": `{"a":1}`, "pattern": "^[a-z]+$",
	}
	type row struct {
		Expression string
		IsFalse    bool
		Error      string
	}
	rows.Run(t, "testdata/library.yaml", func(t *testing.T, tc row) {
		got, _, err := compilers.Compiled(t, compiler, tc.Expression).Eval(t.Context(), cel.Values{cel.Object: object})
		switch {
		case tc.Error == "" && (err != nil || got == tc.IsFalse):
			t.Errorf("got %v, %v, want %v", got, err, !tc.IsFalse)
		case tc.Error != "" && (got || !errors.Is(err, cel.ErrEvaluation) || !strings.Contains(err.Error(), tc.Error)):
			t.Errorf("got %v, %v, want ErrEvaluation with %q", got, err, tc.Error)
		}
	})
}
