/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard_test

import (
	"reflect"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
)

// watchedCall reads how many values the cost tracker keeps before each call.
type watchedCall struct {
	interpreter.InterpretableCall
	deepest *int
}

func (w watchedCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	// The stack is not exported. Only its length is read.
	stack := reflect.ValueOf(frame).Elem().FieldByName("ctx").Elem().FieldByName("costs").Elem().FieldByName("stack")
	*w.deepest = max(*w.deepest, stack.Len())
	return w.InterpretableCall.Exec(frame)
}

// TestMacrosKeepTheStackShort runs every kind of macro for few and for many rounds. The stack of
// the cost tracker, which is searched at every step, must not grow with the rounds.
func TestMacrosKeepTheStackShort(t *testing.T) {
	t.Parallel()
	environment, err := cel.NewConditionEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	for _, expression := range []string{
		`object.all(x, x != -1 && x != -2)`, `object.exists(x, x == -1 || x == -2)`, `object.exists_one(x, x == -1)`, `object.map(x, x).size() == 0`, `object.map(x, x > 1, x).size() == 0`,
		`object.filter(x, x < 0).size() == 0`, `object.all(i, x, x != -1)`, `object.exists(i, x, x == -1)`, `object.existsOne(i, x, x == -1)`,
		`object.transformList(i, x, x).size() == 0`, `object.transformMap(i, x, x).size() == 0`, `object.transformMapEntry(i, x, {x: i}).size() == 0`,
		`object.sortBy(x, x).size() == 0`, `object.exists(x, [1, 2].all(y, x == y))`, `[1, 2].exists(y, object.exists(x, x == -1))`,
		`object.map(x, x).filter(x, x < 0).exists(x, x == 1) || object.all(x, x != -1)`,
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			few, many := deepest(t, environment.Engine(), expression, 3), deepest(t, environment.Engine(), expression, 600)
			if few < 1 || many > few+2 {
				t.Errorf("got %d values on the stack after 600 rounds, %d after 3", many, few)
			}
		})
	}
}

func deepest(t *testing.T, e *engine.Engine, expression string, rounds int) (result int) {
	t.Helper()
	checked, err := engine.Check(e.Env, e.Guard, expression)
	if err != nil {
		t.Fatal(err)
	}
	watch := func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		if call, ok := i.(interpreter.InterpretableCall); ok && call.Function() != guard.RoundFunction {
			return watchedCall{call, &result}, nil
		}
		return i, nil
	}
	options := append(e.Guard.OptionsFor([]ast.Expr{checked.NativeRep().Expr()}), celgo.CustomDecoratorV2(watch))
	program, err := e.Env.Program(checked, options...)
	if err != nil {
		t.Fatal(err)
	}
	list := make([]any, rounds)
	for i := range list {
		list[i] = int64(i)
	}
	if _, _, err := program.Eval(cel.Values{cel.Object: list}); err != nil {
		t.Fatal(err)
	}
	return result
}
