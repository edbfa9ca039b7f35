/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package syntax

import (
	"math"
	"strings"
	"testing"
	"time"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// evaluated returns the value of a text without variables by cel-go alone.
func evaluated(t *testing.T, env *celgo.Env, text string) (ref.Val, *types.Type, error) {
	t.Helper()
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		t.Fatalf("%s: %v", text, issues.Err())
	}
	program, err := env.Program(checked)
	if err != nil {
		return nil, nil, err // the planner evaluates constants
	}
	value, _, err := program.Eval(map[string]any{})
	return value, checked.OutputType(), err
}

func policyEnv(t *testing.T) *celgo.Env {
	t.Helper()
	environment, err := cel.NewPolicyEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	return environment.Engine().Env
}

// Value converts data to a value of CEL.
func value(data any) ref.Val { return types.DefaultTypeAdapter.NativeToValue(data) }

// TestLiteralsOfValues writes values of every type, and reads them back with cel-go alone: a value that came back as another one
// would make another condition of a request's data. The estimate of the length must not be above the length.
func TestLiteralsOfValues(t *testing.T) {
	t.Parallel()
	env := policyEnv(t)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for _, tc := range []struct {
		name     string
		value    ref.Val
		want     string // if it is short
		wantType string
	}{
		{name: "true", value: types.True, want: `true`, wantType: "bool"},
		{name: "zero", value: types.Int(0), want: `0`, wantType: "int"},
		{name: "the least int", value: types.Int(math.MinInt64), want: `-9223372036854775808`, wantType: "int"},
		{name: "the greatest int", value: types.Int(math.MaxInt64), want: `9223372036854775807`, wantType: "int"},
		{name: "the greatest uint", value: types.Uint(math.MaxUint64), want: `18446744073709551615u`, wantType: "uint"},
		{name: "a double that is whole", value: types.Double(3), want: `3.0`, wantType: "double"},
		{name: "zero below zero", value: types.Double(math.Copysign(0, -1)), want: `-0.0`, wantType: "double"},
		{name: "a double without a point", value: types.Double(1e21), want: `1e+21`, wantType: "double"},
		{name: "the least double above zero", value: types.Double(math.SmallestNonzeroFloat64), want: `5e-324`, wantType: "double"},
		{name: "the greatest double", value: types.Double(math.MaxFloat64), want: `1.7976931348623157e+308`, wantType: "double"},
		{name: "below all doubles", value: types.Double(math.Inf(-1)), want: `double("-Inf")`, wantType: "double"},
		{name: "no number", value: types.Double(math.NaN()), want: `double("NaN")`, wantType: "double"},
		{name: "the empty text", value: types.String(""), want: `""`, wantType: "string"},
		{name: "a text with quotes", value: types.String("\"'`\\"), want: "\"\\\"'`\\\\\"", wantType: "string"},
		{name: "white space", value: types.String("\t\r\n \v\f"), want: `"\t\r\n \u000b\u000c"`, wantType: "string"},
		{name: "letters that cannot be seen", value: types.String("\x00\x7f\u0085\u200b\u202e\ufeff\U000e0001"), want: `"\u0000\u007f\u0085\u200b\u202e\ufeff\U000e0001"`, wantType: "string"},
		{name: "letters of every length", value: types.String("aü€😀"), want: `"aü€😀"`, wantType: "string"},
		{name: "the letter that stands for what is no letter", value: types.String("\ufffd"), want: "\"\ufffd\"", wantType: "string"},
		{name: "what looks like an escape", value: types.String(`\u0041\n`), want: `"\\u0041\\n"`, wantType: "string"},
		{name: "every byte", value: types.Bytes(all), wantType: "bytes"},
		{name: "null", value: types.NullValue, want: `null`, wantType: "null_type"},
		{name: "no time", value: types.Duration{}, want: `duration("0s0ns")`, wantType: "google.protobuf.Duration"},
		{name: "less than a second below zero", value: types.Duration{Duration: -1}, want: `duration("-0s1ns")`, wantType: "google.protobuf.Duration"},
		{name: "the greatest duration", value: types.Duration{Duration: math.MaxInt64}, want: `duration("9223372036s854775807ns")`, wantType: "google.protobuf.Duration"},
		{name: "the least duration but one", value: types.Duration{Duration: math.MinInt64 + 1}, want: `duration("-9223372036s854775807ns")`, wantType: "google.protobuf.Duration"},
		{name: "a time before 1970", value: types.Timestamp{Time: time.Unix(-1, 999_999_999)}, want: `timestamp("1969-12-31T23:59:59.999999999Z")`, wantType: "google.protobuf.Timestamp"},
		{name: "the first time", value: types.Timestamp{Time: time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)}, want: `timestamp("0001-01-01T00:00:00Z")`, wantType: "google.protobuf.Timestamp"},
		{name: "the last time", value: types.Timestamp{Time: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}, want: `timestamp("9999-12-31T23:59:59Z")`, wantType: "google.protobuf.Timestamp"},
		{name: "none", value: types.OptionalNone, want: `optional.none()`, wantType: "optional_type(dyn)"},
		{name: "an optional", value: types.OptionalOf(types.String("a")), want: `optional.of("a")`, wantType: "optional_type(string)"},
		{name: "an optional of none", value: types.OptionalOf(types.OptionalNone), want: `optional.of(dyn(optional.none()))`, wantType: "optional_type(dyn)"},
		{name: "an empty list", value: value([]any{}), want: `[]`, wantType: "list(dyn)"},
		{name: "a list", value: value([]any{"a", "b"}), want: `["a", "b"]`, wantType: "list(string)"},
		{name: "a list of several types", value: value([]any{"a", int64(1), nil}), want: `[dyn("a"), dyn(1), dyn(null)]`, wantType: "list(dyn)"},
		{name: "a list of lists", value: value([]any{[]any{int64(1)}, []any{int64(2)}}), want: `[[1], [2]]`, wantType: "list(list(int))"},
		{name: "a list of an empty list", value: value([]any{[]any{}, []any{"a"}}), want: `[dyn([]), dyn(["a"])]`, wantType: "list(dyn)"},
		{name: "an empty map", value: value(map[string]any{}), want: `{}`, wantType: "map(dyn, dyn)"},
		{name: "a map, in the order of its keys", value: value(map[string]any{"b": int64(1), "a": int64(2)}), want: `{"a": 2, "b": 1}`, wantType: "map(string, int)"},
		{name: "a map with keys of several types", value: types.NewRefValMap(types.DefaultTypeAdapter, map[ref.Val]ref.Val{types.Int(10): types.True, types.Int(9): types.True, types.String("a"): types.True}),
			want: `{dyn("a"): true, dyn(10): true, dyn(9): true}`, wantType: "map(dyn, bool)"},
		{name: "a map of maps", value: value(map[string]any{"a": map[string]any{"b": []any{nil}}}), want: `{"a": {"b": [null]}}`, wantType: "map(string, map(string, list(null_type)))"},
		{name: "what is nested deep", value: value(nestedLists(16)), want: strings.Repeat("[", 15) + "dyn([])" + strings.Repeat("]", 15), wantType: ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			n := bareLiteral(tc.value)
			if n == nil {
				t.Fatal("there is no literal")
			}
			text := n.Text()
			if tc.want != "" && text != tc.want {
				t.Errorf("got %s, want %s", text, tc.want)
			}
			if tc.wantType != "" && n.Type.String() != tc.wantType {
				t.Errorf("got the type %s, want %s", n.Type, tc.wantType)
			}
			if tc.value.Type() == types.BytesType {
				// Bytes cannot be in a policy. Their literal is read nevertheless.
				if got, _, err := evaluated(t, env, text+` == bytes("") || size(`+text+`) == 256`); got != types.True || err != nil {
					t.Errorf("got %v, %v, want true", got, err)
				}
			}
			got, found, err := evaluated(t, env, text)
			if err != nil || got.Type() != tc.value.Type() {
				t.Fatalf("%s: got %v, %v, want %v", text, got, err, tc.value)
			}
			if isNaN := tc.name == "no number"; (types.Equal(got, tc.value) != types.True) != isNaN {
				t.Errorf("%s: got %v, want %v", text, got, tc.value)
			}
			if d, ok := got.(types.Double); ok && math.Signbit(float64(d)) != math.Signbit(float64(tc.value.(types.Double))) {
				t.Errorf("%s: got %v, want %v", text, got, tc.value)
			}
			if !n.IsChanged && !n.IsEmptyAggregate() && tc.want != "" && !found.IsExactType(n.Type) {
				t.Errorf("%s: the checker finds the type %s, want %s", text, found, n.Type)
			}
			room := len(text)
			if _, ok := LeastLength(tc.value, &room); !ok {
				t.Errorf("the estimate of the length is above the length %d", len(text))
			}
			if got := n.Length(math.MaxInt - 1); got != len(text) {
				t.Errorf("got the length %d, want %d", got, len(text))
			}
		})
	}
}

