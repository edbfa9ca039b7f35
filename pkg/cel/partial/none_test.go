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

func conditionCompiler(t *testing.T) (*cel.Compiler, *partial.Compiler) {
	t.Helper()
	compiler := compilers.Conditions(t)
	inPart, err := partial.NewConditionCompiler(compiler)
	if err != nil {
		t.Fatal(err)
	}
	return compiler, inPart
}

func TestNoneOf(t *testing.T) {
	t.Parallel()
	compiler, inPart := conditionCompiler(t)
	const holds, fails, errs = `object.x == 1`, `object.x == 2`, `object.missing == 1`
	for _, tc := range []struct {
		name    string
		texts   []string
		want    bool
		wantErr bool
	}{
		{name: "one that holds", texts: []string{holds}, want: false, wantErr: false},
		{name: "one that does not", texts: []string{fails}, want: true, wantErr: false},
		{name: "one that fails", texts: []string{errs}, want: false, wantErr: true},
		{name: "one of several holds", texts: []string{fails, holds, fails}, want: false, wantErr: false},
		{name: "none holds", texts: []string{fails, fails}, want: true, wantErr: false},
		{name: "one fails, another holds", texts: []string{errs, holds}, want: false, wantErr: false},
		{name: "one holds, another fails", texts: []string{holds, errs}, want: false, wantErr: false},
		{name: "one fails, none holds", texts: []string{errs, fails}, want: false, wantErr: true},
		{name: "operators of lower precedence", texts: []string{`object.x == 2 ? true : object.x == 3`, `object.x == 2 || object.x == 3`}, want: true, wantErr: false},
		{name: "a comment at the end", texts: []string{`object.x == 2 // ) || (true`, fails}, want: true, wantErr: false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for range 2 { // the second time from the cache
				text, err := inPart.NoneOf(tc.texts...)
				if err != nil {
					t.Fatal(err)
				}
				program := compilers.Compiled(t, compiler, text)
				got, _, err := program.Eval(t.Context(), cel.Values{cel.Object: cel.Known(map[string]any{"x": 1})})
				if (err != nil) != tc.wantErr || got != tc.want {
					t.Errorf("%s: got %v, %v; want %v, error %v", text, got, err, tc.want, tc.wantErr)
				}
			}
		})
	}
}

func TestNoneOfRefuses(t *testing.T) {
	t.Parallel()
	_, inPart := conditionCompiler(t)
	for name, texts := range map[string][]string{
		"nothing":                nil,
		"no condition":           {`object.x`, `1`},
		"half of one":            {`object.x == 1) || (true`},
		"a variable of policy":   {`request.verb == "get"`},
		"more than a text holds": {strings.Repeat("object.x == 1 || ", 550) + "true", strings.Repeat("object.x == 2 || ", 550) + "true"},
	} {
		if text, err := inPart.NoneOf(texts...); !errors.Is(err, cel.ErrCompile) {
			t.Errorf("%s: got %q, %v; want a refusal", name, text, err)
		}
	}
}

func TestPrepareKeepsPlans(t *testing.T) {
	t.Parallel()
	_, inPart := conditionCompiler(t)
	const text = `impersonatedUser.username == object.owner`
	first, err := inPart.Prepare(text, cel.ImpersonatedUser)
	if err != nil {
		t.Fatal(err)
	}
	again, err := inPart.Prepare(text, cel.ImpersonatedUser)
	if err != nil || first != again {
		t.Errorf("it was planned again, %v", err)
	}
	if other, err := inPart.Prepare(text, cel.ImpersonatedRequest); err != nil || other == first {
		t.Errorf("other variables are known, but the plan is the same, %v", err)
	}
	for range 2 {
		if _, err := inPart.Prepare(`object.`); !errors.Is(err, cel.ErrCompile) {
			t.Errorf("got %v, want a refusal", err)
		}
	}
}
