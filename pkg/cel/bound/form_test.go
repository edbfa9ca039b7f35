/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package bound_test

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/bound"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// fields returns the fields at paths, whose names are joined by dots. An empty path is all of request.
func fields(paths ...string) *bound.Fields {
	f := &bound.Fields{}
	for _, path := range paths {
		if path == "" {
			f.Add(nil)
			continue
		}
		f.Add(strings.Split(path, "."))
	}
	return f
}

// TestFields adds paths in several orders, and binds what they have of a request. What is not added must not be shown.
func TestFields(t *testing.T) {
	t.Parallel()
	request := fullRequest()
	user := request["userInfo"].(map[string]any)
	user["groups"], user["extra"] = []any{"devs"}, map[string]any{"team": []any{"blue"}}
	request["fieldSelector"] = map[string]any{"requirements": []any{map[string]any{"key": "a", "operator": "=", "values": []any{"b"}}}}
	for _, tc := range []struct {
		name  string
		paths []string
		want  map[string]any
		has   map[string]bool
	}{
		{name: "nothing", want: map[string]any{}, has: map[string]bool{"verb": false, "userInfo": false, "": false}},
		{name: "a field", paths: []string{"verb"}, want: map[string]any{"verb": "create"}, has: map[string]bool{"verb": true, "name": false}},
		{name: "a field twice", paths: []string{"verb", "verb"}, want: map[string]any{"verb": "create"}},
		{name: "two fields", paths: []string{"verb", "name"}, want: map[string]any{"verb": "create", "name": "web"}, has: map[string]bool{"verb": true, "name": true}},
		{name: "a field of a field", paths: []string{"userInfo.username"}, want: map[string]any{"userInfo": map[string]any{"username": "alice"}}, has: map[string]bool{"userInfo": true, "username": false}},
		{name: "two fields of a field", paths: []string{"userInfo.username", "userInfo.uid"}, want: map[string]any{"userInfo": map[string]any{"username": "alice", "uid": "u"}}},
		{name: "a field of a field, and then all of it", paths: []string{"userInfo.username", "userInfo"}, want: map[string]any{"userInfo": user}},
		{name: "all of a field, and then a field of it", paths: []string{"userInfo", "userInfo.username"}, want: map[string]any{"userInfo": user}},
		{name: "a key of a map, which is read as a whole", paths: []string{"userInfo.extra.team"}, want: map[string]any{"userInfo": map[string]any{"extra": user["extra"]}}},
		{name: "a key of a map that is not there", paths: []string{"userInfo.extra.other"}, want: map[string]any{"userInfo": map[string]any{"extra": user["extra"]}}},
		{name: "an element of a list, which is read as a whole", paths: []string{"userInfo.groups.size"}, want: map[string]any{"userInfo": map[string]any{"groups": user["groups"]}}},
		{name: "a field of a string", paths: []string{"verb.x"}, want: map[string]any{"verb": "create"}},
		{name: "requirements of a selector", paths: []string{"fieldSelector.requirements"}, want: map[string]any{"fieldSelector": request["fieldSelector"]}},
		{name: "a field of a field that is not declared", paths: []string{"userInfo.password"}, want: map[string]any{"userInfo": user}},
		{name: "a field that is not declared, so that all is read", paths: []string{"body"}, want: request, has: map[string]bool{"verb": true, "body": true}},
		{name: "all", paths: []string{""}, want: request, has: map[string]bool{"verb": true}},
		{name: "a field, and then all", paths: []string{"verb", ""}, want: request, has: map[string]bool{"name": true}},
		{name: "all, and then a field", paths: []string{"", "verb"}, want: request, has: map[string]bool{"name": true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := fields(tc.paths...)
			text, err := bound.NewForm("true", f).Bind(request)
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Expression string         `json:"expression"`
				Request    map[string]any `json:"request"`
			}
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatal(err)
			}
			want := maps.Clone(tc.want)
			if _, all := want["labelSelector"]; all {
				want["labelSelector"] = map[string]any{"requirements": []any{map[string]any{"key": "a", "operator": "Exists", "values": []any{}}}}
			}
			if diff := cmp.Diff(want, got.Request); diff != "" || got.Expression != "true" {
				t.Errorf("expression %q, request (-want +got):\n%s", got.Expression, diff)
			}
			for name, want := range tc.has {
				if f.Has(name) != want {
					t.Errorf("has %q: got %t, want %t", name, f.Has(name), want)
				}
			}
		})
	}
}

