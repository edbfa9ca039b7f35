/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package bound

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/interpreter"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
)

// Compiler compiles bound conditions. It caches the programs by the text of the expression. It is safe
// for concurrent use.
type Compiler struct {
	expressions *cel.Compiler
}

// NewCompiler makes a Compiler for the environment of policies.
func NewCompiler() (*Compiler, error) {
	environment, err := cel.NewPolicyEnvironment()
	if err != nil {
		return nil, err
	}
	return &Compiler{expressions: cel.NewCompilerFor(environment)}, nil
}

// Program is a compiled bound condition. It is immutable and safe for concurrent use.
type Program struct {
	program *cel.Program
	request any
}

// Compile compiles a bound condition. It returns an error that wraps cel.ErrCompile if the condition is too long, if it has
// unknown or repeated fields, data of another type than declared, or trailing data, or if its expression does not compile.
func (c *Compiler) Compile(condition string) (*Program, error) {
	program, _, err := c.CompileWithCost(condition)
	return program, err
}

// CompileWithCost is Compile. It also returns the cost of compiling, as cel.Compiler.CompileWithCost does.
func (c *Compiler) CompileWithCost(condition string) (*Program, uint64, error) {
	if len(condition) > cel.MaxExpressionBytes {
		return nil, 0, fmt.Errorf("bound condition %w: it is longer than %d bytes", cel.ErrCompile, cel.MaxExpressionBytes)
	}
	decoded, err := decode(condition)
	if err != nil {
		return nil, guard.CompileCost(condition), fmt.Errorf("bound condition %w: %s", cel.ErrCompile, engine.Shorten(err.Error()))
	}
	program, cost, err := c.expressions.CompileWithCost(decoded.Expression)
	cost += uint64(len(condition)) / guard.BytesPerUnit // decoding is not kept
	if err != nil {
		return nil, cost, fmt.Errorf("bound condition: %w", err)
	}
	return &Program{program: program, request: cel.Known(decoded.Request)}, cost, nil
}

// Reads reports whether the value may depend on the variable.
func (p *Program) Reads(v cel.Variable) bool { return p.program.Reads(v) }

// Eval evaluates the condition as cel.Program.Eval does. The variable cel.Request has the data in the condition as its
// value, and not the value that values may have for it.
func (p *Program) Eval(ctx context.Context, values cel.Values) (result bool, cost uint64, err error) {
	//guard:bound-request-condition
	request := cel.Values{cel.Request: p.request}
	return p.program.EvalActivation(ctx, interpreter.NewHierarchicalActivation(values, request))
}

// decode reads a bound condition strictly.
func decode(condition string) (decoded document, err error) {
	if !utf8.ValidString(condition) {
		return document{}, errors.New("it is not UTF-8")
	}
	d := decoder{json.NewDecoder(strings.NewReader(condition))}
	value, err := d.object(func(name string) (any, error) {
		switch name {
		case "expression":
			return d.value(apiservercel.StringType)
		case "request":
			return d.value(cel.RequestType())
		}
		return nil, fmt.Errorf("unknown field %q", name)
	})
	if err != nil {
		return document{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return document{}, errors.New("there is something after it")
	}
	var hasExpression, hasRequest bool
	decoded.Expression, hasExpression = value["expression"].(string)
	decoded.Request, hasRequest = value["request"].(map[string]any)
	if !hasExpression || !hasRequest {
		return document{}, errors.New("it must have the fields expression and request")
	}
	return decoded, nil
}

// decoder decodes JSON of declared types. The types bound the depth of the JSON.
type decoder struct {
	*json.Decoder
}

func (d decoder) value(t *apiservercel.DeclType) (any, error) {
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

func (d decoder) delim(want json.Delim) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	if token != want {
		return fmt.Errorf("%v at byte %d where %v is wanted", token, d.InputOffset(), want)
	}
	return nil
}

func (d decoder) object(member func(name string) (any, error)) (map[string]any, error) {
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

func (d decoder) list(t *apiservercel.DeclType) ([]any, error) {
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
