/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package syntax

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/operators"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
)

// refusedMacros are macros of the environment that policies cannot use, each for a reason
// that is beside the table of those that they can.
var refusedMacros = map[string]bool{"sortBy:2": true}

// TestMacrosAreKnown fails if a new version of cel-go has a macro that is neither in the table macros nor refused.
func TestMacrosAreKnown(t *testing.T) {
	t.Parallel()
	environment, err := cel.NewPolicyEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, m := range environment.Engine().Env.Macros() {
		key := fmt.Sprintf("%s:%d", m.Function(), m.ArgCount())
		found[key] = true
		if _, ok := macros[key]; !ok && !refusedMacros[key] && m.Function() != operators.Has {
			t.Errorf("the macro %s is neither supported nor refused", key)
		}
	}
	for key := range macros {
		if !found[key] {
			t.Errorf("the macro %s is supported, but does not exist", key)
		}
	}
}

// trees returns a function that returns the tree of an expression of policies.
func trees(t *testing.T) func(text string) (*Node, error) {
	t.Helper()
	environment, err := cel.NewPolicyEnvironment(celgo.EnableMacroCallTracking())
	if err != nil {
		t.Fatal(err)
	}
	builder := NewBuilder(environment)
	return func(text string) (*Node, error) {
		checked, err := engine.Check(environment.Engine().Env, environment.Engine().Guard, text)
		if err != nil {
			return nil, err
		}
		built, err := builder.Build(checked)
		if err != nil {
			return nil, err
		}
		return built.Tree, nil
	}
}

// TestIsBool has expressions that the checker takes for a bool, because && and || need one. Only those that cannot have another value may be left alone
// when true && or false || before them is left out: otherwise a residual could be a number, which no && accepts.
func TestIsBool(t *testing.T) {
	t.Parallel()
	treeOf := trees(t)
	for text, want := range map[string]bool{
		`true`: true, `1`: false, `"true"`: false, `null`: false, `[true]`: false, `{"a": true}`: false,
		`object`: false, `object.a`: false, `has(object.a)`: true, `dyn(true)`: false, `request.name`: false,
		`object.a == 1`: true, `object.a != 1`: true, `object.a < 1`: true, `object.a in [1]`: true, `object.a + 1`: false,
		`!object.a`: true, `object.a && object.b`: true, `object.a || object.b`: true,
		`object.a ? true : false`: true, `object.a ? object.b : false`: false, `object.a ? true : object.b`: false, `object.a ? object.b == 1 : has(object.c)`: true,
		`object.a[0]`: false, `object.?a.orValue(true)`: false, `object.?a.hasValue()`: true,
		`object.a.startsWith("x")`: true, `object.a.matches("x")`: true, `object.a.size()`: false, `string(object.a)`: false, `bool(object.a)`: true,
		`object.l.all(x, x)`: true, `object.l.exists(x, x)`: true, `object.l.exists_one(x, x)`: true, `object.l.all(i, x, x)`: true, `object.l.existsOne(i, x, x)`: true,
		`object.l.map(x, true)`: false, `object.l.filter(x, x)`: false, `object.?a.optMap(x, true).orValue(true)`: false,
		`authorizer.path("/a").check("get").allowed()`: true, `authorizer.path("/a").check("get").reason()`: false,
	} {
		tree, err := treeOf("[" + text + "] == dyn([])")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := tree.Args[0].Args[0].IsBool(); got != want {
			t.Errorf("%s: always a bool: %v, want %v", text, got, want)
		}
	}
}

// TestVariablesOfNodes has macros that bind variables. What a node depends on decides whether it is evaluated while the request is known only.
func TestVariablesOfNodes(t *testing.T) {
	t.Parallel()
	treeOf := trees(t)
	for _, tc := range []struct {
		text string
		want string
		body string // what the body of the macro depends on, if there is one
	}{
		{text: `true`},
		{text: `object == oldObject`, want: "object oldObject"},
		{text: `type(object) == int`, want: "object"},
		{text: `[1].all(x, x == 1)`, body: "x"},
		{text: `object.l.all(x, x == request.name)`, want: "object request", body: "request x"},
		{text: `[1].all(x, [x].all(y, x == y && object.a == 1))`, want: "object", body: "object x"},
		{text: `object.l.all(x, oldObject.l.all(y, x == y))`, want: "object oldObject", body: "oldObject x"},
		{text: `object.m.all(k, v, k == v)`, want: "object", body: "k v"},
		{text: `object.m.all(k, v, k == "a")`, want: "object", body: "k"},
		{text: `{"k": object.a}.all(k, options.a == 1)`, want: "object options", body: "options"},
	} {
		tree, err := treeOf(tc.text)
		if err != nil {
			t.Errorf("%s: %v", tc.text, err)
			continue
		}
		names := func(n *Node) string { return strings.Join(slices.Sorted(maps.Keys(n.Free)), " ") }
		if got := names(tree); got != tc.want {
			t.Errorf("%s: depends on %q, want %q", tc.text, got, tc.want)
		}
		if tc.body != "" {
			if got := names(tree.Args[0]); tree.Kind != MacroNode || got != tc.body {
				t.Errorf("%s: the body depends on %q, want %q", tc.text, got, tc.body)
			}
		}
	}
}
