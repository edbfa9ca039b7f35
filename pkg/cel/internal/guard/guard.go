/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/util/sets"
)

// interruptFrequency is the number of macro steps and long calls between two checks of the context. A call
// may take milliseconds, a check takes nanoseconds.
const interruptFrequency = 1

// Guard bounds the compilation and the evaluation of the expressions of one environment. It is
// immutable and safe for concurrent use.
type Guard struct {
	// parser parses without expanding macros.
	parser *cel.Env
	// checks look at the arguments of functions before they run, and walks are the functions that may
	// walk through their arguments.
	checks map[string]func(args []ref.Val) error
	walks  sets.Set[string]
	// implementations are the functions that are guarded, by overload and by name.
	implementations map[string]*functions.Overload
	// candidates are the overloads that the checker tries.
	candidates map[callStyle]candidates
	// identifiers bounds the types of the variables, and fields bounds the types of their fields.
	identifiers map[string]typeBound
	fields      typeBound
}

// guarded has the checks of the arguments of functions, which run before the function. New adds checkDeep for other
// functions that may walk through values.
var guarded = map[string]func(args []ref.Val) error{
	"quantity":   checkQuantity,
	"isQuantity": checkQuantity,
	"matches":    checkMatch,
	"find":       checkMatch,
	"findAll":    checkMatches,

	operators.Equals:    checkDeep,
	operators.NotEquals: checkDeep,
	operators.In:        checkDeep,
	// A name that begins with @ is a function of a macro, and not an operator.
	"@sortByAssociatedKeys": checkDeep,
	"format":                checkPrinted,
	"sets.contains":         checkProduct,
	"sets.equivalent":       checkProduct,
	"sets.intersects":       checkProduct,
	"distinct":              checkSquare,
	"join":                  checkJoin,
	"flatten":               checkFlatten,
	"reverse":               checkMade,
	"optional.unwrap":       checkPrinted, // an element that is no optional is printed in the error
	"unwrapOpt":             checkPrinted,
	"slice":                 checkMade,
	"replace":               checkReplace,

	"charAt": checkTexts(maxText), "substring": checkTexts(maxText), "split": checkTexts(maxText), "indexOf": checkSearch, "lastIndexOf": checkSearch,
	"double": checkTexts(maxShortText), "int": checkTexts(maxShortText), "uint": checkTexts(maxShortText),
	"duration": checkTexts(maxShortText), "timestamp": checkTexts(maxShortText), "ip": checkTexts(maxShortText), "isIP": checkTexts(maxShortText),
	"cidr": checkTexts(maxShortText), "isCIDR": checkTexts(maxShortText), "semver": checkTexts(maxShortText), "isSemver": checkTexts(maxShortText),
	"bool": checkTexts(maxShortText), "format.named": checkTexts(maxShortText),
	"getFullYear": checkTexts(maxShortText), "getMonth": checkTexts(maxShortText), "getDayOfYear": checkTexts(maxShortText), "getDayOfMonth": checkTexts(maxShortText),
	"getDate": checkTexts(maxShortText), "getDayOfWeek": checkTexts(maxShortText), "getHours": checkTexts(maxShortText), "getMinutes": checkTexts(maxShortText),
	"getSeconds": checkTexts(maxShortText), "getMilliseconds": checkTexts(maxShortText),
	"url": checkTexts(8 << 10), "isURL": checkTexts(8 << 10),
}

// passing are the functions that pass values on without reading them.
var passing = sets.New(
	"type", "dyn", "first", "last", operators.Index, operators.OptIndex, operators.OptSelect, operators.Conditional, operators.NotStrictlyFalse,
	"optional.of", "optional.ofNonZeroValue", "optional.none", "hasValue", "value", "or", "orValue",
)

// shallow are the functions that take lists, maps or values of any type, but read no more of them
// than their size, or the keys of a map. All others are guarded by checkDeep, unless guarded has them.
var shallow = passing.Union(sets.New("size", operators.Add, mapInsert))

// mapInsert is the function with which macros make maps.
const mapInsert = "cel.@mapInsert"

// isWalked reports whether a function may walk through an argument.
func isWalked(declaration *decls.FunctionDecl) bool {
	if shallow.Has(declaration.Name()) {
		return false
	}
	for _, overload := range declaration.OverloadDecls() {
		for _, argument := range overload.ArgTypes() {
			switch argument.Kind() {
			case types.ListKind, types.MapKind, types.DynKind, types.AnyKind, types.TypeParamKind:
				return true
			default:
			}
		}
	}
	return false
}

