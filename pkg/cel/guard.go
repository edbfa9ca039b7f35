/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// The cost limit of CEL bounds an evaluation, but neither compilation nor what a single
// function does. These bounds do.
const (
	// maxExpandedNodes bounds an expression once its macros are expanded. optMap and
	// optFlatMap copy what they are called on, so that chains of them grow exponentially.
	maxExpandedNodes = 16384
	// maxLiteralDepth bounds how deep list and map literals may be nested: checking the
	// types of nested ones takes polynomial time.
	maxLiteralDepth = 16
	// maxTransformations bounds the macros that make lists, maps and optionals: a chain of
	// them can double the type of its result at every link. maxWrappers bounds the calls
	// that only nest types, and maxEmpty the empty literals, whose types must be inferred.
	maxTransformations = 10
	maxWrappers        = 48
	maxEmpty           = 64
	// maxWork bounds what one call of a function may look at or make, in elements or bytes
	// of its arguments, where the cost limit counts the result or nothing.
	maxWork = 1 << 20
	// maxDeep bounds the parts of two values that are compared, or of one that is printed.
	maxDeep = 100_000
	// maxShortText bounds texts that are numbers, times or addresses, and maxText those
	// that functions copy as a whole.
	maxShortText = 256
	maxText      = 64 << 10
	// maxSearch bounds the comparisons of indexOf, which takes the product of two lengths: some
	// milliseconds.
	maxSearch = 16 << 20
	// maxQuantityBytes and maxQuantityExponent bound the text of a quantity. Comparing two
	// quantities makes a number of as many digits as the exponents differ.
	maxQuantityBytes    = 64
	maxQuantityExponent = 64
)

var (
	errExpanded        = fmt.Errorf("its macros expand to more than %d parts", maxExpandedNodes)
	errDepth           = fmt.Errorf("list and map literals are nested more than %d deep", maxLiteralDepth)
	errTransformations = fmt.Errorf("it has more than %d macros that make lists, maps or optionals, or more than %d optional.of, or more than %d empty literals", maxTransformations, maxWrappers, maxEmpty)
	errWork            = errors.New("the arguments of a function are too large")
	errQuantity        = fmt.Errorf("a quantity is longer than %d bytes or has an exponent over %d", maxQuantityBytes, maxQuantityExponent)
)

// interruptFrequency is how many steps of a macro, and calls that can take long, there are for each
// look at the context. A single call may take milliseconds, and a look takes nanoseconds.
const interruptFrequency = 1

// guard keeps compilation and evaluation bounded.
type guard struct {
	// parser parses without expanding macros.
	parser *cel.Env
	// implementations are the functions that are guarded, by overload and by name.
	implementations map[string]*functions.Overload
	// candidates are the overloads that the checker tries.
	candidates map[callStyle]candidates
}

// guarded are the functions whose arguments are looked at before they run.
var guarded = map[string]func(args []ref.Val) error{
	"quantity":   checkFirst(checkQuantity),
	"isQuantity": checkFirst(checkQuantity),
	"matches":    checkMatch,
	"find":       checkMatch,
	"findAll":    checkMatch,

	operators.Equals:    checkDeep,
	operators.NotEquals: checkDeep,
	operators.In:        checkDeep,
	"format":            checkDeep,
	"sets.contains":     checkProduct,
	"sets.equivalent":   checkProduct,
	"sets.intersects":   checkProduct,
	"distinct":          checkSquare,
	"join":              checkJoin,
	"replace":           checkReplace,

	"charAt": checkTexts(maxText), "substring": checkTexts(maxText), "split": checkTexts(maxText), "indexOf": checkSearch, "lastIndexOf": checkSearch,
	"double": checkTexts(maxShortText), "int": checkTexts(maxShortText), "uint": checkTexts(maxShortText),
	"duration": checkTexts(maxShortText), "timestamp": checkTexts(maxShortText), "ip": checkTexts(maxShortText), "isIP": checkTexts(maxShortText),
	"cidr": checkTexts(maxShortText), "isCIDR": checkTexts(maxShortText), "semver": checkTexts(maxShortText), "isSemver": checkTexts(maxShortText),
	"url": checkTexts(8 << 10), "isURL": checkTexts(8 << 10),
}