// TestBindCopies changes a request after it has been bound, and binds requests that lack what the expression reads.
func TestBindCopies(t *testing.T) {
	t.Parallel()
	form := bound.NewForm("object.a == request.userInfo.username", fields("userInfo.username", "name"))
	for _, tc := range []struct {
		name    string
		request map[string]any
		want    string // of the request
		wantErr string
	}{
		{name: "no request", want: `{}`},
		{name: "an empty request", request: map[string]any{}, want: `{}`},
		{name: "no user", request: map[string]any{"name": "web"}, want: `{"name":"web"}`},
		{name: "an empty user", request: map[string]any{"userInfo": map[string]any{}}, want: `{"userInfo":{}}`},
		{name: "a user without a name", request: map[string]any{"userInfo": map[string]any{"uid": "u"}}, want: `{"userInfo":{}}`},
		{name: "an empty name", request: map[string]any{"name": ""}, want: `{"name":""}`},
		{name: "what is not read and not of its type", request: map[string]any{"verb": 1, "name": "web", "body": nil}, want: `{"name":"web"}`},
		{name: "letters that JSON escapes", request: map[string]any{"name": "\x00\"\\\u2028<&>"}, want: `{"name":"\u0000\"\\\u2028<&>"}`},
		{name: "a user that is null", request: map[string]any{"userInfo": nil}, wantErr: "request.userInfo is no object"},
		{name: "a user that is a list", request: map[string]any{"userInfo": []any{}}, wantErr: "request.userInfo is no object"},
		{name: "a name that is a bool", request: map[string]any{"name": true}, wantErr: "request.name is neither string, list nor object"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := form.Bind(tc.request)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) || got != "" {
					t.Errorf("got %q, %v, want an error with %q", got, err, tc.wantErr)
				}
				return
			}
			if want := `{"expression":"object.a == request.userInfo.username","request":` + tc.want + `}`; got != want || err != nil {
				t.Errorf("got %s, %v, want %s", got, err, want)
			}
		})
	}
}

