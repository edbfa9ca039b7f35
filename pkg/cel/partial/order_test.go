/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

func TestTextIteratingLast(t *testing.T) {
	t.Parallel()
	compiler, err := partial.NewPolicyCompiler(compilers.Conditions(t))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`object.l.exists(x, x) && request.name == "a"`:                              `request.name == "a" && object.l.exists(x, x)`,
		`object.l.exists(x, x) || request.name == "a"`:                              `request.name == "a" || object.l.exists(x, x)`,
		`request.name == "a" && object.l.exists(x, x)`:                              `request.name == "a" && object.l.exists(x, x)`,
		`object.l == [1] && request.name == "a"`:                                    `object.l == [1] && request.name == "a"`,
		`oldObject.l.exists(x, x) && request.name == "a"`:                           `oldObject.l.exists(x, x) && request.name == "a"`,
		`request.userInfo.groups.exists(g, g == "a") && request.name == "a"`:        `request.userInfo.groups.exists(g, g == "a") && request.name == "a"`,
		`request.userInfo.groups.exists(g, g in object.l) && request.name == "a"`:   `request.name == "a" && request.userInfo.groups.exists(g, g in object.l)`,
		`object.l.exists(x, x) && (object.m.all(x, x) && (dryRun && object.a))`:     `dryRun && object.a && object.l.exists(x, x) && object.m.all(x, x)`,
		`(object.l.exists(x, x) || dryRun) && request.name == "a"`:                  `request.name == "a" && (dryRun || object.l.exists(x, x))`,
		`!(object.l.exists(x, x) && dryRun) ? object.b == 1 : false`:                `!(dryRun && object.l.exists(x, x)) ? object.b == 1 : false`,
		`object.l.exists(x, x.m.exists(y, y) && dryRun)`:                            `object.l.exists(x, dryRun && x.m.exists(y, y))`,
		`request.userInfo.groups.exists(g, object.l.exists(x, x == g) && g == "x")`: `request.userInfo.groups.exists(g, g == "x" && object.l.exists(x, x == g))`,
		`[object.l.exists(x, x) && dryRun, true].all(v, v)`:                         `[dryRun && object.l.exists(x, x), true].all(v, v)`,
		`{"a": object.l.exists(x, x) || dryRun}["a"]`:                               `{"a": dryRun || object.l.exists(x, x)}["a"]`,
	} {
		expression := compilers.Compiled(t, compiler, text)
		got := expression.TextIteratingLast(cel.Object)
		if got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
		if _, err := compiler.Compile(got); err != nil {
			t.Errorf("%s: %v", got, err)
		}
		if expression.Text() != text {
			t.Errorf("%s: the expression has become %s", text, expression.Text())
		}
	}
}
