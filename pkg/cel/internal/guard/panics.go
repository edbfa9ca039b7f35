/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"strings"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"k8s.io/utils/ptr"
)

var (
	errPanic = errors.New("no such overload: the function failed")
	errKey   = errors.New("unsupported key type")
)

// ContainPanics is a decorator that turns a panic of a function into an error of its call. Some
// functions of cel-go and Kubernetes panic if they get a value of a type that they do not expect. A
// panic ends the evaluation even where && or || would ignore the result, so that the result would
// depend on the order of evaluation.
func ContainPanics(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	switch node := i.(type) {
	case interpreter.InterpretableCall:
		if isOperator(node.Function()) {
			return i, nil
		}
		//guard:contained-calls
		return containedCall{node}, nil
	case interpreter.InterpretableConstructor:
		if node.Type() == types.MapType && !hasPlainKeys(node) {
			//guard:contained-maps
			return containedConstructor{node}, nil
		}
	}
	return i, nil
}

// isOperator reports whether a function is an operator that cannot panic.
func isOperator(name string) bool {
	switch name {
	case operators.Index, operators.OptIndex, operators.In, operators.OldIn:
		return false
	}
	return strings.HasPrefix(name, "_") || strings.HasPrefix(name, "@") || strings.HasPrefix(name, "!")
}

// hasPlainKeys reports whether the keys of a map literal are plain constants.
func hasPlainKeys(node interpreter.InterpretableConstructor) bool {
	for i, v := range node.InitVals() {
		if key, constant := v.(interpreter.InterpretableConst); i%2 == 0 && (!constant || !isPlain(key.Value())) {
			return false
		}
	}
	return true
}

// isPlain reports whether a key has a type whose equal values are the same key of a map. For lists, maps, timestamps and other
// types, two equal values are the same key only if they are the same object in memory, which depends on the order of
// evaluation.
func isPlain(key ref.Val) bool {
	switch key.(type) {
	case types.String, types.Int, types.Uint, types.Bool, types.Double, types.Duration, types.Null:
		return true
	}
	return false
}

// plainKeys returns v, or an error if v is a map with a key that is not plain.
func plainKeys(v ref.Val) ref.Val {
	m, ok := v.(traits.Mapper)
	if !ok {
		return v
	}
	for it := m.Iterator(); it.HasNext() == types.True; {
		if !isPlain(it.Next()) {
			return types.WrapErr(errKey)
		}
	}
	return v
}

// hashableArgs returns the arguments of a call. For the operator in with a constant list, which the planner replaces by a set,
// it wraps the first argument: a value that Go cannot hash, and a text that is longer than all elements, become a value that
// equals nothing. Neither is in the set. The lookup of the first would panic, and hashing the second takes time that is not
// charged.
func hashableArgs(call interpreter.InterpretableCall) []interpreter.InterpretableV2 {
	args := call.Args()
	if call.Function() != operators.In {
		return args
	}
	set, constant := args[1].(interpreter.InterpretableConst)
	if !constant {
		return args
	}
	longest := 0
	if elements, ok := set.Value().(traits.Iterable); ok {
		for it := elements.Iterator(); it.HasNext() == types.True; {
			if text, ok := it.Next().(types.String); ok {
				longest = max(longest, len(text))
			}
		}
	}
	//guard:contained-sets-constants
	return []interpreter.InterpretableV2{hashable{args[0], longest}, args[1]}
}

type hashable struct {
	interpreter.InterpretableV2
	longest int
}

// unequal is a value that equals nothing.
type unequal struct {
	ref.Val
}

func (h hashable) Eval(vars interpreter.Activation) ref.Val { return h.Exec(interpreter.AsFrame(vars)) }

func (h hashable) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := h.InterpretableV2.Exec(frame)
	if text, ok := v.(types.String); ok && len(text) > h.longest {
		return &unequal{v}
	}
	return hashableValue(v)
}

// hashableValue returns v, or a value that equals nothing if Go cannot hash v.
func hashableValue(v ref.Val) ref.Val {
	switch v.(type) {
	case types.String, types.Int, types.Bool, *types.Err:
		return v
	}
	if reflect.TypeOf(v).Comparable() {
		return v
	}
	return &unequal{v}
}

// callIn calls the operator in. If the second argument is a map, a value that Go cannot hash is not in it.
func callIn(o *functions.Overload, args []ref.Val) ref.Val {
	if _, ok := args[1].(traits.Mapper); ok {
		//guard:contained-keys
		return invoke(o, []ref.Val{hashableValue(args[0]), args[1]})
	}
	return invoke(o, args)
}

