/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
)

// TestShorten cuts messages at the bound. A letter that is cut in half must not remain: messages are shown as JSON.
func TestShorten(t *testing.T) {
	t.Parallel()
	const most = 1024
	for _, tc := range []struct{ name, message, want string }{
		{name: "nothing"},
		{name: "a short message", message: "a mistake", want: "a mistake"},
		{name: "the longest message", message: strings.Repeat("a", most), want: strings.Repeat("a", most)},
		{name: "a byte more", message: strings.Repeat("a", most+1), want: strings.Repeat("a", most) + " …"},
		{name: "a letter of two bytes at the end", message: strings.Repeat("a", most-2) + "ü" + "b", want: strings.Repeat("a", most-2) + "ü …"},
		{name: "a letter of two bytes over the end", message: strings.Repeat("a", most-1) + "ü", want: strings.Repeat("a", most-1) + " …"},
		{name: "a letter of four bytes over the end", message: strings.Repeat("a", most-3) + "😀", want: strings.Repeat("a", most-3) + " …"},
		{name: "the longest message that is not UTF-8, which stays", message: strings.Repeat("\xff", most), want: strings.Repeat("\xff", most)},
		{name: "a longer message that is not UTF-8", message: strings.Repeat("\xff", most+1), want: " …"},
	} {
		got := engine.Shorten(tc.message)
		if got != tc.want {
			t.Errorf("%s: got %d bytes ending in %.10q, want %d", tc.name, len(got), got[max(len(got)-10, 0):], len(tc.want))
		}
		if len(tc.message) > most && !utf8.ValidString(got) {
			t.Errorf("%s: the message is not UTF-8", tc.name)
		}
	}
}

// TestDescribe lists the first mistakes with their places, and says how many more there are.
func TestDescribe(t *testing.T) {
	t.Parallel()
	e := newEngine(t, cel.CostLimit)
	for _, tc := range []struct {
		name, expression string
		want             []string // in order
		wantMore         string
	}{
		{name: "one mistake", expression: `a1`, want: []string{"ERROR: <input>:1:1: undeclared reference to 'a1'"}},
		{name: "a mistake in the second line", expression: "object ==\n  a1", want: []string{"ERROR: <input>:2:3: undeclared reference to 'a1'"}},
		{name: "five mistakes", expression: `[a1, a2, a3, a4, a5]`, want: []string{"1:2: undeclared reference to 'a1'", "'a2'", "'a3'", "'a4'", "1:18: undeclared reference to 'a5'"}},
		{name: "six mistakes", expression: `[a1, a2, a3, a4, a5, a6]`, want: []string{"'a1'", "'a5'"}, wantMore: "; and 1 more"},
		{name: "many mistakes", expression: `[a1, a2, a3, a4, a5, a6, a7, a8, a9]`, want: []string{"'a1'", "'a5'"}, wantMore: "; and 4 more"},
		{name: "a mistake in the syntax", expression: `object +`, want: []string{"ERROR: <input>:1:9: Syntax error"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := engine.Check(e.Env, e.Guard, tc.expression)
			if err == nil {
				t.Fatal("got no error")
			}
			rest := err.Error()
			for _, want := range tc.want {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Fatalf("got %s, want %q in order", err, tc.want)
				}
				rest = after
			}
			if strings.Contains(err.Error(), " more") != (tc.wantMore != "") || !strings.HasSuffix(err.Error(), tc.wantMore) || strings.Contains(err.Error(), "'a6'") {
				t.Errorf("got %s, want %q at the end", err, tc.wantMore)
			}
		})
	}
}

// TestParseMeasures asks that parsing refuses what takes too long to check, and that it measures what it does not refuse.
func TestParseMeasures(t *testing.T) {
	t.Parallel()
	e := newEngine(t, cel.CostLimit)
	for _, tc := range []struct {
		name, expression string
		nodes            int
		wantErr          string
	}{
		{name: "a small expression", expression: `object.a < 1`, nodes: 4},
		{name: "a macro, which is expanded", expression: `object.all(x, true)`, nodes: 9},
		{name: "a mistake in the syntax", expression: `object <`, wantErr: "Syntax error"},
		{name: "too many comparisons", expression: strings.Repeat("1==2||", 1700) + "true", nodes: 1701 + 2*1700 + 1, wantErr: "too many comparisons"},
		{name: "a mistake in the types, which is found later", expression: `1 < "a"`, nodes: 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			parsed, work, err := engine.Parse(e.Env, e.Guard, tc.expression)
			if (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) || (parsed == nil) != (tc.wantErr == "Syntax error") {
				t.Errorf("got %v, %v, want the error %q", parsed, err, tc.wantErr)
			}
			if tc.wantErr == "" && work.Nodes != tc.nodes || tc.wantErr != "" && err != nil && tc.nodes > 0 && work.Nodes < 1000 {
				t.Errorf("got %d parts, want %d", work.Nodes, tc.nodes)
			}
		})
	}
}

