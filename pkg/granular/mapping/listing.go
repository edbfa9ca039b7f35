/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Listed is the permission that a field needs, in a form for documents (KEP-3617, "Style Guide": "list the
// permissions both with the fields they guard, as well as in a standalone list").
type Listed struct {
	// Resource is the resource that has the field. If the resource is empty the permission is for every resource, and
	// if the version is empty for every version.
	Resource schema.GroupVersionResource
	// Field is the path of the field.
	Field string
	// Verb is the verb that the user needs, with an ellipsis for the parameter.
	Verb string
	// Parameter says what the parameter is; empty if there is none.
	Parameter string
	// Excluded says that permission on the whole object does not suffice.
	Excluded bool
}

// ListBuiltIn returns the built-in permissions.
func ListBuiltIn() []Listed {
	var list []Listed
	rules := compiledBuiltIn()
	for i := range rules.everywhere {
		list = append(list, rules.everywhere[i].listed(schema.GroupVersionResource{}))
	}
	for i := range rules.pods {
		list = append(list, rules.pods[i].listed(pods.WithVersion("")))
	}
	return list
}

// List returns the permissions that schemas give fields, ordered by kind and path.
func (m *Markers) List() []Listed {
	var list []Listed
	for _, marked := range m.rules {
		list = append(list, marked.rule.listed(marked.resource))
	}
	return list
}

func (r *Rule) listed(of schema.GroupVersionResource) Listed {
	l := Listed{Resource: of, Field: r.pattern.String(), Verb: verbOf(r.permission), Excluded: r.excluded}
	if r.parameter != nil {
		l.Verb = parameterizedVerbOf(r.permission, "…")
		l.Parameter = r.parameter.describe(r.pattern)
	}
	return l
}

// describe returns a text that says from which key of the pattern a parameter is derived, and how.
func (p *parameter) describe(in pattern) string {
	text := "the key"
	if p.key != "" {
		text = fmt.Sprintf("the key `%s`", p.key)
	}
	if p.step != in.lastAny() {
		text += fmt.Sprintf(" of `%s`", in[:p.step+1])
	}
	switch p.treatment {
	case slashDelimitedPrefix:
		text += ", up to its first slash"
	case computed:
		text += fmt.Sprintf(", by `%s`", p.expression.text)
	case verbatim:
	}
	return text
}
