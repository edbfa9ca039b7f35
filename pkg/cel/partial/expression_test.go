/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// TestText: the text of an expression is read back as the same expression.
func TestText(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	for _, tc := range []struct{ expression, want string }{
		{expression: `object.a==1`, want: `object.a == 1`},
		{expression: `object.a && object.b && object.c && object.d && object.e`, want: ``},
		{expression: `(object.a && object.b) && (object.c && object.d)`, want: ``},
		{expression: `object.a && (object.b && (object.c && object.d))`, want: ``},
		{expression: `((object.a && object.b) && object.c) && object.d`, want: ``},
		{expression: `object.a || object.b && object.c || (object.d || object.e)`, want: ``},
		{expression: `!(!object.a) && -(-object.b) == -(1) && -1 == object.c && [-1][0] == -9223372036854775808 && (-1 + 2) * -3 == object.d`, want: ``},
		{expression: `(object.a ? object.b : object.c) ? (object.d ? object.e : object.f) == 1 : object.g ? !object.h : object.i == 2`, want: ``},
		{expression: `(object.a == object.b) == (object.c == (object.d in object.e))`, want: ``},
		{expression: `object.a - (object.b - object.c) * object.d / (object.e % 2) == 0`, want: ``},
		{expression: `object.a - -1 == object.b && object.a == 1e300 && object.b < 0.1 && 5u == object.c`, want: ``},
		{expression: "object.`a-b`.x.?y[?0].`in` == {\"a\": dyn([1, ?optional.of(2)]), ?\"b\": object.?y}[\"a\"]", want: ``},
		{expression: `object.l.all(x, object.m.exists(y, x == y)) && has(object.a.b) && object.m.transformMap(k, v, k != "", v) == {}`, want: ``},
		{expression: `object.?a.optMap(v, v + 1).orValue(0) == 1 && "a\n\"\\\u2028".matches(r'\d+')`, want: ``},
		{expression: `type(object.t) == google.protobuf.Timestamp && timestamp("2024-01-02T03:04:05Z") < timestamp(object.t)`, want: ``},
		{expression: `authorizer.requestResource.check("get").allowed() && request.userInfo.groups.exists_one(g, g == "a")`, want: ``},
	} {
		expression, err := c.Compile(tc.expression)
		if err != nil {
			t.Errorf("%s: %v", tc.expression, err)
			continue
		}
		if got := expression.Text(); tc.want != "" && got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
		again, err := c.Compile(expression.Text())
		if err != nil {
			t.Errorf("%s is written as %s, which does not compile: %v", tc.expression, expression.Text(), err)
			continue
		}
		if !partial.SameTree(expression, again) {
			t.Errorf("%s is written as %s, which is another expression", tc.expression, expression.Text())
		}
	}
}

func TestTextWithVariables(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	expression, err := c.CompileWithVariables([]cel.NamedExpression{
		{Name: "subject", Expression: `operation == "DELETE" ? oldObject : object`}, {Name: "mine", Expression: `variables.subject.owner == request.userInfo.username && variables.subject.a`},
	}, `variables.mine && object.b || object.c`)
	if err != nil {
		t.Fatal(err)
	}
	const want = `(operation == "DELETE" ? oldObject : object).owner == request.userInfo.username && (operation == "DELETE" ? oldObject : object).a && object.b || object.c`
	if got := expression.Text(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	again, err := c.Compile(expression.Text())
	if err != nil || !partial.SameTree(expression, again) {
		t.Errorf("%s: is not read back: %v", expression.Text(), err)
	}
}

func TestExpressionReads(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	for _, tc := range []struct {
		expression string
		reads, not cel.Variable
	}{
		{expression: `request.name == "a"`, reads: cel.Request, not: cel.Object},
		{expression: `object.a.exists(x, x == request.name)`, reads: cel.Object, not: cel.OldObject},
		{expression: `object.a.exists(x, x == oldObject)`, reads: cel.OldObject, not: cel.Request},
		{expression: `authorizer.requestResource.check("get").allowed()`, reads: cel.RequestResource, not: cel.Authorizer},
		{expression: `["request"].exists(x, x == object.request)`, reads: cel.Object, not: cel.Request},
	} {
		expression := compilers.Compiled(t, c, tc.expression)
		if !expression.Reads(tc.reads) || expression.Reads(tc.not) {
			t.Errorf("%s: reads %s %v, reads %s %v", tc.expression, tc.reads, expression.Reads(tc.reads), tc.not, expression.Reads(tc.not))
		}
	}
}

func TestMinCost(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	digits := "[1,2,3,4,5,6,7,8,9,10]"
	nested := "object.x == 1"
	for _, variable := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		nested = digits + ".map(" + variable + ", " + nested + ").size() == 1"
	}
	check := `authorizer.group("").resource("x").check("get").allowed()`
	for _, tc := range []struct {
		name, expression string
		min, max         uint64
	}{
		{name: "cheap", expression: `object.a == request.name`, min: 0, max: 100},
		{name: "short-circuits are taken", expression: `object.a == 1 || ` + nested, min: 0, max: 100},
		{name: "loops in loops", expression: nested, min: cel.CostLimit + 1, max: 1 << 62},
		{name: "secondary checks", expression: check + " == " + check + " && object.x == (" + check + ")", min: 350_000, max: cel.CostLimit},
		{name: "more secondary checks than one evaluation can make", expression: "[" + check + ", " + check + ", " + check + "] == object", min: cel.CostLimit + 1, max: 1 << 62},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			expression := compilers.Compiled(t, c, tc.expression)
			if got := expression.MinCost(); got < tc.min || got > tc.max {
				t.Errorf("got %d, want between %d and %d", got, tc.min, tc.max)
			}
		})
	}
}