// TestPlanRefuses plans what cannot be planned. Nothing is planned in part.
func TestPlanRefuses(t *testing.T) {
	t.Parallel()
	e := newEngine(t, cel.CostLimit)
	whole := checked(t, e, `object.a == 1`)
	factory := ast.NewExprFactory()
	for _, tc := range []struct {
		name  string
		parts []ast.Expr
	}{
		{name: "a wrong pattern", parts: []ast.Expr{factory.NewMemberCall(100, "matches", factory.NewIdent(101, "object"), factory.NewLiteral(102, types.String("(")))}},
		{name: "no expression", parts: []ast.Expr{nil}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if planned, err := e.Plan(whole, tc.parts); planned != nil || !errors.Is(err, engine.ErrCompile) || len(err.Error()) > 1200 {
				t.Errorf("got %d instructions, %v, want ErrCompile", len(planned), err)
			}
		})
	}
	if planned, err := e.Plan(whole, nil); len(planned) != 0 || err != nil {
		t.Errorf("nothing: got %d instructions, %v", len(planned), err)
	}
}

// TestFailures asks what the errors of evaluations wrap and say.
func TestFailures(t *testing.T) {
	t.Parallel()
	var failure error = &engine.Failure{Text: "no such key: a"}
	wrapped := fmt.Errorf("the policy: %w", failure)
	if !errors.Is(wrapped, engine.ErrEvaluation) || errors.Is(wrapped, engine.ErrCost) || failure.Error() != "evaluation failed: no such key: a" {
		t.Errorf("got %v", wrapped)
	}
}

// TestEnginesOfOtherEnvironments makes engines of environments that lack functions, and of one without limits.
func TestEnginesOfOtherEnvironments(t *testing.T) {
	t.Parallel()
	plain, err := celgo.NewEnv()
	if err != nil {
		t.Fatal(err)
	}
	if e, err := engine.New(plain, cel.CostLimit); e != nil || err == nil {
		t.Errorf("got %v, %v, want an error: functions are missing", e, err)
	}
	e := newEngine(t)
	if _, err := e.Plan(checked(t, e, `true`), nil); err != nil {
		t.Errorf("without limits: %v", err)
	}
}

// TestEvalOfValues evaluates expressions of every kind of instruction that can be at the top.
func TestEvalOfValues(t *testing.T) {
	t.Parallel()
	e := newEngine(t, cel.CostLimit)
	for _, tc := range []struct {
		expression string
		want       any
		wantErr    bool
	}{
		{expression: `1`, want: int64(1)},
		{expression: `object`, want: map[string]any{"a": int64(1), "k": "a"}},
		{expression: `object.a`, want: int64(1)},
		{expression: `object[object.k]`, want: int64(1)},
		{expression: `object.?a`, want: types.OptionalOf(types.Int(1))},
		{expression: `has(object.a)`, want: true},
		{expression: `[object.a]`, want: []any{int64(1)}},
		{expression: `{object.k: object.a}`, want: map[string]any{"a": int64(1)}},
		{expression: `object.a == 1 && object.k == "a"`, want: true},
		{expression: `dryRun ? 1 : 2`, wantErr: true},
		{expression: `object.a == 1 || dryRun`, want: true},
		{expression: `object.map(k, k).size()`, want: int64(2)},
		{expression: `object.missing`, wantErr: true},
		{expression: `object.k.matches("a")`, want: true},
	} {
		whole := checked(t, e, tc.expression)
		got, cost, err := e.Eval(t.Context(), plan(t, e, whole, whole.Expr())[0], cel.Values{cel.Object: map[string]any{"a": int64(1), "k": "a"}}, cel.CostLimit)
		if (err != nil) != tc.wantErr || err == nil && types.Equal(got, types.DefaultTypeAdapter.NativeToValue(tc.want)) != types.True || cost > 100 {
			t.Errorf("%s: got %v, %v at cost %d, want %v", tc.expression, got, err, cost, tc.want)
		}
	}
}
