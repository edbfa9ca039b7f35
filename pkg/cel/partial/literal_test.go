/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// TestLiteralsKeepTheirValue writes known values of every type down, and asks that the text of
// the residual gives what the process gives for objects that differ in the last digit, the sign
// or the order only.
func TestLiteralsKeepTheirValue(t *testing.T) {
	t.Parallel()
	c, conditions := compilers.Policies(t), compilers.Conditions(t)
	for _, tc := range []struct {
		name, expression string
		// value is what is known, as a string.
		value, want string
		// holds are objects for which the expression is true, and fails those for which it is not.
		holds, fails []any
	}{
		{name: "a duration of less than a second below zero", expression: `duration(object.x) == duration(request.name)`, value: "-1ns", want: `duration(object.x) == duration("-0s1ns")`,
			holds: []any{"-1ns", "-0.000000001s"}, fails: []any{"1ns", "0s", "-1s"}},
		{name: "a duration of less than a second", expression: `duration(object.x) == duration(request.name)`, value: "999999999ns", want: `duration(object.x) == duration("0s999999999ns")`,
			holds: []any{"0.999999999s"}, fails: []any{"-999999999ns", "1s", "999ms"}},
		{name: "a duration below zero", expression: `duration(object.x) == duration(request.name)`, value: "-1.000000001s", want: `duration(object.x) == duration("-1s1ns")`,
			holds: []any{"-1000000001ns"}, fails: []any{"-999999999ns", "1.000000001s", "-1s"}},
		{name: "a long duration", expression: `duration(object.x) == duration(request.name)`, value: "123456789.123456789s", want: `duration(object.x) == duration("123456789s123456789ns")`,
			holds: []any{"123456789.123456789s"}, fails: []any{"123456789.123456788s"}},
		{name: "the nanoseconds of a timestamp", expression: `timestamp(object.x) == timestamp(request.name)`, value: "2024-01-02T03:04:05.000000006Z",
			want: `timestamp(object.x) == timestamp("2024-01-02T03:04:05.000000006Z")`, holds: []any{"2024-01-02T03:04:05.000000006Z"}, fails: []any{"2024-01-02T03:04:05Z", "2024-01-02T03:04:05.000000007Z"}},
		{name: "a timestamp with a zone", expression: `timestamp(object.x) == timestamp(request.name)`, value: "2024-01-02T03:04:05.5+01:00",
			want: `timestamp(object.x) == timestamp("2024-01-02T02:04:05.5Z")`, holds: []any{"2024-01-02T02:04:05.5Z"}, fails: []any{"2024-01-02T03:04:05.5Z"}},
		{name: "zero below zero", expression: `string(double(object.x) * double(request.name)) == "-0"`, value: "-0.0", want: `string(double(object.x) * -0.0) == "-0"`, holds: []any{1.0}, fails: []any{-1.0}},
		{name: "zero", expression: `string(double(object.x) * double(request.name)) == "-0"`, value: "0.0", want: `string(double(object.x) * 0.0) == "-0"`, holds: []any{-1.0}, fails: []any{1.0}},
		{name: "a double of 17 digits", expression: `object.x == double(request.name)`, value: "0.30000000000000004", want: `object.x == 0.30000000000000004`, holds: []any{0.30000000000000004}, fails: []any{0.3, 0.3000000000000001}},
		{name: "a double below an integer", expression: `object.x == double(request.name)`, value: "9007199254740991", want: `object.x == 9.007199254740991e+15`,
			holds: []any{9007199254740991.0, int64(9007199254740991)}, fails: []any{9007199254740990.0, 9007199254740992.0}},
		{name: "the least double", expression: `object.x == double(request.name)`, value: "5e-324", want: `object.x == 5e-324`, holds: []any{5e-324}, fails: []any{0.0}},
		{name: "a double that is no number", expression: `object.x == double(request.name) || object.x == 1.0`, value: "NaN", want: `object.x == double("NaN") || object.x == 1.0`, holds: []any{1.0}, fails: []any{0.0}},
		{name: "an infinite double", expression: `object.x < double(request.name)`, value: "Infinity", want: `object.x < double("+Inf")`, holds: []any{1e300}, fails: nil},
		{name: "the least int", expression: `object.x == int(request.name)`, value: "-9223372036854775808", want: `object.x == -9223372036854775808`, holds: []any{int64(-9223372036854775808)}, fails: []any{int64(-9223372036854775807)}},
		{name: "the greatest uint", expression: `object.x == uint(request.name)`, value: "18446744073709551615", want: `object.x == 18446744073709551615u`, holds: []any{uint64(18446744073709551615)}, fails: []any{int64(-1)}},
		{name: "a bool", expression: `object.x == (request.name == "a")`, value: "a", want: `object.x == true`, holds: []any{true}, fails: []any{false}},
		{name: "a string", expression: `object.x == request.name + "\n\"\\\u2028é𝛼"`, value: "\t", want: "object.x == \"\\t\\n\\\"\\\\\\u2028é𝛼\"", holds: []any{"\t\n\"\\\u2028é𝛼"}, fails: []any{"\n", "\t\n\"\\ é𝛼"}},
		{name: "null", expression: `object.x == dyn({"a": null}[request.name])`, value: "a", want: `object.x == dyn(null)`, holds: []any{nil}, fails: []any{false, 0.0}},
		{name: "a list", expression: `object.x == [request.name, "b"]`, value: "a", want: `object.x == ["a", "b"]`, holds: []any{[]any{"a", "b"}}, fails: []any{[]any{"b", "a"}, []any{"a"}}},
		{name: "a map", expression: `object.x == {request.name: "b", "c": "d"}`, value: "a", want: `object.x == {"a": "b", "c": "d"}`, holds: []any{map[string]any{"a": "b", "c": "d"}}, fails: []any{map[string]any{"a": "d", "c": "b"}}},
		{name: "an optional", expression: `object.?x == optional.of(request.name)`, value: "a", want: `object.?x == optional.of("a")`, holds: []any{"a"}, fails: []any{"b"}},
		{name: "an optional that is none", expression: `object.?x == {"a": 1}[?request.name]`, value: "b", want: `object.?x == dyn(optional.none())`, holds: nil, fails: []any{"a"}},
		{name: "a quantity", expression: `quantity(object.x) == quantity(request.name)`, value: "1Gi", want: `quantity(object.x) == quantity("1Gi")`, holds: []any{"1024Mi"}, fails: []any{"1G"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			request := cel.Known(map[string]any{"name": tc.value})
			text := partially(t, c, tc.expression, cel.Values{cel.Request: request})
			if diff := cmp.Diff(tc.want, text); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			whole := compilers.Compiled(t, c, tc.expression)
			residual := compilers.Compiled(t, conditions, text)
			for _, group := range []struct {
				want    bool
				objects []any
			}{{want: true, objects: tc.holds}, {want: false, objects: tc.fails}} {
				for _, x := range group.objects {
					object := map[string]any{"x": x}
					inProcess, _, err := whole.Program().Eval(t.Context(), cel.Values{cel.Request: request, cel.Object: object})
					if err != nil || inProcess != group.want {
						t.Errorf("in the process it is %v, %v for %v, want %v", inProcess, err, x, group.want)
					}
					if got, _, err := residual.Eval(t.Context(), cel.Values{cel.Object: object}); err != nil || got != group.want {
						t.Errorf("by its text it is %v, %v for %v, want %v", got, err, x, group.want)
					}
				}
			}
		})
	}
}

