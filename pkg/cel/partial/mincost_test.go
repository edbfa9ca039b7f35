/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/test/testutil/cases"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// TestMinCostIsALowerBound asks, function by function, that an evaluation costs no less than the
// least cost, and that this least cost is not nothing where it is known.
func TestMinCostIsALowerBound(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	ones := "[" + strings.Repeat("1, ", 99) + "1]"
	made := "[" + strings.Repeat("request.verb, ", 99) + "request.verb]"
	object := map[string]any{"n": int64(2), "list": []any{"a", "b", "c"}, "t": true}
	for _, tc := range []struct {
		name, expression string
		least            uint64 // what MinCost is at least
	}{
		{name: "slice up to the size", expression: `object.list.slice(0, size(object.list)).size() == 3`},
		{name: "slice up to the size of a list of the request", expression: `request.userInfo.groups.slice(0, size(request.userInfo.groups)).size() >= 0`},
		{name: "slice from a bound that is not known", expression: ones + `.slice(object.n, 3).size() == 1`},
		{name: "slice", expression: ones + `.slice(10, 60).size() == 50`, least: 50},
		{name: "range up to a length that is not known", expression: `lists.range(object.n).size() == 2`},
		{name: "range", expression: `lists.range(50).size() == 50`, least: 50},
		{name: "reverse", expression: made + `.reverse()[0] != ""`, least: 100},
		{name: "flatten", expression: `[[request.verb], ["a"]].flatten().size() == 2`},
		{name: "flatten to a depth that is not known", expression: `[[1], [2]].flatten(object.n).size() == 2`},
		{name: "distinct", expression: made + `.distinct().size() == 1`, least: 20_000},
		{name: "sort", expression: made + `.sort().size() == 100`, least: 20_000},
		{name: "map", expression: ones + `.map(x, x + 1).size() == 100`, least: 1_000},
		{name: "map of a map", expression: ones + `.map(x, x + 1).map(x, x + 1).size() == 100`, least: 2_000},
		{name: "filter", expression: ones + `.filter(x, x > 1).size() == 0`},
		{name: "map of a filter", expression: ones + `.filter(x, x > 1).map(x, [request.verb]).size() == 0`},
		{name: "exists that ends with the first element", expression: ones + `.exists(x, [request.verb].size() == x)`, least: 10},
		{name: "all that ends with the first element", expression: `!` + ones + `.all(x, [request.verb].size() != x)`, least: 10},
		{name: "exists with an error", expression: `[0, 1].exists(x, 1 / x == 1)`},
		{name: "exactly one", expression: ones + `.exists_one(x, [request.verb].size() == x) || true`},
		{name: "literals in loops", expression: ones + `.all(a, ` + ones + `.all(b, a == b))`},
		{name: "literals of maps in loops", expression: ones + `.map(a, {"a": 1, "b": 2}.size()).size() == 100`, least: 1_000},
		{name: "keys that are the same", expression: `{request.verb: 1}.map(k, k).size() == 1`},
		{name: "an operand that errs", expression: `(object.missing == lists.range(1000).size()) || object.t`},
		{name: "an operand that decides", expression: `object.t || lists.range(1000).size() == 1`},
		{name: "a branch", expression: `object.t ? true : lists.range(1000).size() == 1`},
		{name: "both branches", expression: `object.t ? lists.range(1000).size() == 1000 : lists.range(2000).size() == 1`, least: 1000},
		{name: "an optional that is there", expression: `object.?t.orValue(lists.range(1000).size() == 1) == true`},
		{name: "an optional that is none", expression: `!object.?missing[lists.range(1000).size()].hasValue()`},
		{name: "in nothing", expression: `!(lists.range(1000).size() in [])`},
		{name: "present", expression: `has(object.t) && !has(object.missing)`},
		{name: "secondary checks", expression: `authorizer.group("").resource("x").check("get").allowed() == authorizer.group("").resource("x").check("get").allowed()`, least: 700_000},
		{name: "a huge range", expression: `object.t || lists.range(9223372036854775807).size() == 1`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			expression := compilers.Compiled(t, c, tc.expression)
			values := objects()[0]
			values[cel.Object], values[cel.Request] = object, cel.Known(requests()[1])
			value, cost, err := expression.Program().Eval(t.Context(), values)
			if err != nil || !value && tc.name != "secondary checks" {
				t.Fatalf("got %t, %v", value, err)
			}
			if least := expression.MinCost(); least > cost || least < tc.least {
				t.Errorf("got a least cost of %d, want at least %d and at most %d, the cost of an evaluation", least, tc.least, cost)
			}
		})
	}
}

// TestNoValueCostsLessThanMinCost asks the same of expressions at random, wherever they have a value.
func TestNoValueCostsLessThanMinCost(t *testing.T) {
	t.Parallel()
	const depth = 4
	expressions := cases.Of(2_000)
	c, checked, positive := compilers.Policies(t), 0, 0
	g := &generator{Rand: rand.New(rand.NewPCG(5681, 22))}
	for expressions.Next() {
		g.binders, g.serial, g.booleans, g.dynamics = nil, 0, nil, nil
		variables, text := g.policy(depth)
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