// TestBoundAtTheBound binds and compiles conditions of exactly the greatest length, and of one byte more, in each place that a
// text can be in.
func TestBoundAtTheBound(t *testing.T) {
	t.Parallel()
	c := newCompiler(t)
	for _, tc := range []struct {
		name  string
		paths []string
		make  func(text string) map[string]any
	}{
		{name: "a string", paths: []string{"name"}, make: func(text string) map[string]any { return map[string]any{"name": text} }},
		{name: "a group", paths: []string{"userInfo.groups"}, make: func(text string) map[string]any {
			return map[string]any{"userInfo": map[string]any{"groups": []any{"a", text}}}
		}},
		{name: "a key", paths: []string{"userInfo.extra"}, make: func(text string) map[string]any {
			return map[string]any{"userInfo": map[string]any{"extra": map[string]any{text: []any{}}}}
		}},
		{name: "a value of a key", paths: []string{"userInfo.extra"}, make: func(text string) map[string]any {
			return map[string]any{"userInfo": map[string]any{"extra": map[string]any{"k": []any{text}}}}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			form := bound.NewForm("true", fields(tc.paths...))
			empty, err := form.Bind(tc.make(""))
			if err != nil {
				t.Fatal(err)
			}
			room := cel.MaxExpressionBytes - len(empty)
			longest, err := form.Bind(tc.make(strings.Repeat("x", room)))
			if err != nil || len(longest) != cel.MaxExpressionBytes {
				t.Fatalf("got %d bytes, %v, want %d", len(longest), err, cel.MaxExpressionBytes)
			}
			if _, err := c.Compile(longest); err != nil {
				t.Errorf("compiled: %v", err)
			}
			for _, more := range []int{1, cel.MaxExpressionBytes, 1 << 20} {
				if got, err := form.Bind(tc.make(strings.Repeat("x", room+more))); err == nil || !strings.Contains(err.Error(), "longer than 10240 bytes") {
					t.Errorf("%d bytes more: got %d bytes, %v, want an error", more, len(got), err)
				}
			}
		})
	}
	// A list of very many elements must not be copied before it is refused.
	many := make([]any, 1<<20)
	for i := range many {
		many[i] = ""
	}
	least := uint64(math.MaxUint64)
	for range 10 { // other tests allocate at the same time
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := bound.NewForm("true", fields("userInfo.groups")).Bind(map[string]any{"userInfo": map[string]any{"groups": many}}); err == nil {
			t.Fatal("a million groups are bound")
		}
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	if least > 4<<20 {
		t.Errorf("got %d bytes allocated for a list of a million groups, want less than they take", least)
	}
}

// TestBoundCosts compares the costs of compiling bound conditions: they contain the cost of the expression, and decoding what is
// bound has a cost of its own, also if it fails.
func TestBoundCosts(t *testing.T) {
	t.Parallel()
	c := newCompiler(t)
	const expression = `object.a == request.name`
	cost := func(condition string) uint64 {
		_, first, _ := c.CompileWithCost(condition)
		_, again, _ := c.CompileWithCost(condition)
		if first != again {
			t.Errorf("%.60s: got the cost %d and then %d", condition, first, again)
		}
		return first
	}
	small := cost(`{"expression":"` + expression + `","request":{}}`)
	large := cost(`{"expression":"` + expression + `","request":{"name":"` + strings.Repeat("x", 5000) + `"}}`)
	if least := uint64(1000 + 32*len(expression)); small < least || large < small+500 || large > small+510 {
		t.Errorf("got the costs %d and %d, want at least %d, and 500 more for 5000 bytes", small, large, least)
	}
	if wrong := cost(`{"expression":"` + expression); wrong < 1000 {
		t.Errorf("what is no JSON costs %d", wrong)
	}
	if wrong := cost(`{"expression":"object.","request":{}}`); wrong < 1000 {
		t.Errorf("what does not compile costs %d", wrong)
	}
	if long := cost(strings.Repeat(" ", cel.MaxExpressionBytes+1)); long != 0 {
		t.Errorf("what is not read costs %d", long)
	}
}

// TestBoundReads asks which variables a bound condition reads, and that a condition of another type is an error.
func TestBoundReads(t *testing.T) {
	t.Parallel()
	c := newCompiler(t)
	for _, tc := range []struct {
		expression string
		want       map[cel.Variable]bool
	}{
		{expression: `true`, want: map[cel.Variable]bool{cel.Object: false, cel.Request: false}},
		{expression: `request.name == \"a\"`, want: map[cel.Variable]bool{cel.Object: false, cel.Request: true}},
		{expression: `object.a || oldObject.b`, want: map[cel.Variable]bool{cel.Object: true, cel.OldObject: true, cel.Request: false, cel.Options: false}},
		{expression: `authorizer.path(\"/\").check(\"get\").allowed()`, want: map[cel.Variable]bool{cel.Authorizer: true, cel.RequestResource: false}},
	} {
		program := compilers.Compiled(t, c, `{"expression":"`+tc.expression+`","request":{"name":"a"}}`)
		for variable, want := range tc.want {
			if program.Reads(variable) != want {
				t.Errorf("%s reads %s: got %t, want %t", tc.expression, variable, program.Reads(variable), want)
			}
		}
	}
	program := compilers.Compiled(t, c, `{"expression":"object.a == request.name","request":{"name":"a"}}`)
	// The variables that are no request keep their values, and unknown ones are errors.
	if got, _, err := program.Eval(t.Context(), cel.Values{}); got || !errors.Is(err, cel.ErrEvaluation) {
		t.Errorf("without an object: got %v, %v, want ErrEvaluation", got, err)
	}
	if got, _, err := program.Eval(t.Context(), nil); got || !errors.Is(err, cel.ErrEvaluation) {
		t.Errorf("without values: got %v, %v, want ErrEvaluation", got, err)
	}
}
