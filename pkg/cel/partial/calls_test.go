/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// TestChecksOfEveryEvaluation counts the checks that each evaluation of an expression makes. There must not be more than in any evaluation without an
// error, because an expression is refused if they cost more than the limit.
func TestChecksOfEveryEvaluation(t *testing.T) {
	t.Parallel()
	const check = 350_000
	const checking, checkingToo = `authorizer.path("/x").check("get").allowed()`, `authorizer.path("/y").check("get").allowed()`
	compiler := compilers.Policies(t)
	for _, tc := range []struct {
		name, expression string
		want             uint64
	}{
		{name: "a literal", expression: `true`, want: 0},
		{name: "a variable", expression: `object`, want: 0},
		{name: "a comparison", expression: `object.a == 1`, want: 0},
		{name: "a check", expression: checking, want: check},
		{name: "a check of a resource", expression: `authorizer.group("").resource("pods").check("get").allowed()`, want: check},
		{name: "a check of the request", expression: `authorizer.requestResource.check("get").reason() == ""`, want: check},
		{name: "a function that has only the name of the check", expression: `object.check == "x"`, want: 0},
		{name: "two checks that are compared", expression: checking + " == " + checkingToo, want: 2 * check},
		{name: "a negated check", expression: "!" + checking, want: check},
		{name: "either of two checks", expression: checking + " || " + checkingToo, want: check},
		{name: "both of two checks, of which the first may decide", expression: checking + " && " + checkingToo, want: check},
		{name: "a check or what costs nothing", expression: checking + " || object.a == 1", want: 0},
		{name: "what costs nothing and a check", expression: "object.a == 1 && " + checking, want: 0},
		{name: "a choice between a check and nothing", expression: "dryRun ? " + checking + " : true", want: 0},
		{name: "a choice between two checks", expression: "dryRun ? " + checking + " : " + checkingToo, want: check},
		{name: "a choice by a check", expression: checking + " ? object.a == 1 : object.b == 1", want: check},
		{name: "a check in a function", expression: `string(` + checking + `) == "true"`, want: check},

		{name: "a constant list", expression: `[1, 2, 3] == object.a`, want: 0},
		{name: "a check in a list", expression: `[` + checking + `, true] == object.a`, want: check},
		{name: "a check in a map", expression: `{"a": ` + checking + `} == object.a`, want: check},
		{name: "a check as a key", expression: `{` + checking + `: 1} == object.a`, want: check},
		{name: "a check in an optional element", expression: `[?optional.of(` + checking + `)] == object.a`, want: check},

		{name: "a check for each element", expression: `[1, 2, 3].map(x, ` + checking + `) == []`, want: 0},
		{name: "a check for each element that is checked", expression: `[1, 2, 3].filter(x, ` + checking + `) == []`, want: 0},
		{name: "a check for all, which may end at the first", expression: `[1, 2, 3].all(x, ` + checking + `)`, want: 0},
		{name: "a check for all of none", expression: `[].all(x, ` + checking + `)`, want: 0},
		{name: "a check for each element of an unknown list", expression: `object.a.map(x, ` + checking + `) == []`, want: 0},
		{name: "a check before a loop", expression: `[` + checking + `].all(x, x)`, want: check},
		{name: "a check for each of the elements of a map", expression: `{"a": 1}.map(x, ` + checking + `) == []`, want: 0},
		{name: "loops in loops", expression: `[1, 2, 3].map(x, [1, 2].map(y, ` + checking + `)) == []`, want: 0},

		{name: "a field of a check", expression: `{"a": ` + checking + `}.a`, want: check},
		{name: "an index by a check, of an optional that may be none", expression: `object.?a[?{true: "b"}[` + checking + `]].hasValue()`, want: 0},
		{name: "an index of a check", expression: `[` + checking + `][0]`, want: check},
		{name: "a default of an optional", expression: `object.?a.orValue(` + checking + `)`, want: 0},
		{name: "an optional that is made", expression: `optional.of(` + checking + `).orValue(true)`, want: check},
		{name: "another optional", expression: `object.?a.or(optional.of(` + checking + `)).hasValue()`, want: 0},
		{name: "a search in a constant that is empty", expression: checking + ` in []`, want: 0},
		{name: "a search in a constant", expression: checking + ` in [true]`, want: check},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := compilers.Compiled(t, compiler, "dyn("+tc.expression+") == true").MinCost(); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}
