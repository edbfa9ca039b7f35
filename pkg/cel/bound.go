/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// A bound condition is a whole expression together with what is known of a request: the
// fields that the expression reads. All conditions of one policy share one program, where
// each residual is compiled by itself. It shows the expression, so it is for those who may
// read it.
//
// Its text is the JSON object {"expression": …, "request": {…}}, with keys in order and
// without spaces: the same data have the same text.
type bound struct {
	Expression string         `json:"expression"`
	Request    map[string]any `json:"request"`
}

// Bound returns the bound form of the expression for what is known of a request, as it is
// decoded from JSON. Data that is not as the fields of a request are declared, or a result
// longer than MaxExpressionBytes, is an error.
func (e *Expression) Bound(request map[string]any) (string, error) {
	text, reads, err := e.boundText()
	if err != nil {
		return "", err
	}
	room := MaxExpressionBytes
	data, err := reads.of(request, requestType, &room)
	if err != nil {
		return "", fmt.Errorf("the bound form cannot be expressed: request%w", err)
	}
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(bound{Expression: text, Request: data.(map[string]any)}); err != nil {
		return "", fmt.Errorf("the bound form cannot be expressed: %w", err)
	}
	result := strings.TrimSuffix(b.String(), "\n")
	if len(result) > MaxExpressionBytes {
		return "", fmt.Errorf("the bound form cannot be expressed: it%w", errBoundTooLong)
	}
	return result, nil
}

// boundText returns the text of the expression, once it is sure that others can compile
// it, and which fields of request it reads.
func (e *Expression) boundText() (string, *fields, error) {
	e.boundOnce.Do(func() {
		if _, err := e.compiler.Compile(e.Text()); err != nil {
			e.boundErr = fmt.Errorf("the bound form cannot be expressed: %w", err)
		}
		e.boundFields = &fields{}
		e.boundFields.read(e.tree)
	})
	return e.Text(), e.boundFields, e.boundErr
}

// fields are the fields of a value that an expression reads.
type fields struct {
	all    bool
	byName map[string]*fields
}

// read adds what an expression reads of request.
func (f *fields) read(n *node) {
	if !n.free[string(Request)] {
		return
	}
	if path, ok := requestPath(n); ok {
		f.add(path, requestType)
		return
	}
	if n.target != nil {
		f.read(n.target)
	}
	for _, arg := range n.args {
		f.read(arg)
	}
}

// requestPath returns the names that a node selects from request, one after the other.
func requestPath(n *node) ([]string, bool) {
	switch {
	case n.kind == variableNode:
		return nil, n.name == string(Request)
	case n.kind == selectNode:
		path, ok := requestPath(n.target)
		return append(path, n.name), ok
	case n.kind == callNode && n.name == operators.OptSelect:
		path, ok := requestPath(n.args[0])
		return append(path, string(n.args[1].value.(types.String))), ok
	}
	return nil, false
}

func (f *fields) add(path []string, t *apiservercel.DeclType) {
	if len(path) == 0 || !t.IsObject() {
		f.all = true
		return
	}
	declared, ok := t.Fields[path[0]]
	if !ok {
		f.all = true
		return
	}
	if f.byName == nil {
		f.byName = map[string]*fields{}
	}
	if f.byName[path[0]] == nil {
		f.byName[path[0]] = &fields{}
	}
	f.byName[path[0]].add(path[1:], declared.Type)
}

// of returns the fields of a value. What is not there stays away, so that it is missing
// where the condition is evaluated, too.
func (f *fields) of(value any, t *apiservercel.DeclType, room *int) (any, error) {
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

var errBoundTooLong = fmt.Errorf(" is longer than %d bytes", MaxExpressionBytes)

// conform returns a copy of a value that is of a declared type of request, which has
// strings, lists, maps and objects. Nil lists and maps become empty ones. It takes from room
// what the value is long at least, and stops where there is none.
func conform(value any, t *apiservercel.DeclType, room *int) (any, error) {
	if *room--; *room < 0 {
		return nil, errBoundTooLong
	}
	switch v := value.(type) {
	case string:
		*room -= len(v)
		switch {
		case *room < 0:
			return nil, errBoundTooLong
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
				return nil, fmt.Errorf(" must not have the field %q", shorten(name))
			}
			element = declared.Type
		}
		if !utf8.ValidString(name) {
			return nil, errors.New(" has a key that is not UTF-8")
		}
		member, err := conform(member, element, room)
		if err != nil {
			return nil, fmt.Errorf(".%s%w", shorten(name), err)
		}
		result[name] = member
	}
	return result, nil
}

// BoundCompiler compiles bound conditions and keeps the programs, by the text of the
// expression. It is safe for concurrent use.
type BoundCompiler struct {
	expressions *Compiler
}

// NewBoundCompiler makes a BoundCompiler for the environment of policies.
func NewBoundCompiler() (*BoundCompiler, error) {
	expressions, err := newCompiler(requestVariables, unknownVariables)
	if err != nil {
		return nil, err
	}
	return &BoundCompiler{expressions: expressions}, nil
}

