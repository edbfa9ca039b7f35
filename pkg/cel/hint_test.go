/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel_test

import (
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// TestDescribeVariables asks what the compiler of policies says about names that there are not.
func TestDescribeVariables(t *testing.T) {
	t.Parallel()
	conditions := compilers.Conditions(t)
	compiler, err := partial.NewPolicyCompiler(conditions)
	if err != nil {
		t.Fatal(err)
	}
	const variables = "; the variables are request, object, oldObject, operation, options, dryRun, namespaceObject, authorizer, variables"
	for condition, want := range map[string]string{
		`user == "a"`:                      "undeclared reference to 'user'" + variables,
		`Object.a == 1`:                    "undeclared reference to 'Object', did you mean 'object'?" + variables,
		`oldobject.a == 1 && x.y`:          "1:1: undeclared reference to 'oldobject', did you mean 'oldObject'?; ERROR: <input>:1:21: undeclared reference to 'x'" + variables,
		`request.user.username == "a"`:     "undefined field 'user', did you mean 'userInfo' or 'username'?",
		`request.username == "a"`:          "undefined field 'username'",
		`request.operation == "CREATE"`:    "undefined field 'operation', did you mean the variable 'operation'?",
		`request.userinfo.username == ""`:  "undefined field 'userinfo', did you mean 'userInfo'?",
		`request.userInfo.userName == ""`:  "undefined field 'userName', did you mean 'username'?",
		`namespaceObject.metadata.label.a`: "undefined field 'label', did you mean 'labelSelector' or 'labels'?",
		`request.verb == 1`:                "found no matching overload for '_==_' applied to '(string, int)'",
	} {
		_, err := compiler.Compile(condition)
		if err == nil {
			t.Fatalf("%s compiles", condition)
		}
		if got := cel.DescribeVariables(err.Error()); !strings.HasSuffix(got, want) {
			t.Errorf("%s: got %s\nwant %s", condition, got, want)
		}
	}
}
