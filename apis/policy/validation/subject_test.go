/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package validation_test

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/proviso-authz/proviso/apis/policy"
)

func TestValidateSubjects(t *testing.T) {
	t.Parallel()
	many := func(n int) []rbacv1.Subject {
		var result []rbacv1.Subject
		for i := range n {
			result = append(result, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: fmt.Sprintf("u%d", i)})
		}
		return result
	}
	one := func(s rbacv1.Subject) func(*spec) {
		return func(p *spec) { p.Subjects = []rbacv1.Subject{s} }
	}
	checkSpecs(t, []specCase{
		{"omitted", func(s *spec) { s.Effect, s.Subjects = "Deny", nil }, nil},
		{"omitted from an Allow policy", func(s *spec) { s.Subjects = nil }, []string{"spec.subjects: Required value: an Allow policy must name its subjects"}},
		{"empty in an Allow policy", func(s *spec) { s.Subjects = []rbacv1.Subject{} }, []string{"spec.subjects: Required value: an Allow policy must name its subjects"}},
		{"empty", func(s *spec) { s.Effect, s.Subjects = "NoOpinion", []rbacv1.Subject{} }, []string{`spec.subjects: Invalid value: "[]": must not be empty: omit it to match`}},
		{"as many as possible", func(s *spec) { s.Subjects = many(256) }, nil},
		{"too many", func(s *spec) { s.Subjects = many(257) }, []string{"spec.subjects: Too many: 257"}},
		{"the same twice", func(s *spec) { s.Subjects = append(many(1), many(1)...) }, []string{`spec.subjects[1]: Duplicate value: "User u0"`}},
		{"a user and a group of the same name", func(s *spec) {
			s.Subjects = append(many(1), rbacv1.Subject{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "u0"})
		}, nil},
		{"nothing", one(rbacv1.Subject{}), []string{"spec.subjects[0].kind: Required"}},
		{"another kind", one(rbacv1.Subject{Kind: "Robot", Name: "r"}), []string{`spec.subjects[0].kind: Unsupported value: "Robot": supported values: "User", "Group", "ServiceAccount"`}},
		{"a user without name", one(rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName}), []string{"spec.subjects[0].name: Required"}},
		{"a group without name", one(rbacv1.Subject{Kind: "Group", APIGroup: rbacv1.GroupName}), []string{"spec.subjects[0].name: Required"}},
		{"the longest name", one(rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: strings.Repeat("x", 1024)}), nil},
		{"too long a name", one(rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: strings.Repeat("x", 1025)}), []string{"spec.subjects[0].name: Too long"}},
		{"a user without group", one(rbacv1.Subject{Kind: "User", Name: "u"}), []string{`spec.subjects[0].apiGroup: Unsupported value: "": supported values: "rbac.authorization.k8s.io"`}},
		{"a group of another API group", one(rbacv1.Subject{Kind: "Group", APIGroup: "apps", Name: "g"}), []string{"spec.subjects[0].apiGroup: Unsupported"}},
		{"a user in a namespace", one(rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "u", Namespace: "n"}), []string{"spec.subjects[0].namespace: Forbidden"}},
		{"a service account without name", one(rbacv1.Subject{Kind: "ServiceAccount", Namespace: "n"}), []string{"spec.subjects[0].name: Required"}},
		{"a service account without namespace", one(rbacv1.Subject{Kind: "ServiceAccount", Name: "s"}), []string{"spec.subjects[0].namespace: Required"}},
		{"a service account of an API group", one(rbacv1.Subject{Kind: "ServiceAccount", APIGroup: rbacv1.GroupName, Name: "s", Namespace: "n"}), []string{"spec.subjects[0].apiGroup: Unsupported"}},
		{"a service account with bad names", one(rbacv1.Subject{Kind: "ServiceAccount", Name: "S!", Namespace: "n.m"}),
			[]string{"spec.subjects[0].name: Invalid", "spec.subjects[0].namespace: Invalid"}},
	})
}

