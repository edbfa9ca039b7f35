/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// TestResidualsOfOperators evaluates each operator, function and macro with known and unknown operands. The residual must be the
// expected text, must not show what is known and not needed, and must come out like the whole expression for every object.
func TestResidualsOfOperators(t *testing.T) {
	t.Parallel()
	c, conditions := compilers.Policies(t), compilers.Conditions(t)
	objects := []any{
		nil, map[string]any{}, map[string]any{"a": int64(1), "b": int64(2), "s": "web", "l": []any{"devs", "x"}, "m": map[string]any{"k": "v", "blue": "w"}, "t": true, "f": false},
		map[string]any{"a": "web", "b": "1", "s": int64(1), "l": map[string]any{"devs": int64(1)}, "m": []any{"blue"}, "t": false, "f": true}, map[string]any{"a": nil, "s": "", "l": []any{}, "m": map[string]any{}, "t": "true", "f": int64(0)},
	}
	const missing = `request.userInfo.extra["nope"][0]`
	for _, tc := range []struct{ name, expression, want string }{
		{name: "&& of known and unknown", expression: `request.name == "web" && object.t == true`, want: `object.t == true`},
		{name: "&& of unknown and known", expression: `object.t == true && request.name == "web"`, want: `object.t == true`},
		{name: "&& of unknown and known false", expression: `object.t == true && request.name == "x"`, want: `false`},
		{name: "&& of unknown and unknown", expression: `object.t == true && object.f == false`, want: `object.t == true && object.f == false`},
		{name: "&& of an error and false", expression: missing + ` == "x" && request.name == "x"`, want: `false`},
		{name: "&& of an error and true", expression: missing + ` == "x" && request.name == "web"`, want: `error`},
		{name: "&& of errors and unknown", expression: missing + ` == "x" && object.t == true && ` + missing + ` == "y"`, want: `object.t == true && dyn({}["error"]) && dyn({}["error"])`},
		{name: "&& of unknown without a type", expression: `object.t && object.f`, want: `object.t && object.f`},
		{name: "&& of what is known and no bool", expression: `dyn(request.name) && object.t == true`, want: `object.t == true && dyn({}["error"])`},
		{name: "|| of known true and unknown", expression: `request.name == "web" || object.t`, want: `true`},
		{name: "|| of known false and unknown", expression: `request.name == "x" || object.t == true`, want: `object.t == true`},
		{name: "|| of known false and unknown without a type", expression: `request.name == "x" || object.t`, want: `false || object.t`},
		{name: "|| of an error and unknown", expression: missing + ` == "x" || object.t == true`, want: `object.t == true || dyn({}["error"])`},
		{name: "|| of an error and true", expression: missing + ` == "x" || request.name == "web"`, want: `true`},
		{name: "&& in ||", expression: `(request.name == "web" && object.t == true) || (request.name == "x" && object.f == true)`, want: `object.t == true`},
		{name: "|| in &&", expression: `(request.name == "x" || object.t == true) && (request.name == "web" || object.f == true)`, want: `object.t == true`},
		{name: "! of known", expression: `!(request.name == "x") && object.t == true`, want: `object.t == true`},
		{name: "! of unknown", expression: `!(object.t == true) && request.name == "web"`, want: `!(object.t == true)`},

		{name: "a choice by true", expression: `request.name == "web" ? object.t == true : object.f == true`, want: `object.t == true`},
		{name: "a choice by false", expression: `request.name == "x" ? object.t == true : object.f == true`, want: `object.f == true`},
		{name: "a choice by an error", expression: `(` + missing + ` == "x" ? object.a : object.b) == 1`, want: `error`},
		{name: "a choice by what is unknown", expression: `(object.t == true ? request.name : request.verb) == object.s`, want: `(object.t == true ? "web" : "create") == object.s`},
		{name: "a choice of which a branch is an error", expression: `(object.t == true ? ` + missing + ` : request.name) == object.s`, want: `(object.t == true ? dyn({}["error"]) : "web") == object.s`},
		{name: "a choice by what is known and no bool", expression: `(dyn(request.name) ? object.a : object.b) == 1`, want: `error`},
		{name: "a choice of different types", expression: `(request.name == "web" ? dyn(object.a) : dyn(1)) == 1`, want: `dyn(object.a) == 1`},

		{name: "== of unknown and known", expression: `object.s == request.name`, want: `object.s == "web"`},
		{name: "!= of known and unknown", expression: `request.name != object.s`, want: `"web" != object.s`},
		{name: "< of unknown and known", expression: `object.s < request.name`, want: `object.s < "web"`},
		{name: "<= of known numbers", expression: `request.name.size() <= object.a`, want: `3 <= object.a`},
		{name: "> of an error", expression: `object.s > ` + missing, want: `error`},
		{name: ">= of unknown and unknown", expression: `object.a >= object.b && request.name == "web"`, want: `object.a >= object.b`},
		{name: "+ of texts", expression: `object.s + request.name == "webweb"`, want: `object.s + "web" == "webweb"`},
		{name: "+ of known texts", expression: `request.name + "-" + request.verb == object.s`, want: `"web-create" == object.s`},
		{name: "- of numbers", expression: `object.a - request.name.size() == -2`, want: `object.a - 3 == -2`},
		{name: "- of known numbers, which is below zero", expression: `object.a - (1 - request.name.size()) == 3`, want: `object.a - -2 == 3`},
		{name: "* and / and %", expression: `object.a * request.name.size() / request.verb.size() % 2 == 0`, want: `object.a * 3 / 6 % 2 == 0`},
		{name: "a negated number", expression: `-request.name.size() < object.a`, want: `-3 < object.a`},
		{name: "division by a known zero", expression: `object.a / (request.name.size() - 3) == 1`, want: `object.a / 0 == 1`},
		{name: "in of unknown in known", expression: `object.s in [request.name, request.verb]`, want: `object.s in ["web", "create"]`},
		{name: "in of known in unknown", expression: `request.userInfo.groups[0] in object.l`, want: `"devs" in object.l`},
		{name: "in of unknown in numbers", expression: `object.a in [request.name.size(), 1]`, want: `object.a in dyn([3, 1])`},
		{name: "in of an error", expression: missing + ` in object.l`, want: `dyn({}["error"]) in object.l`},
		{name: "in of nothing", expression: `object.s in [] || request.name in []`, want: `object.s in []`},
		{name: "an index by known", expression: `object.m[request.userInfo.extra["team"][0]] == "w"`, want: `object.m["blue"] == "w"`},
		{name: "an index of known by unknown", expression: `request.userInfo.extra[object.s] == ["x"]`, want: `dyn(dyn({"none": dyn([]), "team": dyn(["blue"])})[object.s]) == ["x"]`},
		{name: "an optional index by known", expression: `object.m[?request.name].orValue("z") == "z"`, want: `object.m[?"web"].orValue("z") == "z"`},
		{name: "an optional field", expression: `object.?m.?k.orValue(request.name) == "web"`, want: `object.?m.?k.orValue("web") == "web"`},
		{name: "has of unknown", expression: `has(object.m.k) && request.name == "web"`, want: `has(object.m.k)`},
		{name: "has of known", expression: `has(request.name) && !has(request.subresource) && object.t == true`, want: `object.t == true`},
		{name: "a field of what is chosen", expression: `(request.name == "web" ? object.m : object.l).k == "v"`, want: `object.m.k == "v"`},
		{name: "a list of known and unknown", expression: `[dyn(request.name), object.s] == ["web", "web"]`, want: `[dyn("web"), dyn(object.s)] == ["web", "web"]`},
		{name: "a map of known and unknown", expression: `{request.name: object.s} == {"web": "web"}`, want: `{"web": object.s} == {"web": "web"}`},
		{name: "an error in a list", expression: `[dyn(` + missing + `), object.s] == ["x", "y"]`, want: `error`},

		{name: "a member function of unknown", expression: `object.s.startsWith(request.name)`, want: `object.s.startsWith("web")`},
		{name: "a member function of known", expression: `request.name.startsWith(object.s)`, want: `"web".startsWith(object.s)`},
		{name: "a pattern that is known", expression: `object.s.matches("^" + request.name)`, want: `object.s.matches(["^web"][0])`},
		{name: "a pattern that is unknown", expression: `request.name.matches(object.s)`, want: `["web"][0].matches(object.s)`},
		{name: "a conversion of unknown", expression: `string(object.a) == request.name`, want: `string(object.a) == "web"`},
		{name: "a size", expression: `size(object.l) == size(request.userInfo.groups)`, want: `size(object.l) == 2`},
		{name: "a function of sets", expression: `sets.contains(object.l, request.userInfo.groups)`, want: `sets.contains(object.l, ["devs", "system:authenticated"])`},
		{name: "a quantity of known", expression: `quantity(request.name.size() == 3 ? "1" : "2").compareTo(quantity(string(object.a))) == 0`, want: `quantity("1").compareTo(quantity(string(object.a))) == 0`},
		{name: "an optional of known", expression: `optional.of(request.name).orValue(object.s) == "web"`, want: `optional.of("web").orValue(object.s) == "web"`},

		{name: "all over known", expression: `request.userInfo.groups.all(g, g in object.l)`, want: `["devs", "system:authenticated"].all(g, g in object.l)`},
		{name: "all over known, of which one decides", expression: `request.userInfo.groups.all(g, g == "devs" && g in object.l)`, want: `false`},
		{name: "all over none", expression: `request.userInfo.extra["none"].all(g, g == object.s)`, want: `true`},
		{name: "exists over none", expression: `request.userInfo.extra["none"].exists(g, g == object.s)`, want: `false`},
		{name: "exists over known", expression: `request.userInfo.groups.exists(g, g == "devs" && object.s == g)`, want: `object.s == "devs"`},
		{name: "exists over an error", expression: `request.userInfo.extra["nope"].exists(g, g == object.s)`, want: `error`},
		{name: "exists with an error in an element", expression: `request.userInfo.groups.exists(g, g == "devs" ? object.s == g : ` + missing + ` == "x")`, want: `object.s == "devs" || dyn({}["error"])`},
		{name: "exists over unknown with known", expression: `object.l.exists(e, e == request.userInfo.groups[0])`, want: `object.l.exists(e, e == "devs")`},
		{name: "exists over unknown, of which the body is known", expression: `object.l.exists(e, request.name == "web")`, want: `object.l.exists(e, true)`},
		{name: "exists_one over known", expression: `request.userInfo.groups.exists_one(g, g == object.s)`, want: `["devs", "system:authenticated"].exists_one(g, g == object.s)`},
		{name: "filter over unknown", expression: `object.l.filter(e, e != request.name).size() == 2`, want: `object.l.filter(e, e != "web").size() == 2`},
		{name: "map over known", expression: `object.s in request.userInfo.groups.map(g, g + "-" + request.verb)`, want: `object.s in ["devs-create", "system:authenticated-create"]`},
		{name: "map over unknown", expression: `object.l.map(e, [e, dyn(request.name)]) == []`, want: `object.l.map(e, [dyn(e), dyn("web")]) == dyn([])`},
		{name: "transformMap over known", expression: `request.userInfo.extra.transformMap(k, v, v.size()) == object.m`, want: `{"none": 0, "team": 1} == object.m`},
		{name: "optMap of unknown", expression: `object.?s.optMap(s, s + request.verb).orValue("") == "webcreate"`, want: `object.?s.optMap(s, s + "create").orValue("") == "webcreate"`},
		{name: "a macro in a macro", expression: `object.l.all(e, request.userInfo.groups.exists(g, g == "devs" && g != e))`, want: `object.l.all(e, "devs" != e)`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			text := partially(t, c, tc.expression, alice())
			if text != tc.want {
				t.Errorf("got  %s\nwant %s", text, tc.want)
			}
			whole := compilers.Compiled(t, c, tc.expression)
			for _, object := range objects {
				values := alice()
				values[cel.Object] = object
				want, _, wantErr := whole.Program().Eval(t.Context(), values)
				got, gotErr := text == "true", error(nil)
				switch text {
				case "true", "false":
				case "error":
					gotErr = cel.ErrEvaluation
				default:
					residual := compilers.Compiled(t, conditions, text)
					got, _, gotErr = residual.Eval(t.Context(), cel.Values{cel.Object: object})
				}
				if got != want || (gotErr == nil) != (wantErr == nil) {
					t.Errorf("for %v: the residual is %t, %v, and the expression %t, %v", object, got, gotErr, want, wantErr)
				}
			}
		})
	}
}

