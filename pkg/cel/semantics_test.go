/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel_test

import (
	"errors"
	"maps"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// TestOddObjects evaluates conditions on objects as clients may send them: with null, with values of other types than
// the author of the condition expected, and with numbers at the end of their range. What is not true is false or an
// error; none of it is true by accident.
func TestOddObjects(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	for _, tc := range []struct {
		name, expression string
		object           any
		want             bool
		wantErr          string
	}{
		{name: "no object", expression: `object.spec.size < 10`, object: nil, wantErr: "no such key: spec"},
		{name: "no object, asked for", expression: `has(object.spec)`, object: nil},
		{name: "an object that is a text", expression: `object.spec.size < 10`, object: "x", wantErr: "no such key"},
		{name: "an object that is a list", expression: `object.spec.size < 10`, object: []any{}, wantErr: "unsupported index type"},
		{name: "a spec that is null", expression: `object.spec.size < 10`, object: map[string]any{"spec": nil}, wantErr: "no such key: size"},
		{name: "a size that is null", expression: `object.size < 10`, object: map[string]any{"size": nil}, wantErr: "no such overload"},
		{name: "a size that is null, asked for", expression: `has(object.size)`, object: map[string]any{"size": nil}, want: true},
		{name: "a size that is a text", expression: `object.size < 10`, object: map[string]any{"size": "5"}, wantErr: "no such overload"},
		{name: "a text is not equal to a number", expression: `object.size == 5`, object: map[string]any{"size": "5"}},
		{name: "true is not 1", expression: `object.flag == 1`, object: map[string]any{"flag": true}},
		{name: "a flag that is a text", expression: `object.flag`, object: map[string]any{"flag": "true"}, wantErr: "yield"},
		{name: "a flag that is a text, negated", expression: `!object.flag`, object: map[string]any{"flag": "false"}, wantErr: "no such overload"},
		{name: "a flag that is null", expression: `object.flag || false`, object: map[string]any{"flag": nil}, wantErr: "no such overload"},

		{name: "the greatest integer", expression: `object.n == 9223372036854775807`, object: map[string]any{"n": int64(math.MaxInt64)}, want: true},
		{name: "the greatest integer and one more", expression: `object.n + 1 > 0`, object: map[string]any{"n": int64(math.MaxInt64)}, wantErr: "overflow"},
		{name: "the least integer, without its sign", expression: `-object.n > 0`, object: map[string]any{"n": int64(math.MinInt64)}, wantErr: "overflow"},
		{name: "a number beyond all integers", expression: `int(object.n) > 0`, object: map[string]any{"n": 1e300}, wantErr: "overflow"},
		{name: "a number beyond all integers is greater", expression: `object.n > 9223372036854775807`, object: map[string]any{"n": 1e300}, want: true},
		{name: "integers that a fraction cannot tell apart", expression: `object.n == 9007199254740993`, object: map[string]any{"n": float64(9007199254740992)}, want: true},
		{name: "division by zero", expression: `1 / object.n == 0`, object: map[string]any{"n": int64(0)}, wantErr: "division by zero"},
		{name: "division by a zero that is a fraction", expression: `1.0 / object.n > 1e308`, object: map[string]any{"n": 0.0}, want: true},
		{name: "what is no number equals nothing", expression: `object.n == object.n`, object: map[string]any{"n": math.NaN()}},
		{name: "zero below zero", expression: `object.n == 0`, object: map[string]any{"n": math.Copysign(0, -1)}, want: true},

		{name: "a key with a dot", expression: `object.labels["a.b/c"] == "x"`, object: map[string]any{"labels": map[string]any{"a.b/c": "x"}}, want: true},
		{name: "an empty key", expression: `object[""] == "x"`, object: map[string]any{"": "x"}, want: true},
		{name: "letters that only look the same", expression: `object.name == "é"`, object: map[string]any{"name": "e\u0301"}},
		{name: "a text with a zero byte", expression: `object.name == "a\x00b"`, object: map[string]any{"name": "a\x00b"}, want: true},
		{name: "the size of a text is in letters", expression: `object.name.size() == 2`, object: map[string]any{"name": "größ"[2:5]}, want: true},
		{name: "an index below zero", expression: `object.list[-1] == 1`, object: map[string]any{"list": []any{int64(1)}}, wantErr: "index out of bounds"},
		{name: "an index at the end", expression: `object.list[1] == 1`, object: map[string]any{"list": []any{int64(1)}}, wantErr: "index out of bounds"},
		{name: "an index that is a whole fraction", expression: `object.list[object.i] == 1`, object: map[string]any{"list": []any{int64(1)}, "i": 0.0}, want: true},
		{name: "an index that is a fraction", expression: `object.list[object.i] == 1`, object: map[string]any{"list": []any{int64(1)}, "i": 0.5}, wantErr: "unsupported index value"},
		{name: "all of none", expression: `object.list.all(x, x > 100)`, object: map[string]any{"list": []any{}}, want: true},
		{name: "one of none", expression: `object.list.exists(x, x > 100)`, object: map[string]any{"list": []any{}}},
		{name: "all of null", expression: `object.list.all(x, x > 100)`, object: map[string]any{"list": nil}, wantErr: "got 'types.Null'"},
		{name: "all of a text", expression: `object.list.all(x, x > 100)`, object: map[string]any{"list": "abc"}, wantErr: "got 'types.String'"},
		{name: "all, one of which is an error", expression: `object.list.all(x, x > 100)`, object: map[string]any{"list": []any{int64(200), "x"}}, wantErr: "no such overload"},
		{name: "all, one of which is an error and one false", expression: `object.list.all(x, x > 100)`, object: map[string]any{"list": []any{"x", int64(1)}}},
		{name: "one, and others are errors", expression: `object.list.exists(x, x > 100)`, object: map[string]any{"list": []any{"x", int64(200)}}, want: true},
		{name: "exactly one, and others are errors", expression: `object.list.exists_one(x, x > 100)`, object: map[string]any{"list": []any{"x", int64(200)}}, wantErr: "no such overload"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			program, err := compiler.Compile(tc.expression)
			if tc.wantErr == "yield" {
				// The type of a field is only known at run time. If it alone is the condition, it must not compile.
				if err == nil || !strings.Contains(err.Error(), "must yield bool") {
					t.Errorf("got %v, %v, want an error of the type", program, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, cost, err := program.Eval(t.Context(), cel.Values{cel.Object: tc.object})
			switch {
			case tc.wantErr == "" && (err != nil || got != tc.want):
				t.Errorf("got %v, %v, want %v", got, err, tc.want)
			case tc.wantErr != "" && (got || !errors.Is(err, cel.ErrEvaluation) || !strings.Contains(err.Error(), tc.wantErr)):
				t.Errorf("got %v, %v, want ErrEvaluation with %q", got, err, tc.wantErr)
			}
			if again, costAgain, errAgain := program.Eval(t.Context(), cel.Values{cel.Object: tc.object}); again != got || costAgain != cost || (errAgain == nil) != (err == nil) {
				t.Errorf("got %v at cost %d, %v, and the second time %v at cost %d, %v", got, cost, err, again, costAgain, errAgain)
			}
		})
	}
}

// TestValuesOfOtherTypes passes Go values that JSON does not have. Whatever a caller passes, an evaluation ends with a
// value or an error, and a panic is an error.
func TestValuesOfOtherTypes(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	program := compilers.Compiled(t, compiler, `object.a == "x"`)
	var none *struct{ A string }
	for name, object := range map[string]any{
		"a channel": make(chan int), "a function": func() {}, "a struct": struct{ A string }{"x"}, "a pointer": &struct{ A string }{"x"}, "a nil pointer": none,
		"a map with other keys": map[int]any{1: "x"}, "a complex number": complex(1, 2), "an array": [2]string{"x", "y"},
	} {
		if got, _, err := program.Eval(t.Context(), cel.Values{cel.Object: object}); got || !errors.Is(err, cel.ErrEvaluation) {
			t.Errorf("%s: got %v, %v, want ErrEvaluation", name, got, err)
		}
	}
	for name, object := range map[string]any{"typed maps": map[string]string{"a": "x"}, "a map of lists": map[string]any{"a": "x", "b": []string{"y"}}} {
		if got, _, err := program.Eval(t.Context(), cel.Values{cel.Object: object}); !got || err != nil {
			t.Errorf("%s: got %v, %v, want true", name, got, err)
		}
	}
}

// TestProgramsAreSafeForConcurrentUse evaluates one program with different objects at once.
func TestProgramsAreSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	program := compilers.Compiled(t, compilers.Conditions(t), `object.list.map(x, x * 2).filter(x, x > object.least).size() == object.want && object.name.matches("^" + object.name + "$")`)
	var group sync.WaitGroup
	for n := range int64(16) {
		group.Go(func() {
			list := make([]any, n)
			for i := range list {
				list[i] = int64(i)
			}
			for want := range int64(3) {
				object := map[string]any{"list": list, "least": int64(-1), "want": n + want, "name": strings.Repeat("a", int(n)+1)}
				if got, _, err := program.Eval(t.Context(), cel.Values{cel.Object: object}); got != (want == 0) || err != nil {
					t.Errorf("%d elements, %d more wanted: got %v, %v", n, want, got, err)
				}
			}
		})
	}
	group.Wait()
}

// TestNamespaceData keeps the fields of a namespace that conditions may read, whatever else the namespace has.
func TestNamespaceData(t *testing.T) {
	t.Parallel()
	empty := map[string]any{"metadata": map[string]any{}}
	for _, tc := range []struct {
		name            string
		namespace, want map[string]any
	}{
		{name: "no namespace", want: empty},
		{name: "no metadata", namespace: map[string]any{"kind": "Namespace"}, want: empty},
		{name: "metadata that is null", namespace: map[string]any{"metadata": nil}, want: empty},
		{name: "metadata that is a list", namespace: map[string]any{"metadata": []any{"name"}}, want: empty},
		{name: "a namespace", namespace: map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "spec": map[string]any{"finalizers": []any{"kubernetes"}}, "status": map[string]any{"phase": "Active"},
			"metadata": map[string]any{"name": "n", "uid": "u", "labels": map[string]any{"a": "b"}, "annotations": nil, "managedFields": []any{"secret"}, "ownerReferences": []any{}, "selfLink": "/n", "generateName": "n-"},
		}, want: map[string]any{"metadata": map[string]any{"name": "n", "uid": "u", "labels": map[string]any{"a": "b"}, "annotations": nil}}},
		{name: "every field that there is", namespace: map[string]any{"metadata": map[string]any{
			"name": "n", "uid": "u", "labels": nil, "annotations": nil, "finalizers": nil, "resourceVersion": "1", "generation": int64(1), "creationTimestamp": "t", "deletionTimestamp": "t",
		}}, want: map[string]any{"metadata": map[string]any{
			"name": "n", "uid": "u", "labels": nil, "annotations": nil, "finalizers": nil, "resourceVersion": "1", "generation": int64(1), "creationTimestamp": "t", "deletionTimestamp": "t",
		}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			before := maps.Clone(tc.namespace)
			if diff := cmp.Diff(tc.want, cel.NamespaceData(tc.namespace)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.namespace); diff != "" {
				t.Errorf("the namespace has changed:\n%s", diff)
			}
		})
	}
}

// TestReadsOnly tells programs whose value is known once some variables are from others.
func TestReadsOnly(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	for _, tc := range []struct {
		expression string
		variables  []cel.Variable
		want       bool
	}{
		{expression: `true`, want: true},
		{expression: `true`, variables: []cel.Variable{cel.Object}, want: true},
		{expression: `object == 1`, variables: []cel.Variable{cel.Object}, want: true},
		{expression: `object == 1`, variables: []cel.Variable{cel.OldObject}},
		{expression: `object == 1`},
		{expression: `object == oldObject`, variables: []cel.Variable{cel.Object}},
		{expression: `object == oldObject`, variables: []cel.Variable{cel.OldObject, cel.Object, cel.Options}, want: true},
		{expression: `false && object == 1`, variables: []cel.Variable{cel.OldObject}},
		{expression: `[1].all(object, object == 1)`, variables: []cel.Variable{cel.Object}, want: true},
		{expression: `authorizer.requestResource.check("get").allowed()`, variables: []cel.Variable{cel.Authorizer}},
	} {
		program := compilers.Compiled(t, compiler, tc.expression)
		if got := program.ReadsOnly(tc.variables...); got != tc.want {
			t.Errorf("%s reads only %v: got %v, want %v", tc.expression, tc.variables, got, tc.want)
		}
	}
}

// TestEnvironmentsDeclare compares the variables that conditions of webhooks can read with the variables that policies can read.
func TestEnvironmentsDeclare(t *testing.T) {
	t.Parallel()
	conditions, err := cel.NewConditionEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	policies, err := cel.NewPolicyEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]bool{
		"object": {true, true}, "oldObject": {true, true}, "operation": {true, true}, "authorizer.requestResource": {true, true},
		"request": {false, true}, "variables": {false, false}, "params": {false, false}, "self": {false, false}, "": {false, false},
	} {
		if got := [2]bool{conditions.Declares(name), policies.Declares(name)}; got != want {
			t.Errorf("%q: got %v of conditions and policies, want %v", name, got, want)
		}
	}
	if _, err := cel.NewCompilerFor(policies).Compile(`request.verb == "get"`); err != nil {
		t.Errorf("a policy cannot read its request: %v", err)
	}
}