func TestValidateVariables(t *testing.T) {
	t.Parallel()
	many := func(n int) []policy.Variable {
		var result []policy.Variable
		for i := range n {
			result = append(result, policy.Variable{Name: fmt.Sprintf("v%d", i), Expression: "1"})
		}
		return result
	}
	named := func(name string) func(*spec) {
		return func(s *spec) { s.Variables = []policy.Variable{{Name: name, Expression: "1"}} }
	}
	cases := []specCase{
		{"none", func(s *spec) { s.Variables = nil }, nil},
		{"as many as possible", func(s *spec) { s.Variables = many(64) }, nil},
		{"too many", func(s *spec) { s.Variables = many(65) }, []string{"spec.variables: Too many: 65"}},
		{"the same twice", func(s *spec) { s.Variables = append(many(1), many(1)...) }, []string{"spec.variables[1].name: Duplicate"}},
		{"an underscore first", named("_a1"), nil},
		{"no name", named(""), []string{"spec.variables[0].name: Required"}},
		{"too long a name", named(strings.Repeat("x", 254)), []string{"spec.variables[0].name: Too long"}},
		{"a hyphen", named("a-b"), []string{"spec.variables[0].name: Invalid value: \"a-b\": must be a CEL identifier"}},
		{"a digit first", named("1a"), []string{"spec.variables[0].name: Invalid"}},
		{"a dot", named("a.b"), []string{"spec.variables[0].name: Invalid"}},
		{"a letter that is none in CEL", named("ä"), []string{"spec.variables[0].name: Invalid"}},
		{"a name with a line feed", named("a\n"), []string{"spec.variables[0].name: Invalid"}},
		{"no expression", func(s *spec) { s.Variables[0].Expression = "" }, []string{"spec.variables[0].expression: Required"}},
		{"a blank expression", func(s *spec) { s.Variables[0].Expression = " \n\t" }, []string{"spec.variables[0].expression: Required"}},
		{"the longest expression", func(s *spec) { s.Variables[0].Expression = strings.Repeat("x", 10240) }, nil},
		{"too long an expression", func(s *spec) { s.Variables[0].Expression = strings.Repeat("x", 10241) }, []string{"spec.variables[0].expression: Too long"}},
		{"expressions that are as long together as they may be", func(s *spec) { setTotal(s, 20480) }, nil},
		{"expressions that are too long together", func(s *spec) { setTotal(s, 20481) }, []string{"spec.variables: Forbidden: the variables and the condition have 20481 bytes together, where 20480 are allowed"}},
		{"nothing that reads them", func(s *spec) { s.Condition = "" }, []string{"spec.condition: Required value: nothing else reads variables"}},
	}
	for _, word := range strings.Fields("true false null in as break const continue else for function if import let loop namespace package return var void while") {
		cases = append(cases, specCase{"the reserved word " + word, named(word), []string{fmt.Sprintf("spec.variables[0].name: Invalid value: %q: is a reserved word", word)}})
	}
	checkSpecs(t, cases)
}

// setTotal sets three expressions that have a number of bytes together.
func setTotal(s *spec, bytes int) {
	s.Variables = []policy.Variable{{Name: "a", Expression: strings.Repeat("x", 10240)}, {Name: "b", Expression: strings.Repeat("x", 100)}}
	s.Condition = strings.Repeat("x", bytes-10340)
}

func TestValidateCondition(t *testing.T) {
	t.Parallel()
	checkSpecs(t, []specCase{
		{"omitted", func(s *spec) { s.Variables, s.Condition = nil, "" }, nil},
		{"blank", func(s *spec) { s.Condition = " \n" }, []string{`spec.condition: Invalid value: " \n": must not be blank: omit it`}},
		{"the longest", func(s *spec) { s.Condition = strings.Repeat("x", 10240) }, nil},
		{"too long", func(s *spec) { s.Condition = strings.Repeat("x", 10241) }, []string{"spec.condition: Too long"}},
		{"what does not compile, which others find out", func(s *spec) { s.Condition = "object." }, nil},
	})
}