// New returns the Guard of an environment, or an error if the environment does not have a function that has a check.
func New(env *cel.Env) (*Guard, error) {
	parser, err := env.Extend(cel.ClearMacros())
	if err != nil {
		return nil, fmt.Errorf("building the CEL parser: %w", err)
	}
	g := &Guard{parser: parser, checks: maps.Clone(guarded), walks: sets.New[string](), implementations: map[string]*functions.Overload{}, candidates: candidatesOf(env), identifiers: identifiersOf(env), fields: requestFields}
	for name, declaration := range env.Functions() {
		if !isWalked(declaration) {
			continue
		}
		g.walks.Insert(name)
		if _, ok := guarded[name]; !ok {
			g.checks[name] = checkDeep
		}
	}
	for name := range g.checks {
		declaration, ok := env.Functions()[name]
		if name == operators.Equals || name == operators.NotEquals {
			continue // the planner has its own
		}
		if !ok {
			return nil, fmt.Errorf("the CEL function %s is to be guarded, but is not there", name)
		}
		overloads, err := declaration.Bindings()
		if err != nil {
			return nil, fmt.Errorf("the CEL function %s: %w", name, err)
		}
		for _, overload := range overloads {
			g.implementations[overload.Operator] = overload
		}
	}
	return g, nil
}

// Options returns the options with which every program is planned.
func (g *Guard) Options() []cel.ProgramOption {
	//guard:contained-costs-lists
	return []cel.ProgramOption{cel.CostTracking(costs{walks: g.walks}), cel.CostTrackerOptions(listTrackers()...), cel.InterruptCheckFrequency(interruptFrequency), cel.CustomDecoratorV2(g.CheckCalls), cel.CustomDecoratorV2(ContainPanics), cel.CustomDecoratorV2(interrupted)}
}

// OptionsFor returns Options, and the options that depend on the expressions that are planned, which must be the result of
// ChargeKeys.
func (g *Guard) OptionsFor(exprs []ast.Expr) []cel.ProgramOption {
	return append(g.Options(), cel.CustomDecoratorV2(rounds(exprs)), cel.CustomDecoratorV2(surcharges(exprs)), cel.CustomDecoratorV2(chargedKeys))
}

// CheckCalls is a decorator that checks the arguments of a guarded function before the function is called. If the check fails,
// the function is not called, and the call is an error.
func (g *Guard) CheckCalls(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok {
		return i, nil
	}
	check, ok := g.checks[call.Function()]
	if !ok || call.Function() == operators.In && areConstant(call.Args()) { // the planner has replaced it
		return i, nil
	}
	implementation := g.implementations[call.OverloadID()]
	switch call.Function() {
	case operators.Equals:
		implementation = &functions.Overload{Binary: types.Equal}
	case operators.NotEquals:
		implementation = &functions.Overload{Binary: func(a, b ref.Val) ref.Val { return types.Bool(types.Equal(a, b) != types.True) }}
	}
	if implementation == nil {
		implementation = g.implementations[call.Function()]
	}
	if implementation == nil {
		return nil, fmt.Errorf("the CEL function %s cannot be guarded", call.Function())
	}
	if takesPattern(call.Function()) {
		if pattern, constant := constantPatternOf(call); constant {
			return withConstantPattern(call, implementation, pattern), nil
		}
		check = checkDynamicMatch
	}
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), hashableArgs(call), func(args ...ref.Val) ref.Val {
		if err := check(args); err != nil {
			return types.WrapErr(err)
		}
		if call.Function() == operators.In {
			return callIn(implementation, args)
		}
		return invoke(implementation, args)
	}), nil
}

// areConstant reports whether instructions yield constants, which the planner has evaluated.
func areConstant(instructions []interpreter.InterpretableV2) bool {
	return !slices.ContainsFunc(instructions, func(i interpreter.InterpretableV2) bool {
		_, constant := i.(interpreter.InterpretableConst)
		return !constant
	})
}

var errArguments = errors.New("no such overload")

func invoke(o *functions.Overload, args []ref.Val) ref.Val {
	switch {
	case len(args) == 1 && o.Unary != nil:
		return o.Unary(args[0])
	case len(args) == 2 && o.Binary != nil:
		return o.Binary(args[0], args[1])
	case o.Function != nil:
		return o.Function(args...)
	}
	return types.WrapErr(errArguments)
}

// interrupted is a decorator that checks the context of the evaluation before each call that can take long.
func interrupted(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	if call, ok := i.(interpreter.InterpretableCall); ok && takesTime(call.Function()) {
		return interruptedCall{call}, nil
	}
	return i, nil
}

// takesTime reports whether a call of a function can take longer than a step of a macro. It returns true for all functions,
// for indexes, and for operators whose arguments are checked.
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

// CanBeInterrupted reports whether an expression has macros or calls that can take long. Indexes, and comparisons with a
// literal that is no list or map, do not count as such calls.
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