// TestEvalWithinItsCost evaluates with exactly the limit that the evaluation costs, and with one unit less. What exceeds its limit must
// be an error that says so, and never a value or a residual.
func TestEvalWithinItsCost(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	for _, tc := range []struct{ name, expression string }{
		{name: "true", expression: `request.name == "web"`},
		{name: "false", expression: `request.name == "x" || request.verb == "x"`},
		{name: "an error", expression: `request.userInfo.extra["nope"][0] == "x"`},
		{name: "a residual", expression: `object.s == request.name && object.t`},
		{name: "a residual that nothing changes", expression: `object.a == 1 && object.b.c.d == [1, 2, 3]`},
		{name: "work", expression: `lists.range(1000).all(x, x >= 0) && object.t`},
		{name: "a long value", expression: `object.s == lists.range(500).map(x, "a").join()`},
		{name: "a value without a literal", expression: `quantity(request.name + "1").isLessThan(quantity(object.s))`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			plan := planFor(t, c, tc.expression)
			full := plan.Eval(t.Context(), alice())
			if full.Cost() == 0 || full.Stopped() {
				t.Fatalf("got the cost %d, stopped %t", full.Cost(), full.Stopped())
			}
			for _, limit := range []uint64{full.Cost(), full.Cost() + 1, cel.CostLimit, 1 << 63} {
				got := plan.EvalWithin(t.Context(), alice(), limit)
				if got.Stopped() || got.Cost() != full.Cost() || got.IsTrue() != full.IsTrue() || got.IsFalse() != full.IsFalse() || (got.Residual() == nil) != (full.Residual() == nil) || (got.Err() == nil) != (full.Err() == nil) {
					t.Errorf("within %d: got %+v, want %+v", limit, got, full)
				}
			}
			for _, limit := range []uint64{0, 1, full.Cost() / 2, full.Cost() - 1} {
				got := plan.EvalWithin(t.Context(), alice(), limit)
				if !got.Stopped() || !errors.Is(got.Err(), cel.ErrCost) || got.IsTrue() || got.IsFalse() || got.Residual() != nil || got.Cost() <= limit {
					t.Errorf("within %d: got %+v, want ErrCost", limit, got)
				}
			}
			ended, end := context.WithCancel(t.Context())
			end()
			if got := plan.Eval(ended, alice()); !got.Stopped() || !errors.Is(got.Err(), context.Canceled) || !errors.Is(got.Err(), cel.ErrEvaluation) || got.Residual() != nil {
				t.Errorf("in a context that has ended: got %+v, want its error", got)
			}
		})
	}
}

