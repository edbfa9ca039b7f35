/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// TestForRequests evaluates expressions for requests of which some fields are known.
func TestForRequests(t *testing.T) {
	t.Parallel()
	verb := func(v string) map[string]string { return map[string]string{"verb": v} }
	for _, tc := range []struct {
		name, expression string
		variables        []cel.NamedExpression
		fields           map[string]string
		want             string // true, false, error, never or open
	}{
		{name: "a field", expression: `request.verb == "get"`, fields: verb("get"), want: "true"},
		{name: "another value", expression: `request.verb == "GET"`, fields: verb("get"), want: "false"},
		{name: "another field", expression: `request.name == "a"`, fields: verb("get"), want: "open"},
		{name: "a false part", expression: `request.verb == "list" && request.name == "a"`, fields: verb("get"), want: "false"},
		{name: "a true part", expression: `request.verb == "get" && request.name == "a"`, fields: verb("get"), want: "open"},
		{name: "two fields", expression: `request.verb == "get" && request.resource == "pods"`, fields: map[string]string{"verb": "get", "resource": "nodes"}, want: "false"},
		{name: "in a list", expression: `request.verb in ["a", "b"]`, fields: verb("get"), want: "false"},
		{name: "in a macro", expression: `["get", "list"].exists(v, v == request.verb && object.a == v)`, fields: verb("watch"), want: "false"},
		{name: "in a variable", expression: `variables.isGet`, variables: []cel.NamedExpression{{Name: "isGet", Expression: `request.verb == "get"`}}, fields: verb("list"), want: "false"},
		{name: "a test", expression: `has(request.verb)`, fields: verb("get"), want: "open"},
		{name: "the field of another object", expression: `object.verb == "get"`, fields: verb("list"), want: "open"},
		{name: "the whole request", expression: `dyn(request)["verb"] == "get"`, fields: verb("list"), want: "open"},
		{name: "null", expression: `oldObject.a == 1`, want: "error"},
		{name: "null, and more", expression: `object.a == 1 && oldObject.a == 1`, want: "never"},
		{name: "null, but handled", expression: `oldObject == null || oldObject.a == 1`, want: "true"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e, err := policyCompiler(t).CompileWithVariables(tc.variables, tc.expression)
			if err != nil {
				t.Fatal(err)
			}
			expressions, err := e.ForRequests([]map[string]string{tc.fields})
			if err != nil {
				t.Fatal(err)
			}
			plan, err := expressions[0].Plan(cel.OldObject)
			if err != nil {
				t.Fatal(err)
			}
			got := "open"
			switch result := plan.Eval(t.Context(), cel.Values{cel.OldObject: cel.Known(nil)}); {
			case result.IsTrue():
				got = "true"
			case result.IsFalse():
				got = "false"
			case result.Err() != nil:
				got = "error"
			case result.Residual().NeverTrue():
				got = "never"
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestForRequestsIsBounded compiles a long expression for many requests.
func TestForRequestsIsBounded(t *testing.T) {
	t.Parallel()
	e, err := policyCompiler(t).Compile(strings.Repeat(`request.verb == "get" || `, 300) + "true")
	if err != nil {
		t.Fatal(err)
	}
	requests := make([]map[string]string, 1000)
	if _, err := e.ForRequests(requests); !errors.Is(err, cel.ErrBudget) {
		t.Errorf("got %v", err)
	}
	if got, err := e.ForRequests(requests[:1]); err != nil || len(got) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestComparedTexts(t *testing.T) {
	t.Parallel()
	const expression = `operation == "a" || "b" != operation || operation in ["c", "d", "a"] || request.verb == "e" || object.operation == "f" ||
		"g" in request.userInfo.groups || ["h"].exists(o, operation == o || operation == "i") || operation == object.y || has(request.verb)`
	e, err := policyCompiler(t).Compile(expression)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := e.ComparedTexts(cel.Operation), []string{"a", "b", "c", "d", "i"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := e.ComparedTexts(cel.Request, "verb"), []string{"e"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
