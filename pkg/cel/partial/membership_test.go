/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// TestMembershipInAKnownList evaluates `in` over lists that are known at authorization in the
// process and by the text of the residual. cel-go makes a set of a constant list, and looks
// numbers of another type up in it, which is not the comparison that == makes.
func TestMembershipInAKnownList(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	conditions := compilers.Conditions(t)
	known := cel.Values{cel.Request: cel.Known(map[string]any{
		"verb": "create", "name": "9007199254740992", "userInfo": map[string]any{"username": "alice", "extra": map[string]any{"f": []any{"9007199254740992.0"}}},
	})}
	const double = `double(request.userInfo.extra["f"][0])`
	for _, tc := range []struct{ name, expression, want string }{
		{name: "a double", expression: `object.i in [` + double + `]`, want: `object.i in dyn([9.007199254740992e+15])`},
		{name: "an int", expression: `object.i in [int(request.name)]`, want: `object.i in dyn([9007199254740992])`},
		{name: "a uint", expression: `object.i in [uint(request.name)]`, want: `object.i in dyn([9007199254740992u])`},
		{name: "an infinite double", expression: `object.i in [double(request.verb == "create" ? "Infinity" : "0")]`, want: `object.i in dyn([double("+Inf")])`},
		{name: "several", expression: `object.i in [1.0, ` + double + `]`, want: `object.i in dyn([1.0, 9.007199254740992e+15])`},
		{name: "an element of a known range", expression: `[` + double + `].exists(d, object.i in [d] && has(object.i))`, want: `object.i in dyn([9.007199254740992e+15]) && has(object.i)`},
		{name: "the list of a branch", expression: `object.i in (request.verb == "create" ? [9007199254740992.0] : [0.0])`, want: `object.i in dyn([9.007199254740992e+15])`},
		{name: "a list that is decided by what is unknown", expression: `object.i in [(has(object.i) || true) ? 9007199254740992.0 : 0.0]`, want: `object.i in dyn([9.007199254740992e+15])`},
		{name: "a number of unknown type", expression: `object.i in [(has(object.i) || true) ? 9007199254740992.0 : object.i]`, want: `object.i in dyn([dyn(9.007199254740992e+15)])`},
		{name: "a sum of constants as it was written", expression: `object.i in [9007199254740991.0 + 1.0] && request.verb == "create"`, want: `object.i in [9.007199254740991e+15 + 1.0]`},
		{name: "a set of constants of unknown type", expression: `object.i in [dyn(9007199254740992.0)] && request.verb == "create"`, want: `object.i in [dyn(9.007199254740992e+15)]`},
		{name: "a list as it was written", expression: `object.i in [9007199254740992.0] && request.verb == "create"`, want: `object.i in [9.007199254740992e+15]`},
		{name: "strings", expression: `object.i in [request.name, "a"]`, want: `object.i in ["9007199254740992", "a"]`},
		{name: "bools", expression: `object.i in [request.verb == "create"]`, want: `object.i in [true]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			expression := compilers.Compiled(t, c, tc.expression)
			text := partially(t, c, tc.expression, known)
			if text != tc.want {
				t.Errorf("got %s, want %s", text, tc.want)
			}
			residual := compilers.Compiled(t, conditions, text)
			for _, i := range []any{int64(9007199254740993), int64(9007199254740992), 9007199254740992.0, uint64(9007199254740993), "9007199254740992", true, 1.0, nil} {
				object := map[string]any{"i": i}
				want, _, errWant := expression.Program().Eval(t.Context(), cel.Values{cel.Request: known[cel.Request], cel.Object: object})
				got, _, err := residual.Eval(t.Context(), cel.Values{cel.Object: object})
				if verdictOf(got, err) != verdictOf(want, errWant) {
					t.Errorf("for %T(%v): the text gives %s, the process %s", i, i, verdictOf(got, err), verdictOf(want, errWant))
				}
			}
		})
	}
}
