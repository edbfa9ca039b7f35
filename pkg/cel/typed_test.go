/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel_test

import (
	"errors"
	"strings"
	"testing"

	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// declared makes the type of an object.
func declared(name string, fields map[string]*apiservercel.DeclType) *apiservercel.DeclType {
	declarations := map[string]*apiservercel.DeclField{}
	for field, t := range fields {
		declarations[field] = apiservercel.NewDeclField(field, t, false, nil, nil)
	}
	return apiservercel.NewObjectType(name, declarations)
}

func typedCompiler(t *testing.T) *cel.TypedCompiler {
	t.Helper()
	c, err := cel.NewTypedCompiler(declared("v1/Widget", map[string]*apiservercel.DeclType{
		"size":      apiservercel.IntType,
		"namespace": apiservercel.StringType,
		"any":       apiservercel.DynType,
		"spec":      declared("v1/Widget.spec", map[string]*apiservercel.DeclType{"names": apiservercel.NewListType(apiservercel.StringType, -1)}),
	}), cel.NewCheckBudget())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTypedCompiler(t *testing.T) {
	t.Parallel()
	const selfOf = `operation == "DELETE" ? oldObject : object`
	for _, tc := range []struct {
		name       string
		variables  []cel.NamedExpression
		expression string
		want       string // what is wrong, if anything
	}{
		{name: "right", expression: `object.size > 1 && object.spec.names.exists(n, n == request.name)`},
		{name: "the old object", expression: `oldObject == null || oldObject.size <= object.size`},
		{name: "any type", expression: `object.spec`},
		{name: "open", expression: `object.any.what.ever == 1`},
		{name: "options are open", expression: `options.gracePeriodSeconds == 0`},
		{name: "the other variables", expression: `authorizer.requestResource.check("x").allowed() && dryRun && namespaceObject.metadata.name == request.userInfo.username`},
		{name: "a reserved word is a field", expression: `object.namespace == "a"`},
		{name: "no such field", expression: `object.sise > 1`, want: `ERROR: <input>:1:7: undefined field 'sise'`},
		{name: "nor in the old object", expression: `oldObject.spec.name == "a"`, want: `undefined field 'name'`},
		{name: "the wrong type", expression: `object.size == "1"`, want: `found no matching overload for '_==_' applied to '(int, string)'`},
		{name: "in a macro", expression: `object.spec.names.all(n, n > 1)`, want: `found no matching overload for '_>_' applied to '(string, int)'`},
		{name: "the type is no variable", expression: `v1.Widget == null`, want: `undeclared reference to 'v1'`},

		{name: "a variable", variables: []cel.NamedExpression{{"self", selfOf}}, expression: `variables.self.size > 1`},
		{name: "a mistake by a variable", variables: []cel.NamedExpression{{"self", selfOf}}, expression: `variables.self.sise > 1`, want: `1:15: undefined field 'sise'`},
		{name: "by one after another", variables: []cel.NamedExpression{{"self", selfOf}, {"names", `variables.self.spec.names`}}, expression: `variables.names[0] == 1`, want: `'(string, int)'`},
		{name: "a list without elements", variables: []cel.NamedExpression{{"none", `[]`}}, expression: `variables.none == [1] || "a" in variables.none`},
		{name: "a variable that is not there", expression: `variables.x == 1`, want: `undeclared reference to 'variables'`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := typedCompiler(t)
			for _, v := range tc.variables {
				if err := c.Define(v); err != nil {
					t.Fatalf("%s: %v", v.Name, err)
				}
			}
			wantMistake(t, c.Check(tc.expression), tc.want)
		})
	}
}

func wantMistake(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("got %v, want no mistake", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v, want %q", err, want)
	}
}

// TestTypedCompilerReportsOnce checks that what follows from a mistake is none.
func TestTypedCompilerReportsOnce(t *testing.T) {
	t.Parallel()
	c := typedCompiler(t)
	wantMistake(t, c.Define(cel.NamedExpression{Name: "bad", Expression: `object.sise`}), "undefined field")
	wantMistake(t, c.Define(cel.NamedExpression{Name: "next", Expression: `variables.bad.anything + 1`}), "")
	wantMistake(t, c.Check(`variables.next == variables.bad`), "")
}

// TestTypedCompilerBounds checks that what a Compiler refuses to look at is refused here.
func TestTypedCompilerBounds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, expression string }{
		{name: "what the compiler panics at", expression: `[?object.any].size() == 1`},
		{name: "longer than the bound", expression: `"` + strings.Repeat("x", cel.MaxExpressionBytes) + `" == ""`},
		{name: "nested deeper than the bound", expression: strings.Repeat("[", 17) + strings.Repeat("]", 17) + " == []"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := typedCompiler(t)
			if err := c.Check(tc.expression); !errors.Is(err, cel.ErrCompile) {
				t.Errorf("checked: got %v, want ErrCompile", err)
			}
			if err := c.Define(cel.NamedExpression{Name: "x", Expression: tc.expression}); !errors.Is(err, cel.ErrCompile) {
				t.Errorf("defined: got %v, want ErrCompile", err)
			}
			wantMistake(t, c.Check(`variables.x == 1`), "")
		})
	}
}

