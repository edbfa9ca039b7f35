/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// TestDeclaredTypes compares the type of every field of every variable with literals of the right type and of all others. What
// is declared decides which mistakes of an author are found before a policy is used.
func TestDeclaredTypes(t *testing.T) {
	t.Parallel()
	environment, err := cel.NewPolicyEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	compiler := cel.NewCompilerFor(environment)
	literals := map[string]string{"string": `"a"`, "int": `1`, "bool": `true`, "list": `["a"]`, "map": `{"a": "b"}`, "map of lists": `{"a": ["b"]}`, "bytes": `b"a"`}
	declared := map[string]string{
		"operation": "string", "dryRun": "bool",
		"request.userInfo.username": "string", "request.userInfo.uid": "string", "request.userInfo.groups": "list", "request.userInfo.extra": "map of lists",
		"impersonatedUser.username": "string", "impersonatedUser.uid": "string", "impersonatedUser.groups": "list", "impersonatedUser.extra": "map of lists",
		"request.fieldSelector.requirements[0].key": "string", "request.fieldSelector.requirements[0].operator": "string", "request.labelSelector.requirements[0].values": "list",
		"namespaceObject.metadata.name": "string", "namespaceObject.metadata.uid": "string", "namespaceObject.metadata.labels": "map", "namespaceObject.metadata.annotations": "map", "namespaceObject.metadata.finalizers": "list",
		"namespaceObject.metadata.resourceVersion": "string", "namespaceObject.metadata.generation": "int", "namespaceObject.metadata.creationTimestamp": "string", "namespaceObject.metadata.deletionTimestamp": "string",
	}
	for _, attribute := range []string{"verb", "apiGroup", "apiVersion", "resource", "subresource", "namespace", "name", "path"} {
		declared["request."+attribute], declared["impersonatedRequest."+attribute] = "string", "string"
	}
	for path, want := range declared {
		for name, literal := range literals {
			if _, err := compiler.Compile(path + " == " + literal); (err == nil) != (name == want) || err != nil && !strings.Contains(err.Error(), "no matching overload") {
				t.Errorf("%s, which is a %s, and a %s: got %v", path, want, name, err)
			}
		}
	}
	for _, dynamic := range []string{"object", "object.a", "oldObject.a[0]", "options.b"} {
		for name, literal := range literals {
			if _, err := compiler.Compile(dynamic + " == " + literal); err != nil {
				t.Errorf("%s, which is dynamic, and a %s: got %v", dynamic, name, err)
			}
		}
	}
	for _, missing := range []string{
		"request.body", "request.user", "request.userInfo.password", "request.dryRun", "impersonatedRequest.userInfo", "impersonatedRequest.fieldSelector", "impersonatedUser.name", "namespaceObject.name", "namespaceObject.spec",
		"namespaceObject.metadata.managedFields", "request.fieldSelector.matchLabels", "request.labelSelector.requirements[0].value",
	} {
		if _, err := compiler.Compile("dyn(" + missing + ") == 1"); err == nil || !strings.Contains(err.Error(), "undefined field") {
			t.Errorf("%s, which is not declared: got %v", missing, err)
		}
	}
}

// TestEnvironmentsWithOptions makes environments with functions of their own, and with options that fail.
func TestEnvironmentsWithOptions(t *testing.T) {
	t.Parallel()
	twice := celgo.Function("twice", celgo.Overload("twice_int", []*celgo.Type{celgo.IntType}, celgo.IntType, celgo.UnaryBinding(func(v ref.Val) ref.Val { return v.(types.Int) * 2 })))
	failing := celgo.EnvOption(func(*celgo.Env) (*celgo.Env, error) { return nil, errors.New("the option fails") })
	for name, newEnvironment := range map[string]func(...celgo.EnvOption) (*cel.Environment, error){"conditions": cel.NewConditionEnvironment, "policies": cel.NewPolicyEnvironment} {
		environment, err := newEnvironment(twice)
		if err != nil {
			t.Fatal(err)
		}
		program := compilers.Compiled(t, cel.NewCompilerFor(environment), `twice(object.a) == 6`)
		if got, _, err := program.Eval(t.Context(), cel.Values{cel.Object: map[string]any{"a": int64(3)}}); !got || err != nil {
			t.Errorf("%s: got %v, %v, want true", name, got, err)
		}
		// A panic of the function is an error of its call.
		if got, _, err := program.Eval(t.Context(), cel.Values{cel.Object: map[string]any{"a": "x"}}); got || !errors.Is(err, cel.ErrEvaluation) {
			t.Errorf("%s: got %v, %v, want ErrEvaluation", name, got, err)
		}
		if environment, err := newEnvironment(failing); environment != nil || err == nil || !strings.Contains(err.Error(), "CEL environment") {
			t.Errorf("%s with an option that fails: got %v, %v", name, environment, err)
		}
	}
	if c, err := cel.NewFunctionCompiler(cel.Signature{Variables: map[cel.Variable]*cel.Type{"a b": cel.StringType}, Result: cel.StringType, CostLimit: 1}); err == nil {
		if _, err := c.Compile(`a b`, cel.NewBudget()); err == nil {
			t.Error("a name with a space is read as a variable")
		}
	}
}

