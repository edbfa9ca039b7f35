/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/go-cmp/cmp"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
	"github.com/proviso-authz/proviso/test/testutil/rows"
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

// declared makes the type of an object.
func declared(name string, fields map[string]*apiservercel.DeclType) *apiservercel.DeclType {
	declarations := map[string]*apiservercel.DeclField{}
	for field, t := range fields {
		declarations[field] = apiservercel.NewDeclField(field, t, false, nil, nil)
	}
	return apiservercel.NewObjectType(name, declarations)
}

func typedCompiler(t *testing.T) *cel.TypedCompiler {
	t.Helper()
	c, err := cel.NewTypedCompiler(declared("v1/Widget", map[string]*apiservercel.DeclType{
		"size":      apiservercel.IntType,
		"namespace": apiservercel.StringType,
		"any":       apiservercel.DynType,
		"spec":      declared("v1/Widget.spec", map[string]*apiservercel.DeclType{"names": apiservercel.NewListType(apiservercel.StringType, -1)}),
	}), cel.NewCheckBudget())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTypedCompiler(t *testing.T) {
	t.Parallel()
	type row struct {
		Variables  []cel.NamedExpression
		Expression string
		Want       string // what is wrong, if anything
	}
	rows.Run(t, "testdata/typed.yaml", func(t *testing.T, tc row) {
		c := typedCompiler(t)
		for _, v := range tc.Variables {
			if err := c.Define(v); err != nil {
				t.Fatalf("%s: %v", v.Name, err)
			}
		}
		wantMistake(t, c.Check(tc.Expression), tc.Want)
	})
}

func wantMistake(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("got %v, want no mistake", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v, want %q", err, want)
	}
}

// TestTypedCompilerReportsOnce checks that what follows from a mistake is none.
func TestTypedCompilerReportsOnce(t *testing.T) {
	t.Parallel()
	c := typedCompiler(t)
	wantMistake(t, c.Define(cel.NamedExpression{Name: "bad", Expression: `object.sise`}), "undefined field")
	wantMistake(t, c.Define(cel.NamedExpression{Name: "next", Expression: `variables.bad.anything + 1`}), "")
	wantMistake(t, c.Check(`variables.next == variables.bad`), "")
}

// TestTypedCompilerBounds checks that what a Compiler refuses to look at is refused here.
func TestTypedCompilerBounds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, expression string }{
		{name: "what the compiler panics at", expression: `[?object.any].size() == 1`},
		{name: "longer than the bound", expression: `"` + strings.Repeat("x", cel.MaxExpressionBytes) + `" == ""`},
		{name: "nested deeper than the bound", expression: strings.Repeat("[", 17) + strings.Repeat("]", 17) + " == []"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := typedCompiler(t)
			if err := c.Check(tc.expression); !errors.Is(err, cel.ErrCompile) {
				t.Errorf("checked: got %v, want ErrCompile", err)
			}
			if err := c.Define(cel.NamedExpression{Name: "x", Expression: tc.expression}); !errors.Is(err, cel.ErrCompile) {
				t.Errorf("defined: got %v, want ErrCompile", err)
			}
			wantMistake(t, c.Check(`variables.x == 1`), "")
		})
	}
}

// TestTypedCompilerBoundsTypesTogether checks named expressions that double the type of the one before, whose texts are
// all within the bounds.
func TestTypedCompilerBoundsTypesTogether(t *testing.T) {
	t.Parallel()
	c := typedCompiler(t)
	const doubling = ".map(a, {a: a}).map(a, {a: a}).map(a, {a: a}).map(a, {a: a}).map(a, {a: a})"
	wantMistake(t, c.Define(cel.NamedExpression{Name: "a", Expression: "[1]" + doubling}), "")
	if err := c.Define(cel.NamedExpression{Name: "b", Expression: "variables.a" + doubling}); !errors.Is(err, cel.ErrCompile) || !strings.Contains(err.Error(), "more than 256 parts") {
		t.Errorf("got %v, want ErrCompile for a type that is too large", err)
	}
	// Facts about the variable of a macro also hold for the named expression.
	if err := c.Check("variables.a.all(z, [" + strings.Repeat("z, ", 3000) + "z] == [])"); !errors.Is(err, cel.ErrCompile) {
		t.Errorf("got %v, want ErrCompile for a large type that is compared often", err)
	}
}

// TestCheckBudget checks long expressions for several kinds, within one budget.
func TestCheckBudget(t *testing.T) {
	t.Parallel()
	budget, long := cel.NewCheckBudget(), strings.Repeat("true||", 1650)+"true"
	checked := 0
	for range 10 {
		c, err := cel.NewTypedCompiler(declared("v1/Widget", map[string]*apiservercel.DeclType{"size": apiservercel.IntType}), budget)
		if err != nil {
			t.Fatal(err)
		}
		switch err := c.Check(long); {
		case err == nil:
			checked++
		case !errors.Is(err, cel.ErrBudget) || !errors.Is(err, cel.ErrCompile):
			t.Fatalf("got %v, want ErrBudget", err)
		default:
			if err := c.Define(cel.NamedExpression{Name: "a", Expression: "1"}); !errors.Is(err, cel.ErrBudget) {
				t.Errorf("after the budget is spent: got %v, want ErrBudget", err)
			}
		}
	}
	if checked < 4 || checked > 9 {
		t.Errorf("got %d checks of %d bytes, want between 4 and 9", checked, len(long))
	}
}