// TestEvalOfOddRequests evaluates with requests that are not what is declared, and without any. None of them may be true.
func TestEvalOfOddRequests(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	for name, values := range map[string]cel.Values{
		"no request": {}, "null": {cel.Request: nil}, "a text": {cel.Request: "create"}, "a list": {cel.Request: []any{}}, "no fields": {cel.Request: map[string]any{}}, "a number for a name": {cel.Request: cel.Known(map[string]any{"name": int64(1)})},
		"a channel": {cel.Request: make(chan int)}, "a null user": {cel.Request: cel.Known(map[string]any{"name": "x", "userInfo": nil})},
	} {
		for _, expression := range []string{`request.name == "web" && object.t`, `object.t && request.name == "web"`, `request.userInfo.username.startsWith("a") && object.t == true`, `request.userInfo.groups.exists(g, g == object.s)`} {
			got := planFor(t, c, expression).Eval(t.Context(), values)
			if got.IsTrue() {
				t.Errorf("%s: %s is true", name, expression)
			}
			if residual := got.Residual(); residual != nil {
				// What is not known to be false is an error whatever the object is.
				if text, err := residual.Text(); err == nil && !residual.NeverTrue() {
					t.Errorf("%s: %s leaves %s, which can be true", name, expression, text)
				}
			}
		}
	}
}

