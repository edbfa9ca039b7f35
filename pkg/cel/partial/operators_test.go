/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
	"github.com/proviso-authz/proviso/test/testutil/rows"
)

// TestResidualsOfOperators evaluates each operator, function and macro with known and unknown operands. The residual must be the
// expected text, must not show what is known and not needed, and must come out like the whole expression for every object.
func TestResidualsOfOperators(t *testing.T) {
	t.Parallel()
	c, conditions := compilers.Policies(t), compilers.Conditions(t)
	objects := []any{
		nil, map[string]any{}, map[string]any{"a": int64(1), "b": int64(2), "s": "web", "l": []any{"devs", "x"}, "m": map[string]any{"k": "v", "blue": "w"}, "t": true, "f": false},
		map[string]any{"a": "web", "b": "1", "s": int64(1), "l": map[string]any{"devs": int64(1)}, "m": []any{"blue"}, "t": false, "f": true}, map[string]any{"a": nil, "s": "", "l": []any{}, "m": map[string]any{}, "t": "true", "f": int64(0)},
	}
	rows.Run(t, "testdata/operators.yaml", func(t *testing.T, tc residualRow) {
		text := partially(t, c, tc.Expression, alice())
		if text != tc.Want {
			t.Errorf("got  %s\nwant %s", text, tc.Want)
		}
		whole := compilers.Compiled(t, c, tc.Expression)
		for _, object := range objects {
			values := alice()
			values[cel.Object] = object
			want, _, wantErr := whole.Program().Eval(t.Context(), values)
			got, gotErr := text == "true", error(nil)
			switch text {
			case "true", "false":
			case "error":
				gotErr = cel.ErrEvaluation
			default:
				got, _, gotErr = compilers.Compiled(t, conditions, text).Eval(t.Context(), cel.Values{cel.Object: object})
			}
			if got != want || (gotErr == nil) != (wantErr == nil) {
				t.Errorf("for %v: the residual is %t, %v, and the expression %t, %v", object, got, gotErr, want, wantErr)
			}
		}
	})
}

// TestEvalWithinItsCost evaluates with exactly the limit that the evaluation costs, and with one unit less. What exceeds its limit must
// be an error that says so, and never a value or a residual.
func TestEvalWithinItsCost(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	for _, tc := range []struct{ name, expression string }{
		{name: "true", expression: `request.name == "web"`},
		{name: "false", expression: `request.name == "x" || request.verb == "x"`},
		{name: "an error", expression: `request.userInfo.extra["nope"][0] == "x"`},
		{name: "a residual", expression: `object.s == request.name && object.t`},
		{name: "a residual that nothing changes", expression: `object.a == 1 && object.b.c.d == [1, 2, 3]`},
		{name: "work", expression: `lists.range(1000).all(x, x >= 0) && object.t`},
		{name: "a long value", expression: `object.s == lists.range(500).map(x, "a").join()`},
		{name: "a value without a literal", expression: `quantity(request.name + "1").isLessThan(quantity(object.s))`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			plan := planFor(t, c, tc.expression)
			full := plan.Eval(t.Context(), alice())
			if full.Cost() == 0 || full.Stopped() {
				t.Fatalf("got the cost %d, stopped %t", full.Cost(), full.Stopped())
			}
			for _, limit := range []uint64{full.Cost(), full.Cost() + 1, cel.CostLimit, 1 << 63} {
				got := plan.EvalWithin(t.Context(), alice(), limit)
				if got.Stopped() || got.Cost() != full.Cost() || got.IsTrue() != full.IsTrue() || got.IsFalse() != full.IsFalse() || (got.Residual() == nil) != (full.Residual() == nil) || (got.Err() == nil) != (full.Err() == nil) {
					t.Errorf("within %d: got %+v, want %+v", limit, got, full)
				}
			}
			for _, limit := range []uint64{0, 1, full.Cost() / 2, full.Cost() - 1} {
				got := plan.EvalWithin(t.Context(), alice(), limit)
				if !got.Stopped() || !errors.Is(got.Err(), cel.ErrCost) || got.IsTrue() || got.IsFalse() || got.Residual() != nil || got.Cost() <= limit {
					t.Errorf("within %d: got %+v, want ErrCost", limit, got)
				}
			}
			ended, end := context.WithCancel(t.Context())
			end()
			if got := plan.Eval(ended, alice()); !got.Stopped() || !errors.Is(got.Err(), context.Canceled) || !errors.Is(got.Err(), cel.ErrEvaluation) || got.Residual() != nil {
				t.Errorf("in a context that has ended: got %+v, want its error", got)
			}
		})
	}
}