// TestKnown converts data, and asks that the result has the values and the types of the data, however deep.
func TestKnown(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		data any
		want ref.Val
	}{
		{name: "null", data: nil, want: types.NullValue},
		{name: "a bool", data: true, want: types.True},
		{name: "an integer", data: int64(-1), want: types.Int(-1)},
		{name: "a number", data: 1.5, want: types.Double(1.5)},
		{name: "a text", data: "a", want: types.String("a")},
		{name: "an empty list", data: []any{}, want: types.NewRefValList(types.DefaultTypeAdapter, nil)},
		{name: "a list", data: []any{int64(1), nil, "a"}, want: types.NewRefValList(types.DefaultTypeAdapter, []ref.Val{types.Int(1), types.NullValue, types.String("a")})},
		{name: "an empty map", data: map[string]any{}, want: types.NewRefValMap(types.DefaultTypeAdapter, nil)},
		{name: "maps in lists in maps", data: map[string]any{"a": []any{map[string]any{"b": nil}}}, want: types.DefaultTypeAdapter.NativeToValue(map[string]any{"a": []any{map[string]any{"b": nil}}})},
		{name: "a value of CEL", data: types.Uint(1), want: types.Uint(1)},
	} {
		if got := cel.Known(tc.data); got.Type() != tc.want.Type() || types.Equal(got, tc.want) != types.True {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
	if got := cel.Known(make(chan int)); !types.IsError(got) {
		t.Errorf("a channel: got %v, want an error", got)
	}
	if got := cel.Texts([]string{"a", "b"}); types.Equal(got, cel.Known([]any{"a", "b"})) != types.True {
		t.Errorf("texts: got %v", got)
	}
	// A map of Go has an error for keys of other types, where a map of CEL has none of them.
	program := compilers.Compiled(t, compilers.Conditions(t), `!(1 in object) && !(true in object) && !object[?1.5].hasValue() && !(1 in object.a[0])`)
	if got, _, err := program.Eval(t.Context(), cel.Values{cel.Object: cel.Known(map[string]any{"a": []any{map[string]any{"1": "x"}}})}); !got || err != nil {
		t.Errorf("keys of other types: got %v, %v, want true", got, err)
	}
}

// TestLazyIsAValue calls the methods of a lazy map that expressions call rarely. Each must do what the map does that is made at once.
func TestLazyIsAValue(t *testing.T) {
	t.Parallel()
	data := map[string]any{"a": int64(1), "b": map[string]any{"c": nil}}
	lazy, whole := cel.Lazy(wholeFields{data}), cel.Known(data)
	if lazy.Type() != types.MapType {
		t.Errorf("got the type %v", lazy.Type())
	}
	if types.Equal(lazy, whole) != types.True || types.Equal(whole, lazy) != types.True || types.Equal(lazy, cel.Known(map[string]any{"a": int64(1)})) != types.False {
		t.Error("a lazy map is not equal to the same map, or equal to another")
	}
	for _, to := range []ref.Type{types.MapType, types.TypeType, types.StringType, types.IntType} {
		got, want := lazy.ConvertToType(to), whole.ConvertToType(to)
		if types.IsError(got) != types.IsError(want) || !types.IsError(want) && types.Equal(got, want) != types.True {
			t.Errorf("converted to %v: got %v, want %v", to, got, want)
		}
	}
	native, err := lazy.ConvertToNative(typeOf(map[string]any{}))
	if m, ok := native.(map[string]any); err != nil || !ok || len(m) != 2 {
		t.Errorf("converted to a map of Go: got %v, %v", native, err)
	}
	if _, err := lazy.ConvertToNative(typeOf(1)); err == nil {
		t.Error("a map is converted to a number of Go")
	}
	if got := fmt.Sprint(lazy.(traits.Sizer).Size()); got != "2" {
		t.Errorf("got the size %s", got)
	}
	for name, want := range map[string]bool{"a": false, "": true} {
		empty := cel.Lazy(wholeFields{map[string]any{}})
		if name != "" {
			empty = lazy
		}
		if got := empty.(traits.Zeroer).IsZeroValue(); got != want {
			t.Errorf("is a zero value: got %t, want %t", got, want)
		}
	}
	mapper := lazy.(traits.Mapper)
	for _, key := range []ref.Val{types.String("a"), types.String("x"), types.Int(1), types.NullValue, types.Double(0.5)} {
		want, wantOK := whole.(traits.Mapper).Find(key)
		if got, ok := mapper.Find(key); ok != wantOK || ok && types.Equal(got, want) != types.True {
			t.Errorf("%v: found %v, %t, want %v, %t", key, got, ok, want, wantOK)
		}
		if got := mapper.Contains(key); got != types.Bool(wantOK) {
			t.Errorf("%v: contained %v, want %t", key, got, wantOK)
		}
		if got := mapper.Get(key); types.IsError(got) == wantOK {
			t.Errorf("%v: got %v, want a value: %t", key, got, wantOK)
		}
	}
}
