/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// TestResultsExcludeEachOther evaluates while the request is known. A result is one of true, false, an error and a residual, and no other: a caller that
// asks for one of them must not take another for it.
func TestResultsExcludeEachOther(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, expression string
		want             string
	}{
		{name: "true", expression: `request.name == "web"`, want: "true"},
		{name: "false", expression: `request.name == "db"`, want: "false"},
		{name: "true, whatever the object is", expression: `request.name == "web" || object.a == 1`, want: "true"},
		{name: "false, whatever the object is", expression: `object.a == 1 && request.name == "db"`, want: "false"},
		{name: "an error", expression: `request.userInfo.extra["nope"][0] == "x"`, want: "error"},
		{name: "an error, or true", expression: `request.userInfo.extra["nope"][0] == "x" || object.a == 1`, want: "residual"},
		{name: "an error, or false", expression: `request.userInfo.extra["nope"][0] == "x" && object.a == 1`, want: "residual, never true"},
		{name: "an error and false", expression: `request.userInfo.extra["nope"][0] == "x" && request.name == "db"`, want: "false"},
		{name: "open", expression: `object.a == 1`, want: "residual"},
		{name: "open, negated", expression: `!(object.a == 1)`, want: "residual"},
		{name: "a choice by what is known", expression: `request.name == "web" ? object.a == 1 : object.b == 1`, want: "residual"},
		{name: "a choice that is decided", expression: `request.name == "web" ? false : object.b == 1`, want: "false"},
		{name: "a choice by an error", expression: `request.userInfo.extra["nope"][0] == "x" ? object.a == 1 : object.b == 1`, want: "error"},
		{name: "errors in all branches", expression: `object.a == 1 && request.userInfo.extra["nope"][0] == "x" || request.userInfo.extra["none"][0] == "x" && object.b == 1`, want: "residual, never true"},
		{name: "an error in one branch", expression: `object.a == 1 && request.userInfo.extra["nope"][0] == "x" || object.b == 1`, want: "residual"},
		{name: "a map without the key is no error that was made here", expression: `object.a == 1 && {"x": 1}[object.b] == 1`, want: "residual"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			plan, err := compile(t, tc.expression).Plan(cel.Request)
			if err != nil {
				t.Fatal(err)
			}
			result := plan.Eval(t.Context(), alice())
			var got []string
			if result.IsTrue() {
				got = append(got, "true")
			}
			if result.IsFalse() {
				got = append(got, "false")
			}
			if result.Err() != nil {
				got = append(got, "error")
			}
			if r := result.Residual(); r != nil {
				kind := "residual"
				if r.NeverTrue() {
					kind += ", never true"
				}
				got = append(got, kind)
			}
			if text := strings.Join(got, " and "); text != tc.want {
				t.Errorf("got %s, want %s", text, tc.want)
			}
			if result.Stopped() {
				t.Errorf("it was stopped: %v", result.Err())
			}
		})
	}
}

func compile(t *testing.T, text string) *partial.Expression {
	t.Helper()
	e := compilers.Compiled(t, compilers.Policies(t), text)
	return e
}

// TestFailedIsNoResult makes the result of an expression that could not be evaluated. It is neither true nor false, and so is the zero value.
func TestFailedIsNoResult(t *testing.T) {
	t.Parallel()
	failure := errors.New("a failure")
	failed := partial.Failed(failure)
	if failed.IsTrue() || failed.IsFalse() || !errors.Is(failed.Err(), failure) || failed.Residual() != nil || failed.Stopped() {
		t.Errorf("got %+v", failed)
	}
	if zero := (partial.Result{}); zero.IsTrue() || zero.IsFalse() {
		t.Error("the zero value is decided")
	}
}

// TestTextsOfResidualsAtTheirBound puts a name into a residual that makes it as long as an expression may be, and one byte longer. A residual without a
// text is an error, and never another text.
func TestTextsOfResidualsAtTheirBound(t *testing.T) {
	t.Parallel()
	const expression, before, after = `object.a == request.name && object.b == 1`, `object.a == "`, `" && object.b == 1`
	plan, err := compile(t, expression).Plan(cel.Request)
	if err != nil {
		t.Fatal(err)
	}
	room := cel.MaxExpressionBytes - len(before) - len(after)
	for _, tc := range []struct {
		name, value string
		want        string
		wantErr     error
	}{
		{name: "short", value: "web", want: before + "web" + after},
		{name: "as long as may be", value: strings.Repeat("x", room), want: before + strings.Repeat("x", room) + after},
		{name: "a byte more", value: strings.Repeat("x", room+1), wantErr: cel.ErrTooLong},
		{name: "a letter that takes several bytes more", value: strings.Repeat("x", room-1) + "ß", wantErr: cel.ErrTooLong},
		{name: "letters that are escaped", value: strings.Repeat("\"", room/2+1), wantErr: cel.ErrTooLong},
		{name: "much more", value: strings.Repeat("x", 100*cel.MaxExpressionBytes), wantErr: cel.ErrTooLong},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			result := plan.Eval(t.Context(), cel.Values{cel.Request: cel.Known(map[string]any{"name": tc.value})})
			residual := result.Residual()
			if residual == nil {
				t.Fatalf("got %v", result.Err())
			}
			for range 2 { // the text is made once
				text, err := residual.Text()
				if text != tc.want || !errors.Is(err, tc.wantErr) || (err == nil) != (tc.wantErr == nil) {
					t.Errorf("got %d bytes, %v, want %d bytes, %v", len(text), err, len(tc.want), tc.wantErr)
				}
			}
			if cost := residual.TextCost(); (cost > 0) != (tc.wantErr == nil) {
				t.Errorf("the text costs %d", cost)
			}
		})
	}
}
