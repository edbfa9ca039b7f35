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

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/proviso-authz/proviso/apis/policy"
)

const (
	// expressionCost bounds an evaluation, in the cost units of CEL. It is a hundredth of
	// what Kubernetes lets an expression cost, since a write may need several.
	expressionCost = celconfig.PerCallLimit / 100
	// interruptEvery is after how many steps of a loop an evaluation looks at its context.
	interruptEvery = 100
	// maxExpressionErrorBytes bounds what is shown of the errors of the compiler.
	maxExpressionErrorBytes = 512
)

// The variables of expressions.
const (
	// variableParameter is what the path has in the place of [*], a text.
	variableParameter = "parameter"
	// variableValue is what a field is to become, null if it is removed.
	variableValue = "value"
	// variableOldValue is what a field was, null if there was none.
	variableOldValue = "oldValue"
)

var (
	errExpressionLong    = fmt.Errorf("must have at most %d bytes", policy.MaxMappingExpressionBytes)
	errExpressionCompile = errors.New("does not compile")
	errExpression        = errors.New("the expression failed")
)

// expression is a compiled CEL expression. It is safe for concurrent use.
type expression struct {
	text    string
	program cel.Program
}

// environments are made once: that takes longer than everything else here.
var environments = sync.OnceValues(func() (envs struct{ parameter, values *cel.Env }, err error) {
	if envs.parameter, err = newEnvironment(cel.Variable(variableParameter, cel.StringType)); err != nil {
		return envs, err
	}
	envs.values, err = newEnvironment(cel.Variable(variableValue, cel.DynType), cel.Variable(variableOldValue, cel.DynType))
	return envs, err
})

func newEnvironment(variables ...cel.EnvOption) (*cel.Env, error) {
	set, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(
		environment.VersionedOptions{IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: variables},
		environment.StrictCostOpt,
	)
	if err != nil {
		return nil, fmt.Errorf("building the CEL environment: %w", err)
	}
	return set.Env(environment.StoredExpressions)
}

// compileParameter compiles an expression that makes a parameter of a text.
func compileParameter(text string) (*expression, error) {
	envs, err := environments()
	if err != nil {
		return nil, err
	}
	return compile(envs.parameter, text, cel.StringType)
}

// compileNewValues compiles an expression that says which values are excluded.
func compileNewValues(text string) (*expression, error) {
	envs, err := environments()
	if err != nil {
		return nil, err
	}
	return compile(envs.values, text, cel.BoolType)
}

func compile(env *cel.Env, text string, yields *cel.Type) (e *expression, err error) {
	defer func() {
		if recover() != nil {
			e, err = nil, fmt.Errorf("%w: the compiler failed", errExpressionCompile)
		}
	}()
	if len(text) > policy.MaxMappingExpressionBytes {
		return nil, errExpressionLong
	}
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, fmt.Errorf("%w: %s", errExpressionCompile, shorten(issues.Err().Error()))
	}
	if !checked.OutputType().IsExactType(yields) {
		return nil, fmt.Errorf("%w: it must yield %s, but yields %s", errExpressionCompile, yields, checked.OutputType())
	}
	program, err := env.Program(checked, cel.CostLimit(expressionCost), cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.InterruptCheckFrequency(interruptEvery))
	if err != nil {
		return nil, fmt.Errorf("%w: the planner failed", errExpressionCompile)
	}
	return &expression{text: text, program: program}, nil
}

func shorten(message string) string {
	message = strings.Join(strings.Fields(message), " ")
	if len(message) <= maxExpressionErrorBytes {
		return message
	}
	return strings.ToValidUTF8(message[:maxExpressionErrorBytes], "") + "…"
}

// parameter evaluates an expression that makes a parameter. Errors do not say what CEL
// says: it may quote values.
func (e *expression) parameter(ctx context.Context, of string) (string, error) {
	value, err := e.eval(ctx, map[string]any{variableParameter: of})
	if err != nil {
		return "", err
	}
	text, ok := value.(string)
	if !ok {
		return "", errExpression
	}
	return text, nil
}

// excludes evaluates an expression that says whether a value is excluded.
func (e *expression) excludes(ctx context.Context, before, after any) (bool, error) {
	value, err := e.eval(ctx, map[string]any{variableValue: decoded(after), variableOldValue: decoded(before)})
	if err != nil {
		return true, err
	}
	excluded, ok := value.(bool)
	if !ok {
		return true, errExpression
	}
	return excluded, nil
}

// decoded returns a value as it is decoded from JSON, where 3.0 is written as 3, which is an
// integer. An object in memory may have either, and CEL tells them apart.
func decoded(value any) any {
	switch value := value.(type) {
	case nil:
		return types.NullValue
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

func (e *expression) eval(ctx context.Context, variables map[string]any) (value any, err error) {
	defer func() {
		if recover() != nil {
			value, err = nil, errExpression
		}
	}()
	result, _, err := e.program.ContextEval(ctx, variables)
	if err != nil {
		return nil, errExpression
	}
	return result.Value(), nil
}
