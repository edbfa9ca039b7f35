/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"fmt"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

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
	addRequestFields(fields, n)
	return fields
}

func addRequestFields(fields *bound.Fields, n *node) {
	if !n.free[string(cel.Request)] {
		return
	}
	if path, ok := requestPath(n); ok {
		fields.Add(path)
		return
	}
	if n.target != nil {
		addRequestFields(fields, n.target)
	}
	for _, arg := range n.args {
		addRequestFields(fields, arg)
	}
}

// requestPath returns the names of the fields that a node selects from request, one inside the other. It returns false if the
// node is anything but a selection from request, or request itself.
func requestPath(n *node) ([]string, bool) {
	switch {
	case n.kind == variableNode:
		return nil, n.name == string(cel.Request)
	case n.kind == selectNode:
		path, ok := requestPath(n.target)
		return append(path, n.name), ok
	case n.kind == callNode && n.name == operators.OptSelect:
		path, ok := requestPath(n.args[0])
		return append(path, string(n.args[1].value.(types.String))), ok
	}
	return nil, false
}
