/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package bound_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/bound"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

func newCompiler(tb testing.TB) *bound.Compiler {
	tb.Helper()
	c, err := bound.NewCompiler()
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// fullRequest has every field.
func fullRequest() map[string]any {
	return map[string]any{
		"verb": "create", "apiGroup": "g", "apiVersion": "v1", "resource": "things", "subresource": "s", "namespace": "n", "name": "web", "path": "/p",
		"fieldSelector": map[string]any{"requirements": []any{map[string]any{"key": "a", "operator": "=", "values": []any(nil)}}},
		"labelSelector": map[string]any{"requirements": []any{map[string]any{"key": "a", "operator": "Exists", "values": []any{}}}},
		"userInfo": map[string]any{
			"username": "alice", "uid": "u", "groups": []any{"devs"}, "extra": map[string]any{"team": []any{"blue"}, "<&>": []any{}},
		},
	}
}

func TestBound(t *testing.T) {
	t.Parallel()
	policies := compilers.Policies(t)
	all, err := json.Marshal(fullRequest())
	if err != nil {
		t.Fatal(err)
	}
	whole := strings.NewReplacer("null", "[]", `\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(all))
	for _, tc := range []struct{ name, expression, want string }{
		{name: "a field", expression: `object.a == request.name`, want: `{"expression":"object.a == request.name","request":{"name":"web"}}`},
		{name: "nothing", expression: `object.a == "<&>"`, want: `{"expression":"object.a == \"<&>\"","request":{}}`},
		{name: "fields of fields", expression: `request.userInfo.groups.exists(g, g == object.a) && request.userInfo.username == object.b`,
			want: `{"expression":"request.userInfo.groups.exists(g, g == object.a) && request.userInfo.username == object.b","request":{"userInfo":{"groups":["devs"],"username":"alice"}}}`},
		{name: "a map as a whole", expression: `request.userInfo.extra.team[0] == object.a`, want: `{"expression":"request.userInfo.extra.team[0] == object.a","request":{"userInfo":{"extra":{"<&>":[],"team":["blue"]}}}}`},
		{name: "a test", expression: `has(request.userInfo.uid) && object.a`, want: `{"expression":"has(request.userInfo.uid) && object.a","request":{"userInfo":{"uid":"u"}}}`},
		{name: "an optional field", expression: `request.?path.orValue("") == object.a`, want: `{"expression":"request.?path.orValue(\"\") == object.a","request":{"path":"/p"}}`},
		{name: "a selector", expression: `request.labelSelector.requirements.size() == object.a`,
			want: `{"expression":"request.labelSelector.requirements.size() == object.a","request":{"labelSelector":{"requirements":[{"key":"a","operator":"Exists","values":[]}]}}}`},
		{name: "an empty list", expression: `request.fieldSelector.requirements[0].values == object.a`,
			want: `{"expression":"request.fieldSelector.requirements[0].values == object.a","request":{"fieldSelector":{"requirements":[{"key":"a","operator":"=","values":[]}]}}}`},
		{name: "in a macro", expression: `object.a.all(x, x == request.verb)`, want: `{"expression":"object.a.all(x, x == request.verb)","request":{"verb":"create"}}`},
		{name: "an object as a whole", expression: `dyn(request.userInfo) == object.a && request.userInfo.uid == "u"`,
			want: `{"expression":"dyn(request.userInfo) == object.a && request.userInfo.uid == \"u\"","request":{"userInfo":{"extra":{"<&>":[],"team":["blue"]},"groups":["devs"],"uid":"u","username":"alice"}}}`},
		{name: "everything", expression: `dyn(request) == object.a && request.verb == ""`, want: `{"expression":"dyn(request) == object.a && request.verb == \"\"","request":` + whole + `}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			expression := compilers.Compiled(t, policies, tc.expression)
			for range 3 {
				got, err := expression.Bound(fullRequest())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			}
		})
	}
}

func TestBoundRefuses(t *testing.T) {
	t.Parallel()
	policies := compilers.Policies(t)
	long := strings.Repeat("x", cel.MaxExpressionBytes)
	for _, tc := range []struct {
		name, expression string
		request          map[string]any
		want             string
	}{
		{name: "a number", expression: `object.a == request.name`, request: map[string]any{"name": int64(1)}, want: "request.name is neither string, list nor object"},
		{name: "null", expression: `object.a == request.name`, request: map[string]any{"name": nil}, want: "request.name is neither string, list nor object"},
		{name: "a string for a list", expression: `object.a == request.userInfo.groups`, request: map[string]any{"userInfo": map[string]any{"groups": "x"}}, want: "request.userInfo.groups must not be a string"},
		{name: "a list for a string", expression: `object.a == request.name`, request: map[string]any{"name": []any{}}, want: "request.name must not be a list"},
		{name: "a list of lists", expression: `object.a == request.userInfo.groups`, request: map[string]any{"userInfo": map[string]any{"groups": []any{[]any{}}}}, want: "must not be a list"},
		{name: "an object for a string", expression: `object.a == request.name`, request: map[string]any{"name": map[string]any{}}, want: "request.name must not be an object"},
		{name: "a string for an object", expression: `object.a == request.userInfo.uid`, request: map[string]any{"userInfo": "x"}, want: "request.userInfo is no object"},
		{name: "a field that is not declared", expression: `object.a == request`, request: map[string]any{"body": "x"}, want: `must not have the field "body"`},
		{name: "what is not UTF-8", expression: `object.a == request.name`, request: map[string]any{"name": "\xff"}, want: "request.name is not UTF-8"},
		{name: "a key that is not UTF-8", expression: `object.a == request.userInfo.extra`, request: map[string]any{"userInfo": map[string]any{"extra": map[string]any{"\xff": []any{}}}}, want: "a key that is not UTF-8"},
		{name: "too much", expression: `object.a == request.name`, request: map[string]any{"name": long}, want: "longer than 10240 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			expression := compilers.Compiled(t, policies, tc.expression)
			if got, err := expression.Bound(tc.request); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %q, %v, want an error with %q", got, err, tc.want)
			}
		})
	}
}