// TestTypedCompilerBoundsTypesTogether checks named expressions that double the type of the one before, whose texts are
// all within the bounds.
func TestTypedCompilerBoundsTypesTogether(t *testing.T) {
	t.Parallel()
	c := typedCompiler(t)
	const doubling = ".map(a, {a: a}).map(a, {a: a}).map(a, {a: a}).map(a, {a: a}).map(a, {a: a})"
	wantMistake(t, c.Define(cel.NamedExpression{Name: "a", Expression: "[1]" + doubling}), "")
	if err := c.Define(cel.NamedExpression{Name: "b", Expression: "variables.a" + doubling}); !errors.Is(err, cel.ErrCompile) || !strings.Contains(err.Error(), "more than 256 parts") {
		t.Errorf("got %v, want ErrCompile for a type that is too large", err)
	}
	// What is known of a macro's variable is known of the named expression too.
	if err := c.Check("variables.a.all(z, [" + strings.Repeat("z, ", 3000) + "z] == [])"); !errors.Is(err, cel.ErrCompile) {
		t.Errorf("got %v, want ErrCompile for a large type that is compared often", err)
	}
}

// TestCheckBudget checks long expressions for several kinds, within one budget.
func TestCheckBudget(t *testing.T) {
	t.Parallel()
	budget, long := cel.NewCheckBudget(), strings.Repeat("true||", 1650)+"true"
	checked := 0
	for range 10 {
		c, err := cel.NewTypedCompiler(declared("v1/Widget", map[string]*apiservercel.DeclType{"size": apiservercel.IntType}), budget)
		if err != nil {
			t.Fatal(err)
		}
		switch err := c.Check(long); {
		case err == nil:
			checked++
		case !errors.Is(err, cel.ErrBudget) || !errors.Is(err, cel.ErrCompile):
			t.Fatalf("got %v, want ErrBudget", err)
		default:
			if err := c.Define(cel.NamedExpression{Name: "a", Expression: "1"}); !errors.Is(err, cel.ErrBudget) {
				t.Errorf("after the budget is spent: got %v, want ErrBudget", err)
			}
		}
	}
	if checked < 4 || checked > 9 {
		t.Errorf("got %d checks of %d bytes, want between 4 and 9", checked, len(long))
	}
}

func TestTypedCompilerNeedsFields(t *testing.T) {
	t.Parallel()
	for _, object := range []*apiservercel.DeclType{nil, apiservercel.DynType, apiservercel.NewMapType(apiservercel.StringType, apiservercel.StringType, -1)} {
		if _, err := cel.NewTypedCompiler(object, cel.NewCheckBudget()); err == nil {
			t.Errorf("a compiler for %v was made", object)
		}
	}
}
