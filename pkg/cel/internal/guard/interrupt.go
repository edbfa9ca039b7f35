/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// interrupted is a decorator that checks the context of the evaluation before each call that can take long.
func interrupted(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	if call, ok := i.(interpreter.InterpretableCall); ok && takesTime(call.Function()) {
		return interruptedCall{call}, nil
	}
	return i, nil
}

// takesTime reports whether a call of a function can take longer than a step of a macro.
func takesTime(function string) bool { return guarded[function] != nil || !isOperator(function) }

type interruptedCall struct {
	interpreter.InterpretableCall
}

func (c interruptedCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	interrupt(frame)
	return c.InterpretableCall.Exec(frame)
}

// interrupt panics if the context has ended. An error would not end the evaluation, because && and || absorb
// errors.
func interrupt(frame *interpreter.ExecutionFrame) {
	if frame.CheckInterrupt() {
		panic(interpreter.EvalCancelledError{Cause: interpreter.ContextCancelled, Message: "operation cancelled: the context has ended"})
	}
}

func (c interruptedCall) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

// CanBeInterrupted reports whether an expression has macros or calls that can take long. A
// comparison with a literal that is no list or map cannot.
func CanBeInterrupted(e ast.Expr) (result bool) {
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(part ast.Expr) {
		switch part.Kind() {
		case ast.ComprehensionKind:
			result = true
		case ast.CallKind:
			result = result || takesTime(part.AsCall().FunctionName()) && !isPlainComparison(part.AsCall())
		default:
		}
	}))
	return result
}

func isPlainComparison(call ast.CallExpr) bool {
	switch call.FunctionName() {
	case operators.Index, operators.OptIndex:
		return true
	case operators.Equals, operators.NotEquals:
		return call.Args()[0].Kind() == ast.LiteralKind || call.Args()[1].Kind() == ast.LiteralKind
	}
	return false
}
