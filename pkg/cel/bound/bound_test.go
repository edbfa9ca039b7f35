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
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

func newCompiler(tb testing.TB) *bound.Compiler {
	tb.Helper()
	c, err := bound.NewCompiler()
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func policyCompiler(tb testing.TB) *partial.Compiler {
	tb.Helper()
	residuals, err := cel.NewCompiler()
	if err != nil {
		tb.Fatal(err)
	}
	c, err := partial.NewPolicyCompiler(residuals)
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
	policies := policyCompiler(t)
	all, err := json.Marshal(fullRequest())
	if err != nil {
		t.Fatal(err)
	}
	whole := strings.NewReplacer("null", "[]", `\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(all))
	for _, tc := range []struct{ name, expression, want string }{
		{"a field", `object.a == request.name`, `{"expression":"object.a == request.name","request":{"name":"web"}}`},
		{"nothing", `object.a == "<&>"`, `{"expression":"object.a == \"<&>\"","request":{}}`},
		{"fields of fields", `request.userInfo.groups.exists(g, g == object.a) && request.userInfo.username == object.b`,
			`{"expression":"request.userInfo.groups.exists(g, g == object.a) && request.userInfo.username == object.b","request":{"userInfo":{"groups":["devs"],"username":"alice"}}}`},
		{"a map as a whole", `request.userInfo.extra.team[0] == object.a`, `{"expression":"request.userInfo.extra.team[0] == object.a","request":{"userInfo":{"extra":{"<&>":[],"team":["blue"]}}}}`},
		{"a test", `has(request.userInfo.uid) && object.a`, `{"expression":"has(request.userInfo.uid) && object.a","request":{"userInfo":{"uid":"u"}}}`},
		{"an optional field", `request.?path.orValue("") == object.a`, `{"expression":"request.?path.orValue(\"\") == object.a","request":{"path":"/p"}}`},
		{"a selector", `request.labelSelector.requirements.size() == object.a`,
			`{"expression":"request.labelSelector.requirements.size() == object.a","request":{"labelSelector":{"requirements":[{"key":"a","operator":"Exists","values":[]}]}}}`},
		{"an empty list", `request.fieldSelector.requirements[0].values == object.a`,
			`{"expression":"request.fieldSelector.requirements[0].values == object.a","request":{"fieldSelector":{"requirements":[{"key":"a","operator":"=","values":[]}]}}}`},
		{"in a macro", `object.a.all(x, x == request.verb)`, `{"expression":"object.a.all(x, x == request.verb)","request":{"verb":"create"}}`},
		{"an object as a whole", `dyn(request.userInfo) == object.a && request.userInfo.uid == "u"`,
			`{"expression":"dyn(request.userInfo) == object.a && request.userInfo.uid == \"u\"","request":{"userInfo":{"extra":{"<&>":[],"team":["blue"]},"groups":["devs"],"uid":"u","username":"alice"}}}`},
		{"everything", `dyn(request) == object.a && request.verb == ""`, `{"expression":"dyn(request) == object.a && request.verb == \"\"","request":` + whole + `}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			expression, err := policies.Compile(tc.expression)
			if err != nil {
				t.Fatal(err)
			}
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
	policies := policyCompiler(t)
	long := strings.Repeat("x", cel.MaxExpressionBytes)
	for _, tc := range []struct {
		name, expression string
		request          map[string]any
		want             string
	}{
		{"a number", `object.a == request.name`, map[string]any{"name": int64(1)}, "request.name is neither string, list nor object"},
		{"null", `object.a == request.name`, map[string]any{"name": nil}, "request.name is neither string, list nor object"},
		{"a string for a list", `object.a == request.userInfo.groups`, map[string]any{"userInfo": map[string]any{"groups": "x"}}, "request.userInfo.groups must not be a string"},
		{"a list for a string", `object.a == request.name`, map[string]any{"name": []any{}}, "request.name must not be a list"},
		{"a list of lists", `object.a == request.userInfo.groups`, map[string]any{"userInfo": map[string]any{"groups": []any{[]any{}}}}, "must not be a list"},
		{"an object for a string", `object.a == request.name`, map[string]any{"name": map[string]any{}}, "request.name must not be an object"},
		{"a string for an object", `object.a == request.userInfo.uid`, map[string]any{"userInfo": "x"}, "request.userInfo is no object"},
		{"a field that is not declared", `object.a == request`, map[string]any{"body": "x"}, `must not have the field "body"`},
		{"what is not UTF-8", `object.a == request.name`, map[string]any{"name": "\xff"}, "request.name is not UTF-8"},
		{"a key that is not UTF-8", `object.a == request.userInfo.extra`, map[string]any{"userInfo": map[string]any{"extra": map[string]any{"\xff": []any{}}}}, "a key that is not UTF-8"},
		{"too much", `object.a == request.name`, map[string]any{"name": long}, "longer than 10240 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			expression, err := policies.Compile(tc.expression)
			if err != nil {
				t.Fatal(err)
			}
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
	expression, err := policyCompiler(t).CompileWithVariables([]cel.NamedExpression{
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
		{"nothing", ``, "EOF"},
		{"no JSON", `object.a`, "invalid character"},
		{"no object", `"object.a"`, "where { is wanted"},
		{"null", `null`, "where { is wanted"},
		{"half an object", `{"expression":"true"`, "EOF"},
		{"no expression", `{"request":{}}`, "must have the fields"},
		{"no request", `{"expression":"true"}`, "must have the fields"},
		{"an unknown field", `{"expression":"true","request":{},"x":1}`, `unknown field "x"`},
		{"a field in capitals", `{"Expression":"true","request":{}}`, `unknown field "Expression"`},
		{"a repeated field", `{"expression":"true","expression":"true","request":{}}`, "there twice"},
		{"a repeated field of request", `{"expression":"true","request":{"name":"a","n\u0061me":"b"}}`, "there twice"},
		{"a repeated key", `{"expression":"true","request":{"userInfo":{"extra":{"a":[],"a":[]}}}}`, "there twice"},
		{"an unknown field of request", `{"expression":"true","request":{"body":"x"}}`, `unknown field "body"`},
		{"an unknown field of the user", `{"expression":"true","request":{"userInfo":{"password":"x"}}}`, `unknown field "password"`},
		{"something after it", `{"expression":"true","request":{}}{}`, "something after it"},
		{"more text after it", `{"expression":"true","request":{}} x`, "something after it"},
		{"a number for a string", `{"expression":"true","request":{"name":1}}`, "1 at byte 40 is no string"},
		{"null for a string", `{"expression":"true","request":{"name":null}}`, "is no string"},
		{"null for a request", `{"expression":"true","request":null}`, "where { is wanted"},
		{"a list for a request", `{"expression":"true","request":[]}`, "where { is wanted"},
		{"a string for a list", `{"expression":"true","request":{"userInfo":{"groups":"x"}}}`, "where [ is wanted"},
		{"deep lists", `{"expression":"true","request":{"userInfo":{"groups":` + strings.Repeat("[", 5000) + `}}}`, "is no string"},
		{"not UTF-8", "{\"expression\":\"true\",\"request\":{\"name\":\"\xff\"}}", "not UTF-8"},
		{"too long", `{"expression":"true","request":{}}` + strings.Repeat(" ", cel.MaxExpressionBytes), "longer than 10240 bytes"},
		{"an expression that does not compile", `{"expression":"object.","request":{}}`, "<input>:1:8"},
		{"an expression that yields no bool", `{"expression":"object","request":{}}`, "must yield bool"},
		{"a variable that there is not", `{"expression":"variables.x == 1","request":{}}`, "undeclared reference"},
		{"a panic of the compiler", `{"expression":"[?object.x] == []","request":{}}`, "the compiler failed"},
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
		{"true", `{"expression":"object.owner == request.name","request":{"name":"alice"}}`, true, ""},
		{"false", `{"expression":"object.owner == request.name","request":{"name":"bob"}}`, false, ""},
		{"data are no syntax", `{"expression":"object.owner == request.name","request":{"name":"' || true || '"}}`, false, ""},
		{"data of every kind", `{"expression":"object.a == request.name && request.userInfo.extra[\"\\n\"] == [\"\\\"\"]","request":{"name":"' || true || '","userInfo":{"extra":{"\n":["\""]}}}}`, true, ""},
		{"a field that is read but not there", `{"expression":"object.owner == request.verb","request":{"name":"alice"}}`, false, "no such key: verb"},
		{"a field that is asked for", `{"expression":"has(request.verb) || object.owner == \"alice\"","request":{}}`, true, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			program, err := c.Compile(tc.condition)
			if err != nil {
				t.Fatal(err)
			}
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
