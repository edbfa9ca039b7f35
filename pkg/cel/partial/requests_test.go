/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"errors"
	"fmt"
	"math"
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
	type row struct {
		Expression string
		Variables  []cel.NamedExpression
		Want       []string
	}
	rows.Run(t, "testdata/texts.yaml", func(t *testing.T, tc row) {
		e, err := compilers.Policies(t).CompileWithVariables(tc.Variables, tc.Expression)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.ComparedTexts(cel.Request, "verb"); !slices.Equal(got, tc.Want) {
			t.Errorf("got %q, want %q", got, tc.Want)
		}
	})
}

// TestComparedValues compares the values of requirements of selectors in every form in which a condition can be written, and in some that
// compare something else.
func TestComparedValues(t *testing.T) {
	t.Parallel()
	type row struct {
		Expression     string
		Labels, Fields [][]string
	}
	rows.Run(t, "testdata/values.yaml", func(t *testing.T, tc row) {
		e := compilers.Compiled(t, compilers.Policies(t), tc.Expression)
		if diff := cmp.Diff([][][]string{tc.Labels, tc.Fields}, [][][]string{e.ComparedLabelValues(), e.ComparedFieldValues()}); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
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
		got := partial.TextIteratingLast(expression, cel.Object)
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

func TestAdmissionTextLimitsMacros(t *testing.T) {
	t.Parallel()
	compiler, err := partial.NewAdmissionCompiler()
	if err != nil {
		t.Fatal(err)
	}
	const over = `size(object.l) <= 1000 ? object.l : dyn("more than 1000 elements")`
	for text, want := range map[string]string{
		`object.l.exists(x, x)`:                                         `(` + over + `).exists(x, x)`,
		`object.l.exists(i, x, x == i)`:                                 `(` + over + `).exists(i, x, x == i)`,
		`[object.m].transformMapEntry(i, v, v).all(k, k == "")`:         `(size([object.m].transformMapEntry(i, v, v)) <= 1000 ? [object.m].transformMapEntry(i, v, v) : dyn("more than 1000 elements")).all(k, k == "")`,
		`object.l.filter(x, x).all(x, x)`:                               `(` + over + `).filter(x, x).all(x, x)`,
		`quantity("1") == quantity(object.q)`:                           `quantity("1") == quantity(size(object.q) <= 64 && !object.q.matches("[eE][+-]?[0-9]{4}") ? object.q : dyn(0))`,
		`"a" in object.l`:                                               `"a" in object.l`,
		`[1].all(x, x in object.l || x in [1])`:                         `[1].all(x, x in (` + over + `) || x in [1])`,
		`object.?l.optMap(l, 1 in l).orValue(true)`:                     `object.?l.optMap(l, 1 in l).orValue(true)`,
		`[object.l].all(l, l.all(x, x))`:                                `[object.l].all(l, (size(l) <= 1000 ? l : dyn("more than 1000 elements")).all(x, x))`,
		`request.userInfo.groups.exists(g, g in object.l)`:              `request.userInfo.groups.exists(g, g in (` + over + `))`,
		`request.userInfo.extra.all(k, k in object.l)`:                  `request.userInfo.extra.all(k, k in (` + over + `))`,
		`(has(object.l) ? object.l : []).all(x, x)`:                     `(size(has(object.l) ? object.l : []) <= 1000 ? (has(object.l) ? object.l : []) : dyn("more than 1000 elements")).all(x, x)`,
		`(object.a ? request.userInfo.groups : ["b"]).all(x, x == "a")`: `(object.a ? request.userInfo.groups : ["b"]).all(x, x == "a")`,
		`(object.a ? ["b"] : object.l).all(x, x)`:                       `(size(object.a ? ["b"] : object.l) <= 1000 ? (object.a ? ["b"] : object.l) : dyn("more than 1000 elements")).all(x, x)`,
		`{"a": true}.all(k, k in object.l)`:                             `{"a": true}.all(k, k in (` + over + `))`,
		`object.?l.optMap(l, l.all(x, x)).orValue(true)`:                `object.?l.optMap(l, (size(l) <= 1000 ? l : dyn("more than 1000 elements")).all(x, x)).orValue(true)`,
		`object.b && "a" in object.l`:                                   `object.b && "a" in object.l`,
	} {
		expression := compilers.Compiled(t, compiler, text)
		got, _ := expression.AdmissionText(math.MaxInt)
		if got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
		if _, err := compiler.Compile(got); err != nil {
			t.Errorf("%s: %v", got, err)
		}
	}
}

// TestAdmissionTextIsBounded nests what is limited. Each level has its inner one twice or three times, so that the text of a short condition could be of
// any length.
func TestAdmissionTextIsBounded(t *testing.T) {
	t.Parallel()
	compiler, err := partial.NewAdmissionCompiler()
	if err != nil {
		t.Fatal(err)
	}
	for level, of := range map[string]string{
		`string(quantity(%s).asInteger())`: `%s == "1"`, `(object.l + %s).map(x, x)`: "%s == []", `(dyn(%s) in (object.l + [1]))`: "[1].all(y, %s == true)",
	} {
		nested := func(depth int) string {
			text := "object.q"
			for range depth {
				text = fmt.Sprintf(level, text)
			}
			return fmt.Sprintf(of, text)
		}
		expression := compilers.Compiled(t, compiler, nested(2))
		whole, ok := expression.AdmissionText(math.MaxInt)
		if same, isShort := expression.AdmissionText(len(whole)); !ok || !isShort || same != whole {
			t.Errorf("%s: got %q, %v, want %q", level, same, isShort, whole)
		}
		if _, isShort := expression.AdmissionText(len(whole) - 1); isShort {
			t.Errorf("%s: a text of %d bytes is no longer than %d", level, len(whole), len(whole)-1)
		}
	}
	if t.Failed() {
		return // what follows would take all memory
	}
	deep := "object.q"
	for range 60 {
		deep = "string(quantity(" + deep + ").asInteger())"
	}
	if text, ok := compilers.Compiled(t, compiler, deep+` == "1"`).AdmissionText(1 << 16); ok || len(text) > 1<<17 {
		t.Errorf("got %d bytes, %v", len(text), ok)
	}
}