// contain makes an error of a panic of a function, and ends the evaluation if its context or its cost limit did. It is to be deferred.
func contain(value *ref.Val) {
	switch r := recover().(type) {
	case nil:
	case interpreter.EvalCancelledError:
		panic(r)
	case failedCall:
		*value = types.WrapErr(r.err)
	default:
		*value = types.WrapErr(errPanic)
	}
}

// failedCall is the value that Fail panics with.
type failedCall struct{ err error }

// Fail ends the current call of a CEL function with the error err. It is for Go code that a library of
// Kubernetes calls and that cannot return a CEL error through the library: the library for secondary checks
// turns every error into a denial, which the operator ! would turn into true. The error ends the call, not
// the evaluation, so that && and || can absorb it. Fail never returns.
func Fail(err error) { panic(failedCall{err}) }

// listTrackers returns cost trackers for functions over lists. They replace the trackers of cel-go, which panic if an argument
// is an error, and do not count the size of elements.
func listTrackers() []interpreter.CostTrackerOption {
	options := []interpreter.CostTrackerOption{
		interpreter.OverloadCostTracker("list_distinct", costOfComparing),
		interpreter.OverloadCostTracker("list_flatten", costOfFlattening),
		interpreter.OverloadCostTracker("list_flatten_int", costOfFlattening),
		interpreter.OverloadCostTracker("list_sets_contains_list", costOfSets(1)),
		interpreter.OverloadCostTracker("list_sets_intersects_list", costOfSets(1)),
		interpreter.OverloadCostTracker("list_sets_equivalent_list", costOfSets(2)),
	}
	for _, t := range []*types.Type{types.IntType, types.UintType, types.DoubleType, types.BoolType, types.DurationType, types.TimestampType, types.StringType, types.BytesType} {
		options = append(options, interpreter.OverloadCostTracker(fmt.Sprintf("list_%s_sort", t.TypeName()), costOfComparing))
	}
	return options
}

// costOfComparing is the cost of comparing all elements of a list with each other.
func costOfComparing(args []ref.Val, _ ref.Val) *uint64 {
	n := min(uint64(size(args[0])), maxWork) // more is refused
	return ptr.To(1 + common.ListCreateBaseCost + n*n*21/10 + workOfElements(n*n/2, args[0]) + workOfParts(args))
}

// maxProduct bounds products of sizes, so that sums of them do not overflow. It is far over every limit.
const maxProduct = 1 << 40

func product(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	if high > 0 {
		return maxProduct
	}
	return min(low, maxProduct)
}

// costOfSets returns a tracker for the cost of searching each element of one list in another list, the given number of times.
func costOfSets(times uint64) interpreter.FunctionTracker {
	return func(args []ref.Val, _ ref.Val) *uint64 {
		comparisons := times * min(product(uint64(size(args[0])), uint64(size(args[1]))), 2*maxWork) // more is refused
		return ptr.To(1 + comparisons + workOfElements(comparisons, args...) + workOfParts(args))
	}
}

func costOfFlattening(args []ref.Val, result ref.Val) *uint64 {
	cost := 1 + common.ListCreateBaseCost + uint64(min(max(depthOf(args), 1), 1000))*uint64(size(args[0]))
	if made := uint64(size(result)) / comparisonsPerUnit; made > uint64(size(args[0])) {
		cost += made
	}
	work := workOfParts(args)
	if parts, complete := walkAll(args, textPerPart); complete {
		work += uint64(parts*(max(levels(args), 1)-1)) / comparisonsPerUnit
	}
	return ptr.To(cost + work)
}

type containedCall struct {
	interpreter.InterpretableCall
}

func (c containedCall) Exec(frame *interpreter.ExecutionFrame) (value ref.Val) {
	defer contain(&value)
	return c.InterpretableCall.Exec(frame)
}

func (c containedCall) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

type containedConstructor struct {
	interpreter.InterpretableConstructor
}

func (c containedConstructor) Exec(frame *interpreter.ExecutionFrame) (value ref.Val) {
	defer contain(&value)
	return plainKeys(c.InterpretableConstructor.Exec(frame))
}

func (c containedConstructor) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

// cel-go labels an error with its place in the expression when the error occurs first. All evaluations of the
// process share a few errors, so that two evaluations with the same error would race. init labels these
// errors in advance, because cel-go never replaces a label.
func init() {
	const nowhere = -1
	types.LabelErrNode(nowhere, types.NoSuchOverloadErr())
	types.LabelErrNode(nowhere, types.Int(math.MaxInt64).ConvertToType(types.TimestampType))
}