func TestTypedCompilerNeedsFields(t *testing.T) {
	t.Parallel()
	for _, object := range []*apiservercel.DeclType{nil, apiservercel.DynType, apiservercel.NewMapType(apiservercel.StringType, apiservercel.StringType, -1)} {
		if _, err := cel.NewTypedCompiler(object, cel.NewCheckBudget()); err == nil {
			t.Errorf("a compiler for %v was made", object)
		}
	}
}

// functionCompiler compiles functions of a dynamic x and a string s.
func functionCompiler(t *testing.T, result *cel.Type) *cel.FunctionCompiler {
	t.Helper()
	c, err := cel.NewFunctionCompiler(cel.Signature{
		Variables: map[cel.Variable]*cel.Type{"x": cel.DynamicType, "s": cel.StringType}, Result: result, CostLimit: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFunctions(t *testing.T) {
	t.Parallel()
	list := make([]any, 2000)
	for _, tc := range []struct {
		name, text string
		result     *cel.Type
		values     cel.Values
		want       any
		wantErr    error
	}{
		{name: "a string", text: "s.split('-')[0]", result: cel.StringType, values: cel.Values{"s": "a-b"}, want: "a"},
		{name: "a bool", text: "x.a * 2 > 10", result: cel.BoolType, values: cel.Values{"x": map[string]any{"a": int64(6)}}, want: true},
		{name: "null", text: "x == null", result: cel.BoolType, values: cel.Values{"x": nil}, want: true},
		{name: "null in a list", text: "x[0] == null", result: cel.BoolType, values: cel.Values{"x": []any{nil}}, want: true},
		{name: "an error", text: "s.split('-')[1]", result: cel.StringType, values: cel.Values{"s": "a"}, wantErr: cel.ErrEvaluation},
		{name: "an unknown variable", text: "s", result: cel.StringType, wantErr: cel.ErrEvaluation},
		{name: "work within the limit", text: "x.all(e, e == null)", result: cel.BoolType, values: cel.Values{"x": list[:100]}, want: true},
		{name: "work beyond the limit", text: "x.all(e, e == null)", result: cel.BoolType, values: cel.Values{"x": list}, wantErr: cel.ErrCost},
		{name: "work that only the parts of a value show", text: "x == x", result: cel.BoolType, values: cel.Values{"x": list}, wantErr: cel.ErrCost},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f, err := functionCompiler(t, tc.result).Compile(tc.text, cel.NewBudget())
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.Call(t.Context(), tc.values)
			if diff := cmp.Diff(tc.want, got); diff != "" || !errors.Is(err, tc.wantErr) {
				t.Errorf("error %v, want %v; result (-want +got):\n%s", err, tc.wantErr, diff)
			}
			ended, end := context.WithCancel(t.Context())
			end()
			if got, err := f.Call(ended, tc.values); got != nil || !errors.Is(err, context.Canceled) {
				t.Errorf("with an ended context: got %v, %v", got, err)
			}
		})
	}
}

// TestFunctionsThatDoNotCompile have the bounds of conditions.
func TestFunctionsThatDoNotCompile(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text, want string }{
		{name: "another type", text: "1", want: "it must yield string, but yields int"},
		{name: "a dynamic type", text: "x", want: "it must yield string, but yields dyn"},
		{name: "a syntax error", text: "s +", want: "ERROR: <input>:1:4: Syntax error"},
		{name: "a variable of conditions", text: "object.name", want: "undeclared reference to 'object'"},
		{name: "a long text", text: "s" + strings.Repeat(" ", cel.MaxExpressionBytes), want: "longer than 10240 bytes"},
		{name: "deep literals", text: strings.Repeat("[", 17) + strings.Repeat("]", 17) + ".size() == 0 ? s : s", want: "nested more than 16 deep"},
		{name: "what the compiler panics at", text: "[?s]", want: "does not compile"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f, err := functionCompiler(t, cel.StringType).Compile(tc.text, cel.NewBudget())
			if f != nil || !errors.Is(err, cel.ErrCompile) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, %v, want an error with %q", f, err, tc.want)
			}
		})
	}
}

// TestBudgetOfFunctions compiles expressions of two signatures within one budget. Long ones spend its bytes, and macros its
// parts.
func TestBudgetOfFunctions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		most int
	}{
		"long":   {text: strings.Repeat("true||", 150) + "true", most: 22},
		"macros": {text: strings.Repeat("[].exists_one(a,a)||", 40) + "true", most: 15},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, other := functionCompiler(t, cel.BoolType), functionCompiler(t, cel.StringType)
			budget, compiled := cel.NewBudget(), 0
			for range 100 {
				if _, err := one.Compile(tc.text, budget); err != nil {
					if !errors.Is(err, cel.ErrBudget) || !errors.Is(err, cel.ErrCompile) {
						t.Fatalf("got %v, want ErrBudget", err)
					}
					break
				}
				compiled++
			}
			if compiled < 4 || compiled > tc.most {
				t.Errorf("got %d compilations of %d bytes, want between 4 and %d", compiled, len(tc.text), tc.most)
			}
			if _, err := other.Compile("s", budget); !errors.Is(err, cel.ErrBudget) {
				t.Errorf("another signature after the budget is spent: got %v, want ErrBudget", err)
			}
			if _, err := one.Compile(tc.text, cel.NewBudget()); err != nil {
				t.Errorf("with another budget: %v", err)
			}
		})
	}
}
