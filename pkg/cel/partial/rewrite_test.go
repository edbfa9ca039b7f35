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

func TestRewritten(t *testing.T) {
	compiler, err := partial.NewPolicyCompiler(compilers.Conditions(t))
	if err != nil {
		t.Fatal(err)
	}
	rewrite := func(r partial.Reading) (string, int) {
		switch {
		case r.Variable == cel.Operation:
			return `"CREATE"`, 0
		case r.Variable == cel.Request && len(r.Fields) > 0 && r.Fields[0] == "name":
			return "request.name", 1
		case r.Variable == cel.Request && len(r.Fields) > 1 && r.Fields[1] == "extra":
			return "has(request.userInfo.extra) ? request.userInfo.extra : {}", 2
		case r.Variable == cel.Request && r.IsTest && len(r.Fields) == 2:
			return "true", 2
		case r.Variable == cel.DryRun:
			return "request.a || request.b", 0
		}
		return "", 0
	}
	for text, want := range map[string]string{
		`operation == "UPDATE"`:                                           `("CREATE") == "UPDATE"`,
		`request.name.startsWith("a")`:                                    `request.name.startsWith("a")`,
		`!dryRun`:                                                         `!(request.a || request.b)`,
		`request.userInfo.extra.a.size() == 1`:                            `(has(request.userInfo.extra) ? request.userInfo.extra : {}).a.size() == 1`,
		`has(request.userInfo.extra.a)`:                                   `has((has(request.userInfo.extra) ? request.userInfo.extra : {}).a)`,
		`request.?name.orValue("") == "a"`:                                `(optional.of(request.name)).orValue("") == "a"`,
		`request.userInfo.?extra.a.hasValue()`:                            `(optional.of(has(request.userInfo.extra) ? request.userInfo.extra : {})).a.hasValue()`,
		`request.userInfo.extra.?a.hasValue()`:                            `(has(request.userInfo.extra) ? request.userInfo.extra : {}).?a.hasValue()`,
		`object.metadata.?labels.?tier.orValue("") == "a"`:                `object.metadata.?labels.?tier.orValue("") == "a"`,
		`has(request.userInfo.uid)`:                                       `true`,
		`object.items.exists(operations, operations.name == operation)`:   `object.items.exists(operations, operations.name == ("CREATE"))`,
		`object.name == "operation" && object.operation == object.dryRun`: `object.name == "operation" && object.operation == object.dryRun`,
	} {
		expression := compilers.Compiled(t, compiler, text)
		if got := expression.Rewritten(rewrite); got != want {
			t.Errorf("%s: rewritten to %s, want %s", text, got, want)
		}
		if got := expression.Text(); got != text {
			t.Errorf("%s: the expression has become %s", text, got)
		}
	}
}

func TestMayQuote(t *testing.T) {
	compiler, err := partial.NewPolicyCompiler(compilers.Conditions(t))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`object.a == "a" && oldObject.b in ["b"] || !(oldObject.c < 3)`:                     "",
		`oldObject.labels["tier"] == "prod"`:                                                "",
		`oldObject.labels[oldObject.key] == "prod"`:                                         "[]",
		`oldObject.labels[request.name] == "prod"`:                                          "",
		`{"a": "b"}[oldObject.key] == "prod"`:                                               "[]",
		`int(oldObject.number) > 3`:                                                         "int",
		`int(request.name) > 3`:                                                             "",
		`oldObject.name.matches("a+")`:                                                      "",
		`request.name.matches(oldObject.pattern)`:                                           "matches",
		`oldObject.items.exists(x, int(x) > 3)`:                                             "int",
		`oldObject.items.exists(x, x.name == "a")`:                                          "",
		`oldObject.items.all(i, x, oldObject.others[i] == x)`:                               "[]",
		`[1, 2].exists(x, oldObject.items[x] == 3)`:                                         "",
		`{oldObject.a: 1, oldObject.b: 2}.size() == 2`:                                      "{}",
		`oldObject.items.transformMapEntry(k, v, {v: k}).size() == 1`:                       "transformMapEntry",
		`quantity(oldObject.memory).isGreaterThan(quantity("1Gi"))`:                         "isGreaterThan",
		`timestamp(oldObject.time) > timestamp("2026-01-01T00:00:00Z")`:                     "timestamp",
		`oldObject.?labels[?"tier"].orValue("") == "prod"`:                                  "",
		`authorizer.group("").resource("pods").name(oldObject.name).check("get").allowed()`: "",
	} {
		expression := compilers.Compiled(t, compiler, text)
		if got := expression.MayQuote(cel.OldObject); got != want {
			t.Errorf("%s: %q may quote, want %q", text, got, want)
		}
	}
}