// TestBoundOfWhatGrows: named expressions that are put in may make more than the compiler
// accepts as one text, which is noticed where the condition is made.
func TestBoundOfWhatGrows(t *testing.T) {
	t.Parallel()
	expression, err := compilers.Policies(t).CompileWithVariables([]cel.NamedExpression{
		{Name: "a", Expression: `object.a.map(x, x + 1)`}, {Name: "b", Expression: `variables.a + variables.a + variables.a + variables.a`}, {Name: "c", Expression: `variables.b + variables.b + variables.b`},
	}, `variables.c == []`)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := expression.Bound(nil); err == nil || !strings.Contains(err.Error(), "cannot be expressed") {
		t.Errorf("got %q, %v, want an error", got, err)
	}
}

func TestBoundCompilerRefuses(t *testing.T) {
	t.Parallel()
	c := newCompiler(t)
	for _, tc := range []struct{ name, condition, want string }{
		{name: "nothing", condition: ``, want: "does not compile"},
		{name: "no JSON", condition: `object.a`, want: "invalid character"},
		{name: "no object", condition: `"object.a"`, want: "where { is wanted"},
		{name: "null", condition: `null`, want: "where { is wanted"},
		{name: "half an object", condition: `{"expression":"true"`, want: "does not compile"},
		{name: "no expression", condition: `{"request":{}}`, want: "must have the fields"},
		{name: "no request", condition: `{"expression":"true"}`, want: "must have the fields"},
		{name: "an unknown field", condition: `{"expression":"true","request":{},"x":1}`, want: `unknown field "x"`},
		{name: "a field in capitals", condition: `{"Expression":"true","request":{}}`, want: `unknown field "Expression"`},
		{name: "a repeated field", condition: `{"expression":"true","expression":"true","request":{}}`, want: "there twice"},
		{name: "a repeated field of request", condition: `{"expression":"true","request":{"name":"a","n\u0061me":"b"}}`, want: "there twice"},
		{name: "a repeated key", condition: `{"expression":"true","request":{"userInfo":{"extra":{"a":[],"a":[]}}}}`, want: "there twice"},
		{name: "an unknown field of request", condition: `{"expression":"true","request":{"body":"x"}}`, want: `unknown field "body"`},
		{name: "an unknown field of the user", condition: `{"expression":"true","request":{"userInfo":{"password":"x"}}}`, want: `unknown field "password"`},
		{name: "something after it", condition: `{"expression":"true","request":{}}{}`, want: "something after it"},
		{name: "more text after it", condition: `{"expression":"true","request":{}} x`, want: "something after it"},
		{name: "a number for a string", condition: `{"expression":"true","request":{"name":1}}`, want: "1 at byte 40 is no string"},
		{name: "null for a string", condition: `{"expression":"true","request":{"name":null}}`, want: "is no string"},
		{name: "null for a request", condition: `{"expression":"true","request":null}`, want: "where { is wanted"},
		{name: "a list for a request", condition: `{"expression":"true","request":[]}`, want: "where { is wanted"},
		{name: "a string for a list", condition: `{"expression":"true","request":{"userInfo":{"groups":"x"}}}`, want: "where [ is wanted"},
		{name: "a bool for a string", condition: `{"expression":"true","request":{"verb":true}}`, want: "true at byte 43 is no string"},
		{name: "an object for a string", condition: `{"expression":"true","request":{"verb":{}}}`, want: "{ at byte 40 is no string"},
		{name: "an object for a list", condition: `{"expression":"true","request":{"userInfo":{"groups":{}}}}`, want: "where [ is wanted"},
		{name: "a list for a map", condition: `{"expression":"true","request":{"userInfo":{"extra":[]}}}`, want: "where { is wanted"},
		{name: "a number in a list", condition: `{"expression":"true","request":{"userInfo":{"groups":["a",1]}}}`, want: "1 at byte 59 is no string"},
		{name: "a list that does not end", condition: `{"expression":"true","request":{"userInfo":{"groups":["a"`, want: "does not compile"},
		{name: "an unknown field of a requirement", condition: `{"expression":"true","request":{"labelSelector":{"requirements":[{"key":"a","value":"b"}]}}}`, want: `unknown field "value"`},
		{name: "an expression that is no string", condition: `{"expression":["true"],"request":{}}`, want: "is no string"},
		{name: "deep lists", condition: `{"expression":"true","request":{"userInfo":{"groups":` + strings.Repeat("[", 5000) + `}}}`, want: "is no string"},
		{name: "not UTF-8", condition: "{\"expression\":\"true\",\"request\":{\"name\":\"\xff\"}}", want: "not UTF-8"},
		{name: "too long", condition: `{"expression":"true","request":{}}` + strings.Repeat(" ", cel.MaxExpressionBytes), want: "longer than 10240 bytes"},
		{name: "an expression that does not compile", condition: `{"expression":"object.","request":{}}`, want: "<input>:1:8"},
		{name: "an expression that yields no bool", condition: `{"expression":"object","request":{}}`, want: "must yield bool"},
		{name: "a variable that there is not", condition: `{"expression":"variables.x == 1","request":{}}`, want: "undeclared reference"},
		{name: "a panic of the compiler", condition: `{"expression":"[?object.x] == []","request":{}}`, want: "the compiler failed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			program, err := c.Compile(tc.condition)
			if program != nil || !errors.Is(err, cel.ErrCompile) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, %v, want ErrCompile with %q", program, err, tc.want)
			}
			if err != nil && len(err.Error()) > 2000 {
				t.Errorf("the error is %d bytes long", len(err.Error()))
			}
		})
	}
}

