/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy_test

import (
	"fmt"
	"strings"
	"testing"

	api "github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/policy"
)

func newChecker(t *testing.T) *policy.Checker {
	t.Helper()
	conditions, err := cel.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	compiler, err := cel.NewPolicyCompiler(conditions)
	if err != nil {
		t.Fatal(err)
	}
	return policy.NewChecker(compiler)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	checker := newChecker(t)
	pods := api.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	versioned := pods
	versioned.APIVersions = []string{"v1"}
	paths := api.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}
	v := func(expressions ...string) []api.Variable {
		var result []api.Variable
		for i, e := range expressions {
			result = append(result, api.Variable{Name: fmt.Sprintf("v%d", i), Expression: e})
		}
		return result
	}
	const version = "apiVersions: the condition reads an object"
	for _, tc := range []struct {
		name         string
		rules        []api.PolicyRule
		variables    []api.Variable
		condition    string
		wantWarnings []string
		want         string // the beginning of the error
	}{
		{"no condition", []api.PolicyRule{pods}, nil, "", nil, ""},
		{"a condition on the request", []api.PolicyRule{pods}, v("request.name"), `variables.v0 == "a"`, nil, ""},
		{"a condition on the object", []api.PolicyRule{versioned, paths}, nil, `has(object.a)`, nil, ""},
		{"without versions", []api.PolicyRule{versioned, pods, paths, pods}, nil, `has(object.a)`, []string{"spec.rules[1]." + version, "spec.rules[3]." + version}, ""},
		{"of the old object", []api.PolicyRule{pods}, nil, `has(oldObject.a)`, []string{"spec.rules[0]." + version}, ""},
		{"in a variable", []api.PolicyRule{pods}, v("object", "has(variables.v0.a)"), `variables.v1`, []string{"spec.rules[0]." + version}, ""},
		{"a variable that nothing reads", []api.PolicyRule{pods}, v("object"), `true`, nil, ""},
		{"a mistake in the condition", []api.PolicyRule{pods}, v("object"), `variables.v0 &&`, nil, `spec.condition: Invalid value: "variables.v0 &&": expression does not compile: ERROR: <input>:1:16`},
		{"no bool", []api.PolicyRule{pods}, nil, `"a"`, nil, `spec.condition: Invalid value: "\"a\"": expression does not compile: it must yield bool, but yields string`},
		{"an unknown variable", []api.PolicyRule{pods}, v("1"), `variables.v1 == 1`, nil, `spec.condition: Invalid`},
		{"a mistake in the first variable", []api.PolicyRule{pods}, v("object.", "1", "2"), `true`, nil, `spec.variables[0].expression: Invalid value: "object.": variable "v0": expression does not compile: ERROR: <input>:1:8`},
		{"a mistake in the last variable", []api.PolicyRule{pods}, v("1", "2", "object."), `true`, nil, `spec.variables[2].expression: Invalid`},
		{"two mistakes", []api.PolicyRule{pods}, v("1", "a +", "b +", "2"), `c +`, nil, `spec.variables[1].expression: Invalid value: "a +"`},
		{"a variable that reads those after it", []api.PolicyRule{pods}, v("variables.v1", "2"), `true`, nil, `spec.variables[0].expression: Invalid`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			warnings, errs := checker.Check(&api.AuthorizationPolicySpec{Rules: tc.rules, Variables: tc.variables, Condition: tc.condition})
			if len(warnings) != len(tc.wantWarnings) {
				t.Fatalf("got warnings %q, want %q", warnings, tc.wantWarnings)
			}
			for i := range warnings {
				if !strings.HasPrefix(warnings[i], tc.wantWarnings[i]) {
					t.Errorf("got warning %q, want %q", warnings[i], tc.wantWarnings[i])
				}
			}
			switch {
			case tc.want == "" && len(errs) > 0:
				t.Errorf("got %v, want no error", errs)
			case tc.want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), tc.want)):
				t.Errorf("got  %v\nwant %s", errs, tc.want)
			}
		})
	}
}