// TestEvalOfOddRequests evaluates with requests that are not what is declared, and without any. None of them may be true.
func TestEvalOfOddRequests(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	for name, values := range map[string]cel.Values{
		"no request": {}, "null": {cel.Request: nil}, "a text": {cel.Request: "create"}, "a list": {cel.Request: []any{}}, "no fields": {cel.Request: map[string]any{}}, "a number for a name": {cel.Request: cel.Known(map[string]any{"name": int64(1)})},
		"a channel": {cel.Request: make(chan int)}, "a null user": {cel.Request: cel.Known(map[string]any{"name": "x", "userInfo": nil})},
	} {
		for _, expression := range []string{`request.name == "web" && object.t`, `object.t && request.name == "web"`, `request.userInfo.username.startsWith("a") && object.t == true`, `request.userInfo.groups.exists(g, g == object.s)`} {
			got := planFor(t, c, expression).Eval(t.Context(), values)
			if got.IsTrue() {
				t.Errorf("%s: %s is true", name, expression)
			}
			if residual := got.Residual(); residual != nil {
				// What is not known to be false is an error whatever the object is.
				if text, err := residual.Text(); err == nil && !residual.NeverTrue() {
					t.Errorf("%s: %s leaves %s, which can be true", name, expression, text)
				}
			}
		}
	}
}

// TestResidualsAtTheBound leaves texts of the greatest length, and of one byte more.
func TestResidualsAtTheBound(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	plan := planFor(t, c, `object.s == request.name`)
	room := cel.MaxExpressionBytes - len(`object.s == ""`)
	for _, tc := range []struct {
		name  string
		text  string
		fails bool
	}{
		{name: "the longest", text: strings.Repeat("a", room)},
		{name: "a byte more", text: strings.Repeat("a", room+1), fails: true},
		{name: "the longest with escapes", text: strings.Repeat("\n", room/2)},
		{name: "an escape more", text: strings.Repeat("\n", room/2+1), fails: true},
		{name: "far more", text: strings.Repeat("a", 1<<20), fails: true},
	} {
		residual := plan.Eval(t.Context(), request("alice", "create")).Residual()
		if residual == nil {
			t.Fatal("got no residual")
		}
		residual = plan.Eval(t.Context(), cel.Values{cel.Request: cel.Known(map[string]any{"name": tc.text})}).Residual()
		if residual == nil {
			t.Fatalf("%s: got no residual", tc.name)
		}
		text, err := residual.Text()
		if (err != nil) != tc.fails || tc.fails && (text != "" || !errors.Is(err, cel.ErrCompile)) || !tc.fails && len(text) > cel.MaxExpressionBytes {
			t.Errorf("%s: got %d bytes, %v, want an error: %t", tc.name, len(text), err, tc.fails)
		}
		if again, errAgain := residual.Text(); again != text || !errors.Is(errAgain, err) {
			t.Errorf("%s: got %d bytes, %v the second time", tc.name, len(again), errAgain)
		}
		if cost := residual.TextCost(); (cost == 0) != tc.fails {
			t.Errorf("%s: making the text costs %d", tc.name, cost)
		}
	}
}
