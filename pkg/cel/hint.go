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

// The messages of the type checker that get hints. If it words them in another way, they get none.
var (
	undeclared = regexp.MustCompile(`undeclared reference to '([^']*)' \(in container ''\)`)
	undefined  = regexp.MustCompile(`undefined field '([^']*)'`)
)

// policyVariables are the variables of policies, as messages list them. The variables of impersonation are left out: they
// exist for few requests only.
var policyVariables = []Variable{Request, Object, OldObject, Operation, Options, DryRun, NamespaceObject, Authorizer, Variables}

// DescribeVariables adds to the message of a compiler of policies which variables there are, and which names are near to names
// that there are not.
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

// describeFields adds to the message of a type checker which fields, or which variables, are near to fields that there are
// not.
func describeFields(message string, fields, variables []string) string {
	return undefined.ReplaceAllStringFunc(message, func(match string) string {
		name := undefined.FindStringSubmatch(match)[1]
		if slices.Contains(variables, name) {
			return match + ", did you mean the variable '" + name + "'?"
		}
		return match + nearNames(name, fields)
	})
}

// nearNames returns a hint at names that are similar, or nothing.
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
