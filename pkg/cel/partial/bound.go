/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"fmt"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/bound"
)

// Bound returns the bound condition of the expression (package bound) for the known data of a request,
// as decoded from JSON. Data that does not have the declared types of the fields of a request, or a
// result longer than cel.MaxExpressionBytes, is an error.
func (e *Expression) Bound(request map[string]any) (string, error) {
	form, err := e.boundForm()
	if err != nil {
		return "", err
	}
	return form.Bind(request)
}

// boundForm returns the bound form of the expression, or an error if the text of the whole expression does not compile, for
// example because it is too long.
func (e *Expression) boundForm() (*bound.Form, error) {
	e.boundOnce.Do(func() {
		if _, err := e.compiler.Compile(e.Text()); err != nil {
			e.boundErr = fmt.Errorf("the bound form cannot be expressed: %w", err)
			return
		}
		e.bound = bound.NewForm(e.Text(), requestFields(e.tree))
	})
	return e.bound, e.boundErr
}

// ReadsRequestField reports whether the value of the expression may depend on the field of request with the given name, or on the field
// inside it that further names lead to.
func (e *Expression) ReadsRequestField(name string, inside ...string) bool {
	return requestFields(e.tree).Has(append([]string{name}, inside...)...)
}

// requestFields returns the fields of request that an expression reads.
func requestFields(n *node) *bound.Fields {
	fields := &bound.Fields{}
	eachRead(n, nil, func(variable *node, path []string) {
		if variable.name == string(cel.Request) {
			fields.Add(path)
		}
	})
	return fields
}
