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

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
	"github.com/proviso-authz/proviso/test/testutil/rows"
)

// TestForRequests evaluates expressions for requests of which some fields are known.
func TestForRequests(t *testing.T) {
	t.Parallel()
	type row struct {
		Variables  []cel.NamedExpression
		Expression string
		Fields     map[string]string
		Want       string // true, false, error, never or open
	}
	rows.Run(t, "testdata/requests.yaml", func(t *testing.T, tc row) {
		e, err := compilers.Policies(t).CompileWithVariables(tc.Variables, tc.Expression)
		if err != nil {
			t.Fatal(err)
		}
		expressions, err := e.ForRequests([]map[string]string{tc.Fields})
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
		if got != tc.Want {
			t.Errorf("got %s, want %s", got, tc.Want)
		}
	})
}

// TestForRequestsIsBounded compiles a long expression for many requests.
func TestForRequestsIsBounded(t *testing.T) {
	t.Parallel()
	e := compilers.Compiled(t, compilers.Policies(t), strings.Repeat(`request.verb == "get" || `, 300)+"true")
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
	e := compilers.Compiled(t, compilers.Policies(t), expression)
	if got, want := e.ComparedTexts(cel.Operation), []string{"a", "b", "c", "d", "i"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := e.ComparedTexts(cel.Request, "verb"), []string{"e"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestComparedTextsOfEachForm compares in every form in which a condition can be written, and in some that compare something else.
func TestComparedTextsOfEachForm(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, expression string
		variables        []cel.NamedExpression
		want             []string
	}{
		{name: "nothing", expression: "true"},
		{name: "equal", expression: `request.verb == "a"`, want: []string{"a"}},
		{name: "the other way", expression: `"a" == request.verb`, want: []string{"a"}},
		{name: "not equal", expression: `request.verb != "a" && "b" != request.verb`, want: []string{"a", "b"}},
		{name: "in a list", expression: `request.verb in ["a", "b", "a"]`, want: []string{"a", "b"}},
		{name: "in a list that is not constant", expression: `request.verb in ["a", request.name, "c"]`, want: []string{"a", "c"}},
		{name: "a list with it", expression: `"a" in [request.verb]`},
		{name: "another function", expression: `request.verb.startsWith("a") || request.verb.matches("b") || request.verb < "c"`},
		{name: "a test", expression: `has(request.verb) && request.name == "a"`},
		{name: "a field of it", expression: `request.userInfo.username == "a"`},
		{name: "a field of the same name", expression: `object.verb == "a" || object.request.verb == "b" || oldObject == "c"`},
		{name: "another field", expression: `request.name == "a"`},
		{name: "a value whose type is hidden", expression: `dyn(request.verb) == 1 || dyn(request.verb) == "a"`},
		{name: "a choice of texts", expression: `request.verb == (object.a ? "a" : "b")`},
		{name: "in a choice", expression: `object.a ? request.verb == "a" : request.verb == "b"`, want: []string{"a", "b"}},
		{name: "in a macro", expression: `object.l.all(x, x == "z" || request.verb == "a")`, want: []string{"a"}},
		{name: "over a range", expression: `[request.verb == "a"].all(x, x)`, want: []string{"a"}},
		{name: "in an argument", expression: `!(request.verb == "a") && [request.verb == "b"] == [true] && {"k": request.verb == "c"} == {}`, want: []string{"a", "b", "c"}},
		{name: "in a variable", expression: `variables.v && request.verb == "b"`, variables: []cel.NamedExpression{{Name: "v", Expression: `request.verb == "a"`}}, want: []string{"a", "b"}},
		{name: "in a variable that is not used", expression: `request.verb == "b"`, variables: []cel.NamedExpression{{Name: "v", Expression: `request.verb == "a"`}}, want: []string{"b"}},
		{name: "a variable of a macro with the name of the field", expression: `object.l.all(verb, verb == "a")`},
		{name: "the whole request", expression: `dyn(request) == "a"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e, err := compilers.Policies(t).CompileWithVariables(tc.variables, tc.expression)
			if err != nil {
				t.Fatal(err)
			}
			if got := e.ComparedTexts(cel.Request, "verb"); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestComparedValues compares the values of requirements of selectors in every form in which a condition can be written, and in some that
// compare something else.
func TestComparedValues(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, expression string
		labels, fields   [][]string
	}{
		{name: "nothing", expression: "true"},
		{name: "equal", expression: `request.labelSelector.requirements.exists(r, r.values == ["b", "a"])`, labels: [][]string{{"b", "a"}}},
		{name: "the other way", expression: `request.labelSelector.requirements.all(r, ["b", "a"] == r.values)`, labels: [][]string{{"b", "a"}}},
		{name: "not equal", expression: `request.labelSelector.requirements.exists(r, r.values != ["b"])`, labels: [][]string{{"b"}}},
		{name: "of fields", expression: `request.fieldSelector.requirements.exists(r, r.values == ["b"])`, fields: [][]string{{"b"}}},
		{name: "both", expression: `request.fieldSelector.requirements.exists(r, r.values == ["b"] && request.labelSelector.requirements.exists(q, q.values == r.values || q.values == ["a"]))`,
			labels: [][]string{{"a"}}, fields: [][]string{{"b"}}},
		{name: "by index", expression: `request.labelSelector.requirements[0].values == ["b"]`, labels: [][]string{{"b"}}},
		{name: "index and requirement", expression: `request.labelSelector.requirements.exists(i, r, r.values == ["b"])`, labels: [][]string{{"b"}}},
		{name: "empty, long and twice", expression: `request.labelSelector.requirements.exists(r, r.values == [] || r.values == ["1", "2", "3", "4", "5", "6", "7", "8", "9", "0"] || r.values == [])`,
			labels: [][]string{nil, {"1", "2", "3", "4", "5", "6", "7", "8", "9", "0"}}},
		{name: "a list that is not constant", expression: `request.labelSelector.requirements.exists(r, r.values == [request.name])`},
		{name: "another function", expression: `request.labelSelector.requirements.exists(r, r.values + ["a"] == [] && "a" in r.values)`},
		{name: "one value", expression: `request.labelSelector.requirements.exists(r, r.values[0] == "a" && r.key == "k")`},
		{name: "a variable of a macro in it", expression: `request.labelSelector.requirements.exists(r, object.l.exists(q, q.values == ["b", "a"]))`},
		{name: "a variable of the same name", expression: `request.labelSelector.requirements.exists(r, r.key == "k") && object.l.exists(r, r.values == ["b", "a"])`},
		{name: "a variable of another macro", expression: `object.l.exists(r, r.values == ["b", "a"])`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := compilers.Compiled(t, compilers.Policies(t), tc.expression)
			if diff := cmp.Diff([][][]string{tc.labels, tc.fields}, [][][]string{e.ComparedLabelValues(), e.ComparedFieldValues()}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestReadsRequestField finds the fields of request that an expression reads, also inside other fields.
func TestReadsRequestField(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		expression string
		path       []string
		want       bool
	}{
		{`request.userInfo.username == "a"`, []string{"userInfo"}, true},
		{`request.userInfo.username == "a"`, []string{"userInfo", "username"}, true},
		{`request.userInfo.username == "a"`, []string{"userInfo", "groups"}, false},
		{`request.userInfo == request.userInfo`, []string{"userInfo", "groups"}, true},
		{`request == request`, []string{"userInfo", "groups"}, true},
		{`request.?userInfo.groups.hasValue()`, []string{"userInfo", "groups"}, true},
		{`["a"].exists(x, x in request.userInfo.groups)`, []string{"userInfo", "groups"}, true},
		{`request.userInfo.extra["k"] == ["v"]`, []string{"userInfo", "extra", "k"}, true},
		{`request.name == "a"`, []string{"userInfo"}, false},
		{`object.metadata.name == "a"`, []string{"name"}, false},
	} {
		if got := compile(t, tc.expression).ReadsRequestField(tc.path[0], tc.path[1:]...); got != tc.want {
			t.Errorf("%s reads %v: got %v, want %v", tc.expression, tc.path, got, tc.want)
		}
	}
}

// TestPartialChecksForOthers has conditions of a policy of the namespace demo.
func TestPartialChecksForOthers(t *testing.T) {
	t.Parallel()
	compiler := compilers.Policies(t)
	type row struct {
		Condition           string
		Variables           []cel.NamedExpression
		Want, WantOfCluster bool
	}
	rows.Run(t, "testdata/others.yaml", func(t *testing.T, tc row) {
		expression, err := compiler.CompileWithVariables(tc.Variables, tc.Condition)
		if err != nil {
			t.Fatal(err)
		}
		if got, ofCluster := expression.ChecksForOthers("demo"), expression.ChecksForOthers(""); got != tc.Want || ofCluster != tc.WantOfCluster {
			t.Errorf("got %t, and %t without a namespace, want %t and %t", got, ofCluster, tc.Want, tc.WantOfCluster)
		}
	})
}

func TestTextIteratingLast(t *testing.T) {
	t.Parallel()
	compiler, err := partial.NewPolicyCompiler(compilers.Conditions(t))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`object.l.exists(x, x) && request.name == "a"`:                              `request.name == "a" && object.l.exists(x, x)`,
		`object.l.exists(x, x) || request.name == "a"`:                              `request.name == "a" || object.l.exists(x, x)`,
		`request.name == "a" && object.l.exists(x, x)`:                              `request.name == "a" && object.l.exists(x, x)`,
		`object.l == [1] && request.name == "a"`:                                    `object.l == [1] && request.name == "a"`,
		`oldObject.l.exists(x, x) && request.name == "a"`:                           `oldObject.l.exists(x, x) && request.name == "a"`,
		`request.userInfo.groups.exists(g, g == "a") && request.name == "a"`:        `request.userInfo.groups.exists(g, g == "a") && request.name == "a"`,
		`request.userInfo.groups.exists(g, g in object.l) && request.name == "a"`:   `request.name == "a" && request.userInfo.groups.exists(g, g in object.l)`,
		`object.l.exists(x, x) && (object.m.all(x, x) && (dryRun && object.a))`:     `dryRun && object.a && object.l.exists(x, x) && object.m.all(x, x)`,
		`(object.l.exists(x, x) || dryRun) && request.name == "a"`:                  `request.name == "a" && (dryRun || object.l.exists(x, x))`,
		`!(object.l.exists(x, x) && dryRun) ? object.b == 1 : false`:                `!(dryRun && object.l.exists(x, x)) ? object.b == 1 : false`,
		`object.l.exists(x, x.m.exists(y, y) && dryRun)`:                            `object.l.exists(x, dryRun && x.m.exists(y, y))`,
		`request.userInfo.groups.exists(g, object.l.exists(x, x == g) && g == "x")`: `request.userInfo.groups.exists(g, g == "x" && object.l.exists(x, x == g))`,
		`[object.l.exists(x, x) && dryRun, true].all(v, v)`:                         `[dryRun && object.l.exists(x, x), true].all(v, v)`,
		`{"a": object.l.exists(x, x) || dryRun}["a"]`:                               `{"a": dryRun || object.l.exists(x, x)}["a"]`,
	} {
		expression := compilers.Compiled(t, compiler, text)
		got := expression.TextIteratingLast(cel.Object)
		if got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
		if _, err := compiler.Compile(got); err != nil {
			t.Errorf("%s: %v", got, err)
		}
		if expression.Text() != text {
			t.Errorf("%s: the expression has become %s", text, expression.Text())
		}
	}
}