// BoundProgram is a compiled bound condition. It is immutable and safe for concurrent use.
type BoundProgram struct {
	program *Program
	request any
}

// Compile reads a bound condition. Unknown or repeated fields, data of another type than
// is declared, or anything after it, are errors, which wrap ErrCompile.
func (c *BoundCompiler) Compile(condition string) (*BoundProgram, error) {
	program, _, err := c.CompileWithCost(condition)
	return program, err
}

// CompileWithCost is Compile, and returns what compiling costs, as that of a Compiler does.
func (c *BoundCompiler) CompileWithCost(condition string) (*BoundProgram, uint64, error) {
	if len(condition) > MaxExpressionBytes {
		return nil, 0, fmt.Errorf("bound condition %w: it is longer than %d bytes", ErrCompile, MaxExpressionBytes)
	}
	decoded, err := decodeBound(condition)
	if err != nil {
		return nil, compileCost(condition), fmt.Errorf("bound condition %w: %s", ErrCompile, shorten(err.Error()))
	}
	program, cost, err := c.expressions.CompileWithCost(decoded.Expression)
	cost += uint64(len(condition)) / bytesPerUnit // decoding is not kept
	if err != nil {
		return nil, cost, fmt.Errorf("bound condition: %w", err)
	}
	return &BoundProgram{program: program, request: Known(decoded.Request)}, cost, nil
}

// Reads reports whether the value may depend on the variable.
func (p *BoundProgram) Reads(v Variable) bool { return p.program.Reads(v) }

// Eval evaluates the condition as Program.Eval does. Request is what the condition says,
// whatever the values are.
func (p *BoundProgram) Eval(ctx context.Context, values Values) (result bool, cost uint64, err error) {
	return p.program.eval(ctx, boundValues{Values: values, request: p.request})
}

// boundValues are values of which Request is that of a bound condition.
type boundValues struct {
	Values
	request any
}

var _ interpreter.Activation = boundValues{}

// ResolveName implements the interface through which CEL reads variables.
func (v boundValues) ResolveName(name string) (any, bool) {
	if name == string(Request) {
		return v.request, true
	}
	return v.Values.ResolveName(name)
}

// decodeBound reads a bound condition strictly.
func decodeBound(condition string) (decoded bound, err error) {
	if !utf8.ValidString(condition) {
		return bound{}, errors.New("it is not UTF-8")
	}
	d := boundDecoder{json.NewDecoder(strings.NewReader(condition))}
	value, err := d.object(func(name string) (any, error) {
		switch name {
		case "expression":
			return d.value(apiservercel.StringType)
		case "request":
			return d.value(requestType)
		}
		return nil, fmt.Errorf("unknown field %q", name)
	})
	if err != nil {
		return bound{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return bound{}, errors.New("there is something after it")
	}
	var hasExpression, hasRequest bool
	decoded.Expression, hasExpression = value["expression"].(string)
	decoded.Request, hasRequest = value["request"].(map[string]any)
	if !hasExpression || !hasRequest {
		return bound{}, errors.New("it must have the fields expression and request")
	}
	return decoded, nil
}

// boundDecoder decodes JSON of declared types. How deep it goes, the types decide.
type boundDecoder struct {
	*json.Decoder
}

func (d boundDecoder) value(t *apiservercel.DeclType) (any, error) {
	switch {
	case t.IsObject():
		return d.object(func(name string) (any, error) {
			declared, ok := t.Fields[name]
			if !ok {
				return nil, fmt.Errorf("unknown field %q", name)
			}
			return d.value(declared.Type)
		})
	case t.IsMap():
		return d.object(func(string) (any, error) { return d.value(t.ElemType) })
	case t.IsList():
		return d.list(t.ElemType)
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	text, ok := token.(string)
	if !ok {
		return nil, fmt.Errorf("%v at byte %d is no string", token, d.InputOffset())
	}
	return text, nil
}

func (d boundDecoder) delim(want json.Delim) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	if token != want {
		return fmt.Errorf("%v at byte %d where %v is wanted", token, d.InputOffset(), want)
	}
	return nil
}

func (d boundDecoder) object(member func(name string) (any, error)) (map[string]any, error) {
	if err := d.delim('{'); err != nil {
		return nil, err
	}
	result := map[string]any{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, ok := token.(string)
		if !ok {
			return nil, errors.New("a name is no string")
		}
		if _, repeated := result[name]; repeated {
			return nil, fmt.Errorf("the field %q is there twice", name)
		}
		if result[name], err = member(name); err != nil {
			return nil, err
		}
	}
	return result, d.delim('}')
}

func (d boundDecoder) list(t *apiservercel.DeclType) ([]any, error) {
	if err := d.delim('['); err != nil {
		return nil, err
	}
	result := []any{}
	for d.More() {
		element, err := d.value(t)
		if err != nil {
			return nil, err
		}
		result = append(result, element)
	}
	return result, d.delim(']')
}
