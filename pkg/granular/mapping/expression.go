/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/excerpt"
)

const (
	// expressionCost bounds an evaluation. It is a hundredth of what a condition may cost, since a write
	// may need several evaluations.
	expressionCost = cel.CostLimit / 100
	// maxExpressionErrorBytes bounds what is shown of the errors of the compiler.
	maxExpressionErrorBytes = 512
)

// The variables of expressions.
const (
	// variableParameter is the key that the path has in place of [*], as a string.
	variableParameter cel.Variable = "parameter"
	// variableValue is the new value of a field, null if the field is removed.
	variableValue cel.Variable = "value"
	// variableOldValue is the old value of a field, null if there was none.
	variableOldValue cel.Variable = "oldValue"
)

var (
	errExpressionLong = fmt.Errorf("must have at most %d bytes", policy.MaxMappingExpressionBytes)
	errExpression     = errors.New("the expression failed")
)

// expression is a compiled CEL expression. It is safe for concurrent use.
type expression struct {
	text     string
	function *cel.Function
}

// The compilers are made when the first expression is compiled, because making one takes longer than compiling many expressions.
var (
	// parameterCompiler compiles expressions that make a parameter of a key.
	parameterCompiler = sync.OnceValues(func() (*cel.FunctionCompiler, error) {
		return cel.NewFunctionCompiler(cel.Signature{
			Variables: map[cel.Variable]*cel.Type{variableParameter: cel.StringType}, Result: cel.StringType, CostLimit: expressionCost,
		})
	})
	// newValuesCompiler compiles expressions over the old and the new value of a field that are true for excluded changes.
	newValuesCompiler = sync.OnceValues(func() (*cel.FunctionCompiler, error) {
		return cel.NewFunctionCompiler(cel.Signature{
			Variables: map[cel.Variable]*cel.Type{variableValue: cel.DynamicType, variableOldValue: cel.DynamicType}, Result: cel.BoolType, CostLimit: expressionCost,
		})
	})
)

func compile(compiler func() (*cel.FunctionCompiler, error), text string, budget *cel.Budget) (*expression, error) {
	c, err := compiler()
	if err != nil {
		return nil, err
	}
	if len(text) > policy.MaxMappingExpressionBytes {
		return nil, errExpressionLong
	}
	function, err := c.Compile(text, budget)
	if err != nil {
		// The field that the error is about already shows the expression.
		return nil, errors.New(shorten(strings.TrimPrefix(err.Error(), "expression ")))
	}
	return &expression{text: text, function: function}, nil
}

func shorten(message string) string {
	return excerpt.Of(strings.Join(strings.Fields(message), " "), maxExpressionErrorBytes)
}

// parameter evaluates an expression that computes a parameter from a key. Its error is always errExpression,
// because errors of CEL may quote values.
func (e *expression) parameter(ctx context.Context, key string) (string, error) {
	value, err := e.function.Call(ctx, cel.Values{variableParameter: key})
	if text, ok := value.(string); ok && err == nil {
		return text, nil
	}
	return "", errExpression
}

// excludes evaluates an expression over the old and the new value of a field, and reports whether it excludes the change.
// If the evaluation fails, it returns true and errExpression.
func (e *expression) excludes(ctx context.Context, before, after any) (bool, error) {
	value, err := e.function.Call(ctx, cel.Values{variableValue: decoded(after), variableOldValue: decoded(before)})
	if excluded, ok := value.(bool); ok && err == nil {
		return excluded, nil
	}
	return true, errExpression
}

// decoded returns a value with an integer for each float without a fraction, as JSON decoders of Kubernetes return it for
// the number 3. An object in memory may have the float or the integer, and CEL treats them as different types.
func decoded(value any) any {
	switch value := value.(type) {
	case float64:
		if value == math.Trunc(value) && math.Abs(value) < 1<<63 {
			return int64(value)
		}
	case map[string]any:
		result := make(map[string]any, len(value))
		for key, v := range value {
			result[key] = decoded(v)
		}
		return result
	case []any:
		result := make([]any, 0, len(value))
		for _, v := range value {
			result = append(result, decoded(v))
		}
		return result
	}
	return value
}
