/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package bound

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
)

// document is the JSON form of a bound condition.
type document struct {
	Expression string         `json:"expression"`
	Request    map[string]any `json:"request"`
}

// Form is the part of a bound condition that is the same for all requests: the text of the expression, and the names of the
// fields of request that the expression reads. It compiles nothing. It is immutable and safe for concurrent use.
type Form struct {
	expression string
	reads      *Fields
}

// NewForm returns the form of an expression, which must compile in the environment of policies. reads are the fields of request
// that the expression reads. The form keeps reads: the caller must not change them afterwards.
func NewForm(expression string, reads *Fields) *Form {
	return &Form{expression: expression, reads: reads}
}

// Bind returns the bound condition for the known data of a request, as decoded from JSON. Data that
// does not have the declared types of the fields of a request, or a result longer than
// cel.MaxExpressionBytes, is an error.
func (f *Form) Bind(request map[string]any) (string, error) {
	room := cel.MaxExpressionBytes
	data, err := f.reads.of(request, cel.RequestType(), &room)
	if err != nil {
		return "", fmt.Errorf("the bound form cannot be expressed: request%w", err)
	}
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(document{Expression: f.expression, Request: data.(map[string]any)}); err != nil {
		return "", fmt.Errorf("the bound form cannot be expressed: %w", err)
	}
	result := strings.TrimSuffix(b.String(), "\n")
	if len(result) > cel.MaxExpressionBytes {
		return "", fmt.Errorf("the bound form cannot be expressed: it%w", errTooLong)
	}
	return result, nil
}

// Fields are the fields of request that an expression reads. The zero value has none.
type Fields struct {
	all    bool
	byName map[string]*Fields
}

// Add adds the field at a path of names, which begins with a field of request. If the path is empty, all of request is
// added. If the path leads to a field that is not declared, the declared object around this field is added.
func (f *Fields) Add(path []string) { f.add(path, cel.RequestType()) }

// Has reports whether the field at a path, which begins with a field of request, or a part of it, has been added.
func (f *Fields) Has(path ...string) bool {
	if len(path) == 0 || f.all {
		return true
	}
	sub := f.byName[path[0]]
	return sub != nil && sub.Has(path[1:]...)
}

func (f *Fields) add(path []string, t *apiservercel.DeclType) {
	if len(path) == 0 || !t.IsObject() {
		//guard:bound-whole-objects
		f.all = true
		return
	}
	declared, ok := t.Fields[path[0]]
	if !ok {
		f.all = true
		return
	}
	if f.byName == nil {
		f.byName = map[string]*Fields{}
	}
	if f.byName[path[0]] == nil {
		f.byName[path[0]] = &Fields{}
	}
	f.byName[path[0]].add(path[1:], declared.Type)
}

// of returns a copy of a value of type t with the fields in f only. A field that is missing in the value is missing in the
// result, so that the evaluation of the condition has the same error. It returns the errors of conform.
func (f *Fields) of(value any, t *apiservercel.DeclType, room *int) (any, error) {
	if f.all || !t.IsObject() {
		return conform(value, t, room)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New(" is no object")
	}
	result := map[string]any{}
	for name, sub := range f.byName {
		member, ok := object[name]
		if !ok {
			continue
		}
		part, err := sub.of(member, t.Fields[name].Type, room)
		if err != nil {
			return nil, fmt.Errorf(".%s%w", name, err)
		}
		result[name] = part
	}
	return result, nil
}

var errTooLong = fmt.Errorf(" is longer than %d bytes", cel.MaxExpressionBytes)

// conform returns a copy of a value, or an error if the value is not of the type t. The types of request consist of strings,
// lists, maps and objects. Nil lists and maps become empty ones. conform subtracts a lower bound of the length of the value's
// text from room, and returns errTooLong when there is no room left.
func conform(value any, t *apiservercel.DeclType, room *int) (any, error) {
	if *room--; *room < 0 {
		return nil, errTooLong
	}
	switch v := value.(type) {
	case string:
		*room -= len(v)
		switch {
		case *room < 0:
			return nil, errTooLong
		case t != apiservercel.StringType:
			return nil, errors.New(" must not be a string")
		case !utf8.ValidString(v):
			return nil, errors.New(" is not UTF-8")
		}
		return v, nil
	case []any:
		return conformList(v, t, room)
	case map[string]any:
		return conformMap(v, t, room)
	}
	return nil, errors.New(" is neither string, list nor object")
}

func conformList(list []any, t *apiservercel.DeclType, room *int) (any, error) {
	if !t.IsList() {
		return nil, errors.New(" must not be a list")
	}
	result := make([]any, 0, min(len(list), max(*room, 0)))
	for _, element := range list {
		element, err := conform(element, t.ElemType, room)
		if err != nil {
			return nil, err
		}
		result = append(result, element)
	}
	return result, nil
}

func conformMap(object map[string]any, t *apiservercel.DeclType, room *int) (any, error) {
	if !t.IsObject() && !t.IsMap() {
		return nil, errors.New(" must not be an object")
	}
	result := map[string]any{}
	for name, member := range object {
		*room -= len(name)
		element := t.ElemType
		if t.IsObject() {
			declared, ok := t.Fields[name]
			if !ok {
				return nil, fmt.Errorf(" must not have the field %q", engine.Shorten(name))
			}
			element = declared.Type
		}
		if !utf8.ValidString(name) {
			return nil, errors.New(" has a key that is not UTF-8")
		}
		member, err := conform(member, element, room)
		if err != nil {
			return nil, fmt.Errorf(".%s%w", engine.Shorten(name), err)
		}
		result[name] = member
	}
	return result, nil
}
