/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/test/testutil/cases"
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
	check := `authorizer.group("").resource("x").check("get").allowed()`
	for _, tc := range []struct {
		name, expression string
		min, max         uint64
	}{
		{name: "cheap", expression: `object.a == request.name`, min: 0, max: 100},
		{name: "short-circuits are taken", expression: `object.a == 1 || ` + check, min: 0, max: 100},
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

// closing is an expression whose residual for each of so many elements has a part without variables, which
// is padded to some length.
func closing(elements int, padding string) string {
	return "[" + strings.Repeat("0,", elements-1) + `1].exists(g, dyn(g < 1000 ? request.name + string(g) : object.x) in ["a", 1 == 2 && (` + padding + `true) ? "b" : "c"])`
}

// TestClosingIsPaid evaluates residuals without variables, which are compiled.
func TestClosingIsPaid(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text  string
		least, most uint64
		stays       bool
	}{
		{name: "short", text: closing(100, ""), least: 100 * 1000, most: 1_000_000},
		{name: "too long to be closed", text: closing(100, strings.Repeat("1==2||", 200)), most: 1_000_000, stays: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			conditions := compilers.Conditions(t)
			policies, err := partial.NewPolicyCompiler(conditions)
			if err != nil {
				t.Fatal(err)
			}
			outcome := planFor(t, policies, tc.text).Eval(t.Context(), cel.Values{cel.Request: cel.Known(map[string]any{"name": "n"})})
			if outcome.Cost() < tc.least || outcome.Cost() > tc.most {
				t.Errorf("got the cost %d, want %d to %d", outcome.Cost(), tc.least, tc.most)
			}
			if stays := outcome.Residual() != nil; stays != tc.stays || outcome.Err() != nil {
				t.Errorf("got a residual: %t, %v, want %t", stays, outcome.Err(), tc.stays)
			}
		})
	}
}

// TestClosingDisplacesNoProgram evaluates more residuals without variables than a compiler keeps
// programs.
func TestClosingDisplacesNoProgram(t *testing.T) {
	t.Parallel()
	conditions := compilers.Conditions(t)
	policies, err := partial.NewPolicyCompiler(conditions)
	if err != nil {
		t.Fatal(err)
	}
	first := compilers.Compiled(t, conditions, "object == 1")
	plan := planFor(t, policies, closing(2, ""))
	for i := range 600 {
		if result := plan.Eval(t.Context(), cel.Values{cel.Request: cel.Known(map[string]any{"name": fmt.Sprint(i)})}); result.Err() != nil || result.Cost() < 2*1000 {
			t.Fatalf("got %v for %d, want two compilations", result.Err(), result.Cost())
		}
	}
	if again, err := conditions.Compile("object == 1"); err != nil || again != first {
		t.Errorf("got another program, %v, want the one that was compiled first", err)
	}
}

func TestRewritten(t *testing.T) {
	compiler, err := partial.NewPolicyCompiler(compilers.Conditions(t))
	if err != nil {
		t.Fatal(err)
	}
	rewrite := func(r partial.Reading) (string, int) {
		switch {
		case r.Variable == cel.Operation:
			return `"CREATE"`, 0
		case r.Variable == cel.Request && len(r.Fields) > 0 && r.Fields[0] == "name":
			return "request.name", 1
		case r.Variable == cel.Request && len(r.Fields) > 1 && r.Fields[1] == "extra":
			return "has(request.userInfo.extra) ? request.userInfo.extra : {}", 2
		case r.Variable == cel.Request && r.IsTest && len(r.Fields) == 2:
			return "true", 2
		case r.Variable == cel.DryRun:
			return "request.a || request.b", 0
		}
		return "", 0
	}
	for text, want := range map[string]string{
		`operation == "UPDATE"`:                                           `("CREATE") == "UPDATE"`,
		`request.name.startsWith("a")`:                                    `request.name.startsWith("a")`,
		`!dryRun`:                                                         `!(request.a || request.b)`,
		`request.userInfo.extra.a.size() == 1`:                            `(has(request.userInfo.extra) ? request.userInfo.extra : {}).a.size() == 1`,
		`has(request.userInfo.extra.a)`:                                   `has((has(request.userInfo.extra) ? request.userInfo.extra : {}).a)`,
		`request.?name.orValue("") == "a"`:                                `(optional.of(request.name)).orValue("") == "a"`,
		`request.userInfo.?extra.a.hasValue()`:                            `(optional.of(has(request.userInfo.extra) ? request.userInfo.extra : {})).a.hasValue()`,
		`request.userInfo.extra.?a.hasValue()`:                            `(has(request.userInfo.extra) ? request.userInfo.extra : {}).?a.hasValue()`,
		`object.metadata.?labels.?tier.orValue("") == "a"`:                `object.metadata.?labels.?tier.orValue("") == "a"`,
		`has(request.userInfo.uid)`:                                       `true`,
		`object.items.exists(operations, operations.name == operation)`:   `object.items.exists(operations, operations.name == ("CREATE"))`,
		`object.name == "operation" && object.operation == object.dryRun`: `object.name == "operation" && object.operation == object.dryRun`,
	} {
		expression := compilers.Compiled(t, compiler, text)
		if got := expression.Rewritten(rewrite); got != want {
			t.Errorf("%s: rewritten to %s, want %s", text, got, want)
		}
		if got := expression.Text(); got != text {
			t.Errorf("%s: the expression has become %s", text, got)
		}
	}
}