// TestUnrollingBindsWhatTheMacroBinds tells the first variable of a quantifier from the second.
func TestUnrollingBindsWhatTheMacroBinds(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	for _, tc := range []struct{ name, expression, want string }{
		{name: "index and element", expression: `request.userInfo.groups.exists(i, g, i == 1 && object.x == g)`, want: `object.x == "system:authenticated"`},
		{name: "index and element of all", expression: `request.userInfo.groups.all(i, g, i == 1 || object.x == g)`, want: `object.x == "devs"`},
		{name: "element", expression: `request.userInfo.groups.exists(g, g == "devs" && object.x == g)`, want: `object.x == "devs"`},
		{name: "key and value", expression: `request.userInfo.extra.exists(k, v, k == "team" && object.x == v[0])`, want: `object.x == "blue"`},
		{name: "key", expression: `request.userInfo.extra.exists(k, k == "team" && object.x == k)`, want: `object.x == "team"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := partially(t, c, tc.expression, alice()); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestBindersEndWithTheirMacro gives several macros variables of the same name: what one knows,
// the next does not.
func TestBindersEndWithTheirMacro(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	for _, tc := range []struct{ name, expression, want string }{
		{name: "a known range first", expression: `request.userInfo.groups.exists(g, g == "devs" && object.x == g) || object.list.exists(g, g == "a")`,
			want: `object.x == "devs" || object.list.exists(g, g == "a")`},
		{name: "within another", expression: `request.userInfo.groups.exists(g, g == "devs" && object.list.exists(h, h == g)) || object.list.exists(h, h == "a")`,
			want: `object.list.exists(h, h == "devs") || object.list.exists(h, h == "a")`},
		{name: "in the bodies of another", expression: `object.list.exists(o, request.userInfo.groups.exists(g, g == "devs" && o == g) || o.list.exists(g, g.x))`,
			want: `object.list.exists(o, o == "devs" || o.list.exists(g, g.x))`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := partially(t, c, tc.expression, alice()); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestNeverTrue(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	const missing = `request.userInfo.extra["nope"][0] == "x"`
	for _, tc := range []struct {
		name, expression string
		want             bool
	}{
		{name: "an error beside what is unknown", expression: missing + ` && object.a == 1`, want: true},
		{name: "an error or what is unknown", expression: missing + ` || object.a == 1`, want: false},
		{name: "either never", expression: `(` + missing + ` && object.a == 1) || (` + missing + ` && object.b == 1)`, want: true},
		{name: "one of two never, the first", expression: `(` + missing + ` && object.a == 1) || object.b == 1`, want: false},
		{name: "one of two never, the last", expression: `object.b == 1 || (` + missing + ` && object.a == 1)`, want: false},
		{name: "what is unknown", expression: `object.a == 1 && request.verb == "create"`, want: false},
		{name: "what may be no bool", expression: `object.a && request.verb == "create"`, want: false},
		{name: "the negation of what never is", expression: `!(` + missing + ` && object.a == 1)`, want: false},
		{name: "what is too long", expression: `object.a == request.name && request.verb == "create"`, want: false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			values := alice()
			if tc.name == "what is too long" {
				values = cel.Values{cel.Request: cel.Known(map[string]any{"verb": "create", "name": string(make([]byte, cel.MaxExpressionBytes))})}
			}
			residual := planFor(t, c, tc.expression).Eval(t.Context(), values).Residual()
			if residual == nil {
				t.Fatal("got no residual")
			}
			if got := residual.NeverTrue(); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