// TestResidualsAtTheBound leaves texts of the greatest length, and of one byte more.
func TestResidualsAtTheBound(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	plan := planFor(t, c, `object.s == request.name`)
	room := cel.MaxExpressionBytes - len(`object.s == ""`)
	for _, tc := range []struct {
		name  string
		text  string
		fails bool
	}{
		{name: "the longest", text: strings.Repeat("a", room)},
		{name: "a byte more", text: strings.Repeat("a", room+1), fails: true},
		{name: "the longest with escapes", text: strings.Repeat("\n", room/2)},
		{name: "an escape more", text: strings.Repeat("\n", room/2+1), fails: true},
		{name: "far more", text: strings.Repeat("a", 1<<20), fails: true},
	} {
		residual := plan.Eval(t.Context(), request("alice", "create")).Residual()
		if residual == nil {
			t.Fatal("got no residual")
		}
		residual = plan.Eval(t.Context(), cel.Values{cel.Request: cel.Known(map[string]any{"name": tc.text})}).Residual()
		if residual == nil {
			t.Fatalf("%s: got no residual", tc.name)
		}
		text, err := residual.Text()
		if (err != nil) != tc.fails || tc.fails && (text != "" || !errors.Is(err, cel.ErrCompile)) || !tc.fails && len(text) > cel.MaxExpressionBytes {
			t.Errorf("%s: got %d bytes, %v, want an error: %t", tc.name, len(text), err, tc.fails)
		}
		if again, errAgain := residual.Text(); again != text || !errors.Is(errAgain, err) {
			t.Errorf("%s: got %d bytes, %v the second time", tc.name, len(again), errAgain)
		}
		if cost := residual.TextCost(); (cost == 0) != tc.fails {
			t.Errorf("%s: making the text costs %d", tc.name, cost)
		}
	}
}