func nestedLists(n int) any {
	var v any = []any{}
	for range n - 1 {
		v = []any{v}
	}
	return v
}

// TestValuesThatHaveNoLiteral asks that a value that cannot be written has no literal, also deep in another.
func TestValuesThatHaveNoLiteral(t *testing.T) {
	t.Parallel()
	env := policyEnv(t)
	without := []ref.Val{types.String("\xff"), types.String("a\xc3"), types.IntType, types.NewErr("an error"), types.NewUnknown(1, nil)}
	for _, text := range []string{`quantity("1")`, `ip("::1")`, `cidr("::/0")`, `url("/a")`, `semver("1.2.3")`, `format.dns1123Label()`} {
		v, _, err := evaluated(t, env, text)
		if err != nil {
			t.Fatal(err)
		}
		without = append(without, v)
	}
	list := func(v ref.Val) ref.Val {
		return types.NewRefValList(types.DefaultTypeAdapter, []ref.Val{types.True, v})
	}
	for _, v := range without {
		for name, in := range map[string]ref.Val{
			"the value": v, "a list": list(v), "a list in a list": list(list(v)), "a map": types.NewRefValMap(types.DefaultTypeAdapter, map[ref.Val]ref.Val{types.True: v}), "an optional": types.OptionalOf(v),
		} {
			if n := bareLiteral(in); n != nil {
				t.Errorf("%s with %v: got %v, want none", name, v, n)
			}
			if n := LiteralOf(in, types.DynType); n != nil {
				t.Errorf("%s with %v, as dyn: got %v, want none", name, v, n)
			}
		}
	}
	if n := bareLiteral(types.NewRefValMap(types.DefaultTypeAdapter, map[ref.Val]ref.Val{types.String("\xff"): types.True})); n != nil {
		t.Errorf("a key: got %v, want none", n)
	}
}