func TestMayQuote(t *testing.T) {
	compiler, err := partial.NewPolicyCompiler(compilers.Conditions(t))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`object.a == "a" && oldObject.b in ["b"] || !(oldObject.c < 3)`:                     "",
		`oldObject.labels["tier"] == "prod"`:                                                "",
		`oldObject.labels[oldObject.key] == "prod"`:                                         "[]",
		`oldObject.labels[request.name] == "prod"`:                                          "",
		`{"a": "b"}[oldObject.key] == "prod"`:                                               "[]",
		`int(oldObject.number) > 3`:                                                         "int",
		`int(request.name) > 3`:                                                             "",
		`oldObject.name.matches("a+")`:                                                      "",
		`request.name.matches(oldObject.pattern)`:                                           "matches",
		`oldObject.items.exists(x, int(x) > 3)`:                                             "int",
		`oldObject.items.exists(x, x.name == "a")`:                                          "",
		`oldObject.items.all(i, x, oldObject.others[i] == x)`:                               "[]",
		`[1, 2].exists(x, oldObject.items[x] == 3)`:                                         "",
		`{oldObject.a: 1, oldObject.b: 2}.size() == 2`:                                      "{}",
		`oldObject.items.transformMapEntry(k, v, {v: k}).size() == 1`:                       "transformMapEntry",
		`quantity(oldObject.memory).isGreaterThan(quantity("1Gi"))`:                         "isGreaterThan",
		`timestamp(oldObject.time) > timestamp("2026-01-01T00:00:00Z")`:                     "timestamp",
		`oldObject.?labels[?"tier"].orValue("") == "prod"`:                                  "",
		`authorizer.group("").resource("pods").name(oldObject.name).check("get").allowed()`: "",
	} {
		expression := compilers.Compiled(t, compiler, text)
		if got := expression.MayQuote(cel.OldObject); got != want {
			t.Errorf("%s: %q may quote, want %q", text, got, want)
		}
	}
}

// TestNoValueCostsLessThanMinCost compares the least cost with the costs of expressions at random, wherever they have a value.
func TestNoValueCostsLessThanMinCost(t *testing.T) {
	t.Parallel()
	const depth = 4
	expressions := cases.Of(2_000)
	c, checked, positive := compilers.Policies(t), 0, 0
	g := &generator{Rand: rand.New(rand.NewPCG(5681, 22))}
	for expressions.Next() {
		g.binders, g.serial, g.booleans, g.dynamics = nil, 0, nil, nil
		variables, text := g.policy(depth)
		text = strings.ReplaceAll(g.one("(TEXT) == CHECK", "(TEXT) && CHECK", "CHECK || (TEXT)", "(TEXT) ? CHECK : !CHECK", "CHECK ? (TEXT) : dryRun", "[CHECK].exists(x, x == (TEXT))"), "TEXT", text)
		text = strings.ReplaceAll(text, "CHECK", `authorizer.path("/x").check("get").allowed()`)
		expression, err := c.CompileWithVariables(variables, text)
		if err != nil {
			continue
		}
		least := expression.MinCost()
		if least > 0 {
			positive++
		}
		for _, values := range objects() {
			for _, request := range requests() {
				values[cel.Request] = cel.Known(request)
				_, cost, err := expression.Program().Eval(t.Context(), values)
				if err != nil {
					continue
				}
				checked++
				if cost < least {
					t.Fatalf("%s\nwith %v costs %d, less than %d", text, variables, cost, least)
				}
			}
		}
	}
	t.Logf("%d evaluations, %d expressions with a least cost over 0", checked, positive)
	if checked < expressions.Tried() || positive < expressions.Tried()/50 {
		t.Errorf("%d evaluations and %d expressions with a least cost over 0 are too few to tell", checked, positive)
	}
}