func TestBoundEval(t *testing.T) {
	t.Parallel()
	c := newCompiler(t)
	object := map[string]any{"owner": "alice", "a": `' || true || '`}
	for _, tc := range []struct {
		name, condition string
		want            bool
		wantErr         string
	}{
		{name: "true", condition: `{"expression":"object.owner == request.name","request":{"name":"alice"}}`, want: true, wantErr: ""},
		{name: "false", condition: `{"expression":"object.owner == request.name","request":{"name":"bob"}}`, want: false, wantErr: ""},
		{name: "data are no syntax", condition: `{"expression":"object.owner == request.name","request":{"name":"' || true || '"}}`, want: false, wantErr: ""},
		{name: "data of every kind", condition: `{"expression":"object.a == request.name && request.userInfo.extra[\"\\n\"] == [\"\\\"\"]","request":{"name":"' || true || '","userInfo":{"extra":{"\n":["\""]}}}}`, want: true, wantErr: ""},
		{name: "a field that is read but not there", condition: `{"expression":"object.owner == request.verb","request":{"name":"alice"}}`, want: false, wantErr: "no such key: verb"},
		{name: "a field that is asked for", condition: `{"expression":"has(request.verb) || object.owner == \"alice\"","request":{}}`, want: true, wantErr: ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			program := compilers.Compiled(t, c, tc.condition)
			for _, values := range []cel.Values{
				{cel.Object: object},
				{cel.Object: object, cel.Request: cel.Known(map[string]any{"name": "alice", "verb": "alice"})}, // of no effect
			} {
				got, cost, err := program.Eval(t.Context(), values)
				if got != tc.want || (err == nil) != (tc.wantErr == "") || (err != nil && !strings.Contains(err.Error(), tc.wantErr)) || cost == 0 {
					t.Errorf("got %v at cost %d, %v, want %v, %q", got, cost, err, tc.want, tc.wantErr)
				}
			}
			if !program.Reads(cel.Object) || !program.Reads(cel.Request) || program.Reads(cel.Authorizer) {
				t.Errorf("reads object %v, request %v, authorizer %v", program.Reads(cel.Object), program.Reads(cel.Request), program.Reads(cel.Authorizer))
			}
		})
	}
}

// FuzzBound reads whatever anybody may send as a bound condition.
func FuzzBound(f *testing.F) {
	c := newCompiler(f)
	for _, seed := range []string{
		`{"expression":"object.a == request.name","request":{"name":"x"}}`, `{"expression":"true","request":{"userInfo":{"extra":{"a":["b"]},"groups":[]}}}`,
		`{"expression":"request.labelSelector.requirements[0].values.exists(v, v == object)","request":{"labelSelector":{"requirements":[{"values":["a"]}]}}}`,
		`{"expression":"\ud800","request":{}}`, `[[[[`, `{"request":{"name":"\u0000"},"expression":"request.name == \"\\x00\""}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, condition string) {
		program, err := c.Compile(condition)
		if err != nil {
			if !errors.Is(err, cel.ErrCompile) {
				t.Errorf("error %v does not wrap ErrCompile", err)
			}
			return
		}
		if got, _, err := program.Eval(t.Context(), cel.Values{cel.Object: map[string]any{"a": "x", "b": []any{int64(1)}}, cel.OldObject: nil, cel.Operation: "CREATE", cel.DryRun: false}); err != nil && got {
			t.Errorf("%q is true and an error at once: %v", condition, err)
		}
	})
}