// TestLiteralsKeepTheType compares the types of literals with what the checker found in their place. Where they differ, the literal
// is dyn, so that no other overload is chosen.
func TestLiteralsKeepTheType(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		value ref.Val
		typ   *types.Type
		want  string
	}{
		{name: "the same type", value: types.Int(1), typ: types.IntType, want: `1`},
		{name: "dyn", value: types.Int(1), typ: types.DynType, want: `dyn(1)`},
		{name: "another type", value: types.Int(1), typ: types.StringType, want: `dyn(1)`},
		{name: "no type", value: types.Int(1), want: `dyn(1)`},
		{name: "a list of the same type", value: value([]any{"a"}), typ: types.NewListType(types.StringType), want: `["a"]`},
		{name: "a list of dyn", value: value([]any{"a"}), typ: types.NewListType(types.DynType), want: `dyn(["a"])`},
		{name: "a list of several types", value: value([]any{"a", int64(1)}), typ: types.NewListType(types.DynType), want: `[dyn("a"), dyn(1)]`},
		{name: "an empty list", value: value([]any{}), typ: types.NewListType(types.DynType), want: `dyn([])`},
		{name: "an empty list of strings", value: value([]any{}), typ: types.NewListType(types.StringType), want: `dyn([])`},
		{name: "an empty map", value: value(map[string]any{}), typ: types.NewMapType(types.DynType, types.DynType), want: `dyn({})`},
		{name: "none", value: types.OptionalNone, typ: types.NewOptionalType(types.DynType), want: `dyn(optional.none())`},
		{name: "an optional", value: types.OptionalOf(types.Int(1)), typ: types.NewOptionalType(types.IntType), want: `optional.of(1)`},
	} {
		n := LiteralOf(tc.value, tc.typ)
		if got := n.Text(); got != tc.want || n.IsChanged != strings.HasPrefix(tc.want, "dyn(") {
			t.Errorf("%s: got %s, changed %t, want %s", tc.name, got, n.IsChanged, tc.want)
		}
	}
}

