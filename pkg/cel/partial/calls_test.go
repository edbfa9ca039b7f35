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

// TestPartialChecksForOthers has conditions of a policy of the namespace demo.
func TestPartialChecksForOthers(t *testing.T) {
	t.Parallel()
	compiler, err := partial.NewPolicyCompiler(compilers.Conditions(t))
	if err != nil {
		t.Fatal(err)
	}
	const check = `.group("").resource("pods").check("get").allowed()`
	for _, tc := range []struct {
		name      string
		condition string
		variables []cel.NamedExpression
		// want is for the namespace, and wantOfCluster for a policy without namespace.
		want, wantOfCluster bool
	}{
		{name: "no check", condition: `object.spec.serviceAccount == "x"`},
		{name: "a check of the user", condition: `authorizer` + check},
		{name: "a check about another namespace", condition: `authorizer.group("").resource("pods").namespace("kube-system").check("get").allowed()`},
		{name: "the own namespace", condition: `authorizer.serviceAccount("demo", "x")` + check, wantOfCluster: true},
		{name: "the own namespace, any account", condition: `authorizer.serviceAccount("demo", object.spec.account)` + check, wantOfCluster: true},
		{name: "the namespace of the request", condition: `authorizer.serviceAccount(request.namespace, "x")` + check, wantOfCluster: true},
		{name: "another namespace", condition: `authorizer.serviceAccount("kube-system", "x")` + check, want: true, wantOfCluster: true},
		{name: "no namespace", condition: `authorizer.serviceAccount("", "x")` + check, want: true, wantOfCluster: true},
		{name: "the namespace of the object", condition: `authorizer.serviceAccount(object.metadata.namespace, "x")` + check, want: true, wantOfCluster: true},
		{name: "another field of the request", condition: `authorizer.serviceAccount(request.name, "x")` + check, want: true, wantOfCluster: true},
		{name: "the field of another variable", condition: `authorizer.serviceAccount(object.namespace, "x")` + check, want: true, wantOfCluster: true},
		{name: "a name in the metadata of the namespace", condition: `authorizer.serviceAccount(namespaceObject.metadata.name, "x")` + check, want: true, wantOfCluster: true},
		{name: "a joined text", condition: `authorizer.serviceAccount("de" + "mo", "x")` + check, want: true, wantOfCluster: true},
		{name: "one of two", condition: `authorizer.serviceAccount(dryRun ? "demo" : "kube-system", "x")` + check, want: true, wantOfCluster: true},
		{name: "a second call", condition: `authorizer.serviceAccount("demo", "x")` + check + ` && authorizer.serviceAccount("other", "x")` + check, want: true, wantOfCluster: true},
		{name: "in a macro", condition: `object.spec.all(x, authorizer.serviceAccount("other", x)` + check + `)`, want: true, wantOfCluster: true},
		{name: "in the range of a macro", condition: `[authorizer.serviceAccount("other", "x")` + check + `].exists(x, x)`, want: true, wantOfCluster: true},
		{name: "an element of a list", condition: `["kube-system"].exists(n, authorizer.serviceAccount(n, "x")` + check + `)`, want: true, wantOfCluster: true},
		{name: "an authorizer in a list", condition: `[authorizer].exists(a, a.serviceAccount("other", "x")` + check + `)`, want: true, wantOfCluster: true},
		{name: "in a map", condition: `{"a": authorizer.serviceAccount("other", "x")` + check + `}.a`, want: true, wantOfCluster: true},
		{name: "in an argument", condition: `authorizer.group(string(authorizer.serviceAccount("other", "x")` + check + `)).resource("pods").check("get").allowed()`, want: true, wantOfCluster: true},
		{name: "an authorizer in a variable", condition: `variables.robot` + check, variables: []cel.NamedExpression{{Name: "robot", Expression: `authorizer.serviceAccount("kube-system", "x")`}}, want: true, wantOfCluster: true},
		{name: "a namespace in a variable", condition: `authorizer.serviceAccount(variables.where, "x")` + check, variables: []cel.NamedExpression{{Name: "where", Expression: `"kube-system"`}}, want: true, wantOfCluster: true},
		{name: "the own namespace in a variable", condition: `authorizer.serviceAccount(variables.where, "x")` + check, variables: []cel.NamedExpression{{Name: "where", Expression: `request.namespace`}}, wantOfCluster: true},
		{name: "a variable that nothing reads", condition: `true`, variables: []cel.NamedExpression{{Name: "unread", Expression: `authorizer.serviceAccount("kube-system", "x")` + check}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			expression, err := compiler.CompileWithVariables(tc.variables, tc.condition)
			if err != nil {
				t.Fatal(err)
			}
			if got, ofCluster := expression.ChecksForOthers("demo"), expression.ChecksForOthers(""); got != tc.want || ofCluster != tc.wantOfCluster {
				t.Errorf("got %t, and %t without a namespace, want %t and %t", got, ofCluster, tc.want, tc.wantOfCluster)
			}
		})
	}
}
