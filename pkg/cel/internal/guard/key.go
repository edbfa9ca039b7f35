/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// The names under which the planner and the cost tracker see the key of an index, and the key of an entry in a map
// literal. No expression can call a function of these names.
const (
	indexKeyFunction = "@indexKey"
	entryKeyFunction = "@entryKey"
)

// ChargeKeys returns copies of expressions in which each key of an index or of a map literal is wrapped in a call that costs
// units for the length of the key. Without it the cost tracker counts a lookup as one unit, although a map hashes the whole
// text of the key. A key that is a literal is not wrapped: it is short, because the expression is short. Any other key may be a
// text, even if the type checker has inferred that it is a number, because the checker infers the types of dynamic values from
// their use. The new nodes get the ids from nextID on. The given expressions do not change.
func ChargeKeys(exprs []ast.Expr, nextID int64) []ast.Expr {
	k := &keys{ExprFactory: ast.NewExprFactory(), nextID: nextID}
	charged := make([]ast.Expr, 0, len(exprs))
	for _, e := range exprs {
		if hasKeys(e) {
			e = k.CopyExpr(e)
			ast.PostOrderVisit(e, ast.NewExprVisitor(k.charge))
		}
		charged = append(charged, e)
	}
	return charged
}

// keys puts calls around the keys in expressions.
type keys struct {
	ast.ExprFactory
	nextID int64
}

// hasKeys reports whether an expression contains an index or a map literal with a key that is no literal.
func hasKeys(e ast.Expr) (found bool) {
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(part ast.Expr) {
		for _, key := range keysOf(part) {
			found = found || key.Kind() != ast.LiteralKind
		}
	}))
	return found
}

// keysOf returns the key of an index, or the keys of a map literal.
func keysOf(e ast.Expr) (keys []ast.Expr) {
	switch {
	case isIndex(e):
		return e.AsCall().Args()[1:]
	case e.Kind() == ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			keys = append(keys, entry.AsMapEntry().Key())
		}
	}
	return keys
}

func isIndex(e ast.Expr) bool {
	return e.Kind() == ast.CallKind && (e.AsCall().FunctionName() == operators.Index || e.AsCall().FunctionName() == operators.OptIndex)
}

// charge wraps the keys of an index or of a map literal in calls. Other expressions stay as they are.
func (k *keys) charge(e ast.Expr) {
	switch {
	case isIndex(e):
		call := e.AsCall()
		e.SetKindCase(k.NewCall(e.ID(), call.FunctionName(), call.Args()[0], k.call(indexKeyFunction, call.Args()[1])))
	case e.Kind() == ast.MapKind:
		var entries []ast.EntryExpr
		for _, entry := range e.AsMap().Entries() {
			pair := entry.AsMapEntry()
			entries = append(entries, k.NewMapEntry(entry.ID(), k.call(entryKeyFunction, pair.Key()), pair.Value(), pair.IsOptional()))
		}
		e.SetKindCase(k.NewMap(e.ID(), entries))
	}
}

func (k *keys) call(function string, key ast.Expr) ast.Expr {
	if key.Kind() == ast.LiteralKind {
		return key
	}
	id := k.nextID
	k.nextID++
	return k.NewCall(id, function, key)
}

// chargedKeys is a decorator that replaces the calls that ChargeKeys has inserted by charged instructions, or, if the key
// is a constant, by the constant.
func chargedKeys(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || call.Function() != indexKeyFunction && call.Function() != entryKeyFunction {
		return i, nil
	}
	value := call.Args()[0]
	if _, constant := value.(interpreter.InterpretableConst); constant {
		return value, nil
	}
	if attribute, ok := value.(interpreter.InterpretableAttribute); ok && call.Function() == indexKeyFunction {
		//guard:cost-keys-indexes
		return charged(resolved{attribute}), nil
	}
	//guard:cost-other-keys
	return charged(value), nil
}

// charged wraps the instruction that computes the key of an index or of an entry in a map literal. The cost tracker takes it
// for a call, and charges for the length of the key. The call has no arguments, because the value of the wrapped instruction may not
// be on the stack of the tracker.
func charged(key interpreter.InterpretableV2) interpreter.InterpretableV2 {
	return trackedCall{key, entryKeyFunction, entryKeyFunction, nil}
}

// resolved is an attribute that is the key of an index. The cost tracker counts an index whose key is an attribute as one
// unit, and an index with another key as one unit and the cost of the key. Therefore, the attribute itself is not counted.
type resolved struct {
	interpreter.InterpretableAttribute
}

func (r resolved) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	value, err := r.Resolve(frame)
	if err != nil {
		return types.LabelErrNode(r.ID(), types.WrapErr(err))
	}
	return r.Adapter().NativeToValue(value)
}

func (r resolved) Eval(vars interpreter.Activation) ref.Val { return r.Exec(interpreter.AsFrame(vars)) }