// TestErrorTerms makes expressions that always fail, of every type. A term that had a value would decide in the place of an error.
func TestErrorTerms(t *testing.T) {
	t.Parallel()
	env := policyEnv(t)
	dyn := "dyn({}[\"error\"])"
	for _, tc := range []struct {
		name string
		typ  *types.Type
		want string
	}{
		{name: "dyn", typ: types.DynType, want: dyn},
		{name: "bool", typ: types.BoolType, want: `{"": false}["error"]`},
		{name: "int", typ: types.IntType, want: `{"": 0}["error"]`},
		{name: "uint", typ: types.UintType, want: `{"": 0u}["error"]`},
		{name: "double", typ: types.DoubleType, want: `{"": 0.0}["error"]`},
		{name: "string", typ: types.StringType, want: `{"": ""}["error"]`},
		{name: "duration", typ: types.DurationType, want: `{"": duration("0s")}["error"]`},
		{name: "timestamp", typ: types.TimestampType, want: `{"": timestamp("1970-01-01T00:00:00Z")}["error"]`},
		{name: "null", typ: types.NullType, want: dyn},
		{name: "bytes", typ: types.BytesType, want: dyn},
		{name: "a list", typ: types.NewListType(types.IntType), want: `{"": [0]}["error"]`},
		{name: "a list of dyn", typ: types.NewListType(types.DynType), want: dyn},
		{name: "a list of lists", typ: types.NewListType(types.NewListType(types.StringType)), want: `{"": [[""]]}["error"]`},
		{name: "a map", typ: types.NewMapType(types.StringType, types.BoolType), want: `{"": {"": false}}["error"]`},
		{name: "a map of dyn", typ: types.NewMapType(types.StringType, types.DynType), want: dyn},
		{name: "a map of keys that are dyn", typ: types.NewMapType(types.DynType, types.StringType), want: dyn},
		{name: "an optional", typ: types.NewOptionalType(types.IntType), want: `{"": optional.of(0)}["error"]`},
		{name: "an optional of dyn", typ: types.NewOptionalType(types.DynType), want: dyn},
		{name: "a quantity", typ: types.NewObjectType("kubernetes.Quantity"), want: `quantity("")`},
		{name: "an address", typ: types.NewObjectType("net.IP"), want: `ip("")`},
		{name: "a network", typ: types.NewObjectType("net.CIDR"), want: `cidr("")`},
		{name: "a version", typ: types.NewObjectType("kubernetes.Semver"), want: `semver("")`},
		{name: "a URL", typ: types.NewObjectType("kubernetes.URL"), want: `url("")`},
		{name: "another object", typ: types.NewObjectType("kubernetes.NamedFormat"), want: dyn},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			n := errorTermOf(tc.typ)
			if got := n.Text(); got != tc.want || n.IsErrorTerm() != (tc.want == dyn) {
				t.Errorf("got %s, which is an error term %t, want %s", got, n.IsErrorTerm(), tc.want)
			}
			if got, _, err := evaluated(t, env, n.Text()); err == nil {
				t.Errorf("got the value %v, want an error", got)
			}
			changed := AsDyn(Literal(types.Int(1), types.IntType))
			restored := RestoreType(changed, tc.typ)
			if want := tc.want != dyn; (restored != changed) != want || want && !restored.Type.IsExactType(tc.typ) {
				t.Errorf("got %s of the type %s, want the type restored: %t", restored.Text(), restored.Type, want)
			}
			unchanged := Literal(types.Int(1), types.IntType)
			if RestoreType(unchanged, tc.typ) != unchanged {
				t.Error("what is not dyn has changed")
			}
		})
	}
	for name, n := range map[string]*Node{
		"a constant": Literal(types.True, types.BoolType), "dyn of a constant": AsDyn(Literal(types.True, types.BoolType)), "another key": errorTermOf(types.BoolType),
		"an index of a map": AsDyn(Function(operators.Index, types.DynType, &Node{Kind: MapNode, Args: []*Node{Literal(types.True, types.BoolType), Literal(types.True, types.BoolType)}}, Literal(types.True, types.BoolType))),
	} {
		if n.IsErrorTerm() {
			t.Errorf("%s, which is %s, is taken for an error term", name, n.Text())
		}
	}
}

// TestRoomForValues counts the parts of values that are read, and stops where a condition would be too long.
func TestRoomForValues(t *testing.T) {
	t.Parallel()
	many := make([]any, 1000)
	for _, tc := range []struct {
		name      string
		value     any
		room      int
		wantParts uint64
		wantRoom  int // if it fits
		want      bool
	}{
		{name: "a number", value: int64(1), room: 1, wantParts: 1, wantRoom: 0, want: true},
		{name: "a number in no room", value: int64(1), room: 0, wantParts: 1},
		{name: "a text", value: "abc", room: 5, wantParts: 1, wantRoom: 0, want: true},
		{name: "a text that is too long", value: "abc", room: 4, wantParts: 1},
		{name: "a list", value: []any{"a", "b"}, room: 7, wantParts: 3, wantRoom: 0, want: true},
		{name: "a list that is too long", value: []any{"a", "b"}, room: 6, wantParts: 3},
		{name: "a list of which little is read", value: many, room: 10, wantParts: 11},
		{name: "a map", value: map[string]any{"a": int64(1)}, room: 5, wantParts: 3, wantRoom: 0, want: true},
		{name: "a map with a long key", value: map[string]any{"abcdef": int64(1)}, room: 8, wantParts: 2},
		{name: "an optional", value: types.OptionalOf(types.String("a")), room: 4, wantParts: 2, wantRoom: 0, want: true},
		{name: "an optional that is too long", value: types.OptionalOf(types.String("a")), room: 3, wantParts: 2},
		{name: "none", value: types.OptionalNone, room: 1, wantParts: 1, wantRoom: 0, want: true},
	} {
		room := tc.room
		parts, ok := LeastLength(value(tc.value), &room)
		if parts != tc.wantParts || ok != tc.want || ok && room != tc.wantRoom {
			t.Errorf("%s: got %d parts, fits %t, room %d, want %d, %t, %d", tc.name, parts, ok, room, tc.wantParts, tc.want, tc.wantRoom)
		}
	}
}
