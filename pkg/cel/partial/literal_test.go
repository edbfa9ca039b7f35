/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// TestLiteralsKeepTheirValue writes known values of every type down, and asks that the text of
// the residual gives what the process gives for objects that differ in the last digit, the sign
// or the order only.
func TestLiteralsKeepTheirValue(t *testing.T) {
	t.Parallel()
	c, conditions := policyCompiler(t), newCompiler(t)
	for _, tc := range []struct {
		name, expression string
		// value is what is known, as a string.
		value, want string
		// holds are objects for which the expression is true, and fails those for which it is not.
		holds, fails []any
	}{
		{"a duration of less than a second below zero", `duration(object.x) == duration(request.name)`, "-1ns", `duration(object.x) == duration("-0s1ns")`,
			[]any{"-1ns", "-0.000000001s"}, []any{"1ns", "0s", "-1s"}},
		{"a duration of less than a second", `duration(object.x) == duration(request.name)`, "999999999ns", `duration(object.x) == duration("0s999999999ns")`,
			[]any{"0.999999999s"}, []any{"-999999999ns", "1s", "999ms"}},
		{"a duration below zero", `duration(object.x) == duration(request.name)`, "-1.000000001s", `duration(object.x) == duration("-1s1ns")`,
			[]any{"-1000000001ns"}, []any{"-999999999ns", "1.000000001s", "-1s"}},
		{"a long duration", `duration(object.x) == duration(request.name)`, "123456789.123456789s", `duration(object.x) == duration("123456789s123456789ns")`,
			[]any{"123456789.123456789s"}, []any{"123456789.123456788s"}},
		{"the nanoseconds of a timestamp", `timestamp(object.x) == timestamp(request.name)`, "2024-01-02T03:04:05.000000006Z",
			`timestamp(object.x) == timestamp("2024-01-02T03:04:05.000000006Z")`, []any{"2024-01-02T03:04:05.000000006Z"}, []any{"2024-01-02T03:04:05Z", "2024-01-02T03:04:05.000000007Z"}},
		{"a timestamp with a zone", `timestamp(object.x) == timestamp(request.name)`, "2024-01-02T03:04:05.5+01:00",
			`timestamp(object.x) == timestamp("2024-01-02T02:04:05.5Z")`, []any{"2024-01-02T02:04:05.5Z"}, []any{"2024-01-02T03:04:05.5Z"}},
		{"zero below zero", `string(double(object.x) * double(request.name)) == "-0"`, "-0.0", `string(double(object.x) * -0.0) == "-0"`, []any{1.0}, []any{-1.0}},
		{"zero", `string(double(object.x) * double(request.name)) == "-0"`, "0.0", `string(double(object.x) * 0.0) == "-0"`, []any{-1.0}, []any{1.0}},
		{"a double of 17 digits", `object.x == double(request.name)`, "0.30000000000000004", `object.x == 0.30000000000000004`, []any{0.30000000000000004}, []any{0.3, 0.3000000000000001}},
		{"a double below an integer", `object.x == double(request.name)`, "9007199254740991", `object.x == 9.007199254740991e+15`,
			[]any{9007199254740991.0, int64(9007199254740991)}, []any{9007199254740990.0, 9007199254740992.0}},
		{"the least double", `object.x == double(request.name)`, "5e-324", `object.x == 5e-324`, []any{5e-324}, []any{0.0}},
		{"a double that is no number", `object.x == double(request.name) || object.x == 1.0`, "NaN", `object.x == double("NaN") || object.x == 1.0`, []any{1.0}, []any{0.0}},
		{"an infinite double", `object.x < double(request.name)`, "Infinity", `object.x < double("+Inf")`, []any{1e300}, nil},
		{"the least int", `object.x == int(request.name)`, "-9223372036854775808", `object.x == -9223372036854775808`, []any{int64(-9223372036854775808)}, []any{int64(-9223372036854775807)}},
		{"the greatest uint", `object.x == uint(request.name)`, "18446744073709551615", `object.x == 18446744073709551615u`, []any{uint64(18446744073709551615)}, []any{int64(-1)}},
		{"a bool", `object.x == (request.name == "a")`, "a", `object.x == true`, []any{true}, []any{false}},
		{"a string", `object.x == request.name + "\n\"\\\u2028é𝛼"`, "\t", "object.x == \"\\t\\n\\\"\\\\\\u2028é𝛼\"", []any{"\t\n\"\\\u2028é𝛼"}, []any{"\n", "\t\n\"\\ é𝛼"}},
		{"null", `object.x == dyn({"a": null}[request.name])`, "a", `object.x == dyn(null)`, []any{nil}, []any{false, 0.0}},
		{"a list", `object.x == [request.name, "b"]`, "a", `object.x == ["a", "b"]`, []any{[]any{"a", "b"}}, []any{[]any{"b", "a"}, []any{"a"}}},
		{"a map", `object.x == {request.name: "b", "c": "d"}`, "a", `object.x == {"a": "b", "c": "d"}`, []any{map[string]any{"a": "b", "c": "d"}}, []any{map[string]any{"a": "d", "c": "b"}}},
		{"an optional", `object.?x == optional.of(request.name)`, "a", `object.?x == optional.of("a")`, []any{"a"}, []any{"b"}},
		{"an optional that is none", `object.?x == {"a": 1}[?request.name]`, "b", `object.?x == dyn(optional.none())`, nil, []any{"a"}},
		{"a quantity", `quantity(object.x) == quantity(request.name)`, "1Gi", `quantity(object.x) == quantity("1Gi")`, []any{"1024Mi"}, []any{"1G"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			request := cel.Known(map[string]any{"name": tc.value})
			text := partially(t, c, tc.expression, cel.Values{cel.Request: request})
			if diff := cmp.Diff(tc.want, text); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			whole, err := c.Compile(tc.expression)
			if err != nil {
				t.Fatal(err)
			}
			residual, err := conditions.Compile(text)
			if err != nil {
				t.Fatal(err)
			}
			for _, group := range []struct {
				want    bool
				objects []any
			}{{true, tc.holds}, {false, tc.fails}} {
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
	c := policyCompiler(t)
	for _, tc := range []struct{ name, expression, want string }{
		{"index and element", `request.userInfo.groups.exists(i, g, i == 1 && object.x == g)`, `object.x == "system:authenticated"`},
		{"index and element of all", `request.userInfo.groups.all(i, g, i == 1 || object.x == g)`, `object.x == "devs"`},
		{"element", `request.userInfo.groups.exists(g, g == "devs" && object.x == g)`, `object.x == "devs"`},
		{"key and value", `request.userInfo.extra.exists(k, v, k == "team" && object.x == v[0])`, `object.x == "blue"`},
		{"key", `request.userInfo.extra.exists(k, k == "team" && object.x == k)`, `object.x == "team"`},
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
	c := policyCompiler(t)
	for _, tc := range []struct{ name, expression, want string }{
		{"a known range first", `request.userInfo.groups.exists(g, g == "devs" && object.x == g) || object.list.exists(g, g == "a")`,
			`object.x == "devs" || object.list.exists(g, g == "a")`},
		{"within another", `request.userInfo.groups.exists(g, g == "devs" && object.list.exists(h, h == g)) || object.list.exists(h, h == "a")`,
			`object.list.exists(h, h == "devs") || object.list.exists(h, h == "a")`},
		{"in the bodies of another", `object.list.exists(o, request.userInfo.groups.exists(g, g == "devs" && o == g) || o.list.exists(g, g.x))`,
			`object.list.exists(o, o == "devs" || o.list.exists(g, g.x))`},
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
	c := policyCompiler(t)
	const missing = `request.userInfo.extra["nope"][0] == "x"`
	for _, tc := range []struct {
		name, expression string
		want             bool
	}{
		{"an error beside what is unknown", missing + ` && object.a == 1`, true},
		{"an error or what is unknown", missing + ` || object.a == 1`, false},
		{"either never", `(` + missing + ` && object.a == 1) || (` + missing + ` && object.b == 1)`, true},
		{"one of two never, the first", `(` + missing + ` && object.a == 1) || object.b == 1`, false},
		{"one of two never, the last", `object.b == 1 || (` + missing + ` && object.a == 1)`, false},
		{"what is unknown", `object.a == 1 && request.verb == "create"`, false},
		{"what may be no bool", `object.a && request.verb == "create"`, false},
		{"the negation of what never is", `!(` + missing + ` && object.a == 1)`, false},
		{"what is too long", `object.a == request.name && request.verb == "create"`, false},
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
