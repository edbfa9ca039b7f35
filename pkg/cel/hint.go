/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/proviso-authz/proviso/pkg/suggestion"
)

// The messages of the type checker to which hints are added. A message with another text gets no hint.
var (
	undeclared = regexp.MustCompile(`undeclared reference to '([^']*)' \(in container ''\)`)
	undefined  = regexp.MustCompile(`undefined field '([^']*)'`)
)

// policyVariables are the variables of policies, as messages list them. The variables of impersonation are left out: they
// exist for few requests only.
var policyVariables = []Variable{Request, Object, OldObject, Operation, Options, DryRun, NamespaceObject, Authorizer, Variables}

// DescribeVariables adds hints to a message of the compiler of policies. After an undeclared variable or an undefined field it
// inserts similar names, and after a message about an undeclared variable it lists all variables. Other messages are returned
// unchanged.
func DescribeVariables(message string) string {
	var names []string
	for _, v := range policyVariables {
		names = append(names, string(v))
	}
	message = undeclared.ReplaceAllStringFunc(message, func(match string) string {
		name := undeclared.FindStringSubmatch(match)[1]
		return "undeclared reference to '" + name + "'" + nearNames(name, names)
	})
	if strings.Contains(message, "undeclared reference to '") {
		message += "; the variables are " + strings.Join(names, ", ")
	}
	return describeFields(message, slices.Concat(fieldNames(requestType), fieldNames(namespaceType)), names)
}

// describeFields inserts a hint after each undefined field in a message of the type checker: the variable with the same name,
// if there is one, or else similar names of fields.
func describeFields(message string, fields, variables []string) string {
	return undefined.ReplaceAllStringFunc(message, func(match string) string {
		name := undefined.FindStringSubmatch(match)[1]
		if slices.Contains(variables, name) {
			return match + ", did you mean the variable '" + name + "'?"
		}
		return match + nearNames(name, fields)
	})
}

// nearNames returns a hint with the candidates that are similar to name, or nothing if no candidate is.
func nearNames(name string, candidates []string) string {
	near := suggestion.Near(name, candidates)
	if len(near) == 0 {
		return ""
	}
	return ", did you mean '" + strings.Join(near, "' or '") + "'?"
}

// fieldNames returns the names of all fields of an object and of the objects in it.
func fieldNames(t *apiservercel.DeclType) []string {
	names := map[string]bool{}
	addFieldNames(t, names)
	return slices.Sorted(maps.Keys(names))
}

func addFieldNames(t *apiservercel.DeclType, names map[string]bool) {
	switch {
	case t.IsList() || t.IsMap():
		addFieldNames(t.ElemType, names)
	case t.IsObject():
		for name, f := range t.Fields {
			names[name] = true
			addFieldNames(f.Type, names)
		}
	}
}