func newGuard(env *cel.Env) (*guard, error) {
	parser, err := env.Extend(cel.ClearMacros())
	if err != nil {
		return nil, fmt.Errorf("building the CEL parser: %w", err)
	}
	g := &guard{parser: parser, implementations: map[string]*functions.Overload{}, candidates: candidatesOf(env)}
	for name := range guarded {
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

// options are those with which every program is planned.
func (g *guard) options() []cel.ProgramOption {
	return []cel.ProgramOption{cel.CostTracking(costs{}), cel.CostTrackerOptions(listTrackers()...), cel.InterruptCheckFrequency(interruptFrequency), cel.CustomDecoratorV2(g.decorate), cel.CustomDecoratorV2(contained), cel.CustomDecoratorV2(interrupted)}
}

// optionsFor are those with which certain expressions are planned.
func (g *guard) optionsFor(exprs []ast.Expr) []cel.ProgramOption {
	return append(g.options(), cel.CustomDecoratorV2(rounds(exprs)))
}

// checkText refuses what would take too long to compile. It does not say whether the
// expression is right; the compiler does.
func (g *guard) checkText(expression string) error {
	m := measure{}
	// What does not parse is left to the compiler, which says it better.
	if parsed, issues := g.parser.Parse(expression); len(issues.Errors()) == 0 {
		m.expr(parsed.NativeRep().Expr(), 0)
	}
	return m.err
}

// measure walks an expression whose macros are not expanded.
type measure struct {
	err                                        error
	patterns, transformations, wrappers, empty int
}

// expr returns how large the expression becomes when its macros are expanded.
func (m *measure) expr(e ast.Expr, depth int) int {
	size := 1
	add := func(n int) {
		if size += n; size > maxExpandedNodes {
			size = maxExpandedNodes + 1 // no overflow
			m.fail(errExpanded)
		}
	}
	switch e.Kind() {
	case ast.SelectKind:
		add(m.expr(e.AsSelect().Operand(), depth))
	case ast.CallKind:
		m.call(e.AsCall(), depth, add)
	case ast.ListKind, ast.MapKind:
		if depth++; depth > maxLiteralDepth {
			m.fail(errDepth)
			return size
		}
		if len(elements(e)) == 0 {
			if m.empty++; m.empty > maxEmpty {
				m.fail(errTransformations)
			}
		}
		for _, element := range elements(e) {
			add(m.expr(element, depth))
		}
	default:
	}
	return size
}

func (m *measure) call(c ast.CallExpr, depth int, add func(int)) {
	const copies = 4 // the checker looks at each of the two copies more than once
	if c.IsMemberFunction() {
		n := m.expr(c.Target(), depth)
		if c.FunctionName() == "optMap" || c.FunctionName() == "optFlatMap" {
			n = min(n, maxExpandedNodes) * copies
		}
		add(n)
	}
	for _, arg := range c.Args() {
		add(m.expr(arg, depth))
	}
	switch name := c.FunctionName(); name {
	case "map", "transformList", "transformMap", "transformMapEntry", "optMap", "optFlatMap":
		m.transformations++
	case "of", "ofNonZeroValue":
		m.wrappers++
	case "matches", "find", "findAll":
		for _, arg := range c.Args() {
			m.pattern(arg)
		}
	}
	if m.transformations > maxTransformations || m.wrappers > maxWrappers {
		m.fail(errTransformations)
	}
}

func (m *measure) pattern(e ast.Expr) {
	if e.Kind() != ast.LiteralKind {
		return
	}
	if text, ok := e.AsLiteral().(types.String); ok {
		size, err := checkPattern(string(text))
		if m.patterns += size; err == nil && m.patterns > maxPatternSize {
			err = errPattern
		}
		if err != nil {
			m.fail(err)
		}
	}
}

func (m *measure) fail(err error) {
	if m.err == nil {
		m.err = fmt.Errorf("expression %w: %w", ErrCompile, err)
	}
}

func elements(e ast.Expr) []ast.Expr {
	if e.Kind() == ast.ListKind {
		return e.AsList().Elements()
	}
	var result []ast.Expr
	for _, entry := range e.AsMap().Entries() {
		result = append(result, entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
	}
	return result
}

// decorate puts the guards around the functions of a program.
func (g *guard) decorate(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok {
		return i, nil
	}
	check, ok := guarded[call.Function()]
	if !ok || !g.worthGuarding(call) {
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
		if hasConstantPattern(call) {
			return withConstantPattern(call, implementation, check), nil
		}
		check = checkDynamicMatch
	}
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), hashableArgs(call), func(args ...ref.Val) ref.Val {
		if err := check(args); err != nil {
			return types.WrapErr(err)
		}
		if call.Function() == operators.In {
			return in(implementation, args)
		}
		return invoke(implementation, args)
	}), nil
}

// worthGuarding leaves alone what the planner has made of a call with constants: a set,
// a number.
func (g *guard) worthGuarding(call interpreter.InterpretableCall) bool {
	for _, arg := range call.Args() {
		if _, constant := arg.(interpreter.InterpretableConst); !constant {
			return true
		}
	}
	return call.Function() != operators.In
}

// size returns the length of a text or the number of elements of a list or map.
func size(v ref.Val) int {
	if s, ok := v.(types.String); ok {
		return len(s)
	}
	if s, ok := v.(traits.Sizer); ok {
		if n, ok := s.Size().(types.Int); ok {
			return int(n)
		}
	}
	return 1
}

func checkFirst(check func(string) error) func([]ref.Val) error {
	return func(args []ref.Val) error {
		if text, ok := args[0].(types.String); ok {
			return check(string(text))
		}
		return nil
	}
}

func checkTexts(limit int) func([]ref.Val) error {
	return func(args []ref.Val) error {
		for _, arg := range args {
			if text, ok := arg.(types.String); ok && len(text) > limit {
				return errWork
			}
		}
		return nil
	}
}

// checkSearch bounds a search for a text, which compares it at every place.
func checkSearch(args []ref.Val) error {
	if searched, wanted := searchOf(args); (searched-wanted)*wanted > maxSearch {
		return errWork
	}
	return checkTexts(maxText)(args)
}

// searchOf returns the lengths of a text that is searched and of the text that is looked for,
// which is not longer, or twice 0.
func searchOf(args []ref.Val) (searched, wanted uint64) {
	if len(args) < 2 {
		return 0, 0
	}
	searched, wanted = textBytes(args[0]), textBytes(args[1])
	if searched < wanted {
		return 0, 0
	}
	return searched, wanted
}

func checkProduct(args []ref.Val) error {
	work := 1
	for _, arg := range args {
		work *= max(size(arg), 1)
	}
	if work > maxWork {
		return errWork
	}
	return checkDeep(args)
}

func checkSquare(args []ref.Val) error {
	return checkProduct([]ref.Val{args[0], args[0]})
}

func checkJoin(args []ref.Val) error {
	list, ok := args[0].(traits.Lister)
	if !ok {
		return nil
	}
	total := 0
	for it := list.Iterator(); it.HasNext() == types.True; {
		if total += size(it.Next()); len(args) > 1 {
			total += size(args[1])
		}
		if total > maxWork {
			return errWork
		}
	}
	return nil
}

func checkReplace(args []ref.Val) error {
	if len(args) < 3 {
		return nil
	}
	if size(args[0])/max(size(args[1]), 1)*max(size(args[2]), 1)+size(args[0]) > maxWork {
		return errWork
	}
	return nil
}

// checkDeep bounds values that are walked as a whole. What is shared within a value is
// counted as often as it is met, as the walk meets it.
func checkDeep(args []ref.Val) error {
	budget := maxDeep
	for _, arg := range args {
		if !walk(arg, &budget) {
			return errWork
		}
	}
	return nil
}

func walk(v ref.Val, budget *int) bool {
	if *budget--; *budget < 0 {
		return false
	}
	switch value := v.(type) {
	case traits.Lister:
		for it := value.Iterator(); it.HasNext() == types.True; {
			if !walk(it.Next(), budget) {
				return false
			}
		}
	case traits.Mapper:
		for it := value.Iterator(); it.HasNext() == types.True; {
			if !walk(value.Get(it.Next()), budget) {
				return false
			}
		}
	case *types.Optional:
		return !value.HasValue() || walk(value.GetValue(), budget)
	}
	return true
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

// checkQuantity refuses texts that are cheap to read and dear to compare.
func checkQuantity(text string) error {
	if len(text) > maxQuantityBytes {
		return errQuantity
	}
	_, exponent, ok := strings.Cut(strings.ToLower(text), "e")
	if !ok || exponent == "" || exponent == "i" { // 1E and 1Ei are suffixes
		return nil
	}
	if n, err := strconv.Atoi(exponent); err == nil && n >= -maxQuantityExponent && n <= maxQuantityExponent {
		return nil
	} else if errors.Is(err, strconv.ErrSyntax) {
		return nil // no quantity, which the function says
	}
	return errQuantity
}
