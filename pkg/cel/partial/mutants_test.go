/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"cmp"
	"os"
	"regexp"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/mutation"
)

// mutant is the package, or another beneath pkg/cel, without one of its guards: something is left out,
// or replaced.
type mutant struct {
	name, file, old, new string
	// test is the pattern of the tests that must notice, the oracle if it is empty.
	test string
}

// mutants are the guards that keep what partial evaluation makes of an expression the same
// expression. None may be deleted without the oracle, or the named test, noticing. What only makes residuals
// shorter is not among them.
var mutants = []mutant{
	{name: "root: what has become dyn", file: "evaluation.go", old: "if tree.changed {", new: "if false {"},
	{name: "a variable that has become dyn", file: "evaluation.go", old: "if slices.Contains(e.retyped, s.name) {", new: "if false && slices.Contains(e.retyped, s.name) {"},
	{name: "constants of inferred type", file: "evaluation.go", old: "&& !hasInferredTypes(s.node)", new: ""},
	{name: "select: changed", file: "evaluation.go", old: "result.changed = result.target.changed && !s.test", new: ""},
	{name: "lazy: index", file: "evaluation.go", old: "operators.Index: true, ", new: ""},
	{name: "lazy: optional index", file: "evaluation.go", old: "operators.OptIndex: true,", new: ""},
	{name: "lazy: in", file: "evaluation.go", old: "operators.In: true,", new: ""},
	{name: "lazy: or", file: "evaluation.go", old: `"or": true,`, new: ""},
	{name: "lazy: orValue", file: "evaluation.go", old: `"or": true, "orValue": true`, new: `"or": true`},
	{name: "call: hidden arguments", file: "evaluation.go", old: "operand = hideFromPlanner(call.name, number, operand)", new: ""},
	{name: "call: in constants", file: "evaluation.go", old: "&& len(original.free) == 0 && !p.isError() {", new: "&& false {"},
	{name: "call: the overload stays the same", file: "evaluation.go", old: "if call.overloaded {", new: "if false {"},
	{name: "call: changed receiver", file: "evaluation.go", old: "result.changed = result.target.changed\n\t}\n\tfor", new: "}\n\tfor"},
	{name: "call: changed argument", file: "evaluation.go", old: "result.changed = result.changed || operand.changed\n\t}\n\tif s.isBool()", new: "}\n\tif s.isBool()"},
	{name: "call: what changed is dyn", file: "evaluation.go", old: "return part{tree: asDyn(&result)} // with", new: "// with"},
	{name: "logic: error", file: "evaluation.go", old: "if failure != nil {\n\t\tremaining = append(remaining, errorTerm())", new: "if failure != nil {"},
	{name: "logic: what may be no bool", file: "evaluation.go", old: "if only.isBool() {", new: "if true {"},
	{name: "logic: a value that is no bool", file: "evaluation.go", old: "case failure == nil:\n\t\t\tfailure =", new: "case failure == nil:\n\t\t\t_ ="},
	{name: "conditional: changed", file: "evaluation.go", old: "result.changed = result.args[1].changed || result.args[2].changed", new: ""},
	{name: "branch: of another type", file: "evaluation.go", old: "!taken.typ.IsExactType(s.typ) || ", new: ""},
	{name: "branch: what a macro binds", file: "evaluation.go", old: " || e.isBinder(p.tree)", new: ""},
	{name: "aggregate: changed", file: "evaluation.go", old: "if result.changed { // the checker wants", new: "if false { //"},
	{name: "aggregate: optional elements stay optional", file: "evaluation.go", old: "result.args[i] = optionalOf(arg)", new: "result.args[i] = asDyn(arg)"},

	{name: "macro: the dyn around its range", file: "macro.go", old: "result.target = asDyn(result.target) //", new: "//"},
	{name: "macro: retyped", file: "macro.go", old: "if result.changed && retypes(s) {", new: "if false {"},
	{name: "retypes: optionals", file: "macro.go", old: `HasPrefix(s.name, "opt")`, new: `HasPrefix(s.name, "none")`},
	{name: "retypes: elements", file: "macro.go", old: " || slices.ContainsFunc(s.target.typ.Parameters(), known)", new: " || s.target == nil && known(nil)"},
	{name: "unroll: index and element", file: "macro.go", old: "[]ref.Val{i, element}", new: "[]ref.Val{element, i}"},
	{name: "unroll: key and value", file: "macro.go", old: "[]ref.Val{key, collection.Get(key)}", new: "[]ref.Val{collection.Get(key), key}"},
	{name: "plan: binders end with their macro", file: "plan.go", old: "inner := maps.Clone(known)", new: "inner := known\n\t\t_ = maps.Clone(known)"},
	{name: "unroll: an error in all", file: "macro.go", old: "case failure != nil:\n\t\tremaining =", new: "case failure != nil && s.name == operators.All:\n\tcase failure != nil:\n\t\tremaining =", test: "^TestUnrollingKeepsErrors$"},
	{name: "unroll: an error in exists", file: "macro.go", old: "case failure != nil:\n\t\tremaining =", new: "case failure != nil && s.name != operators.All:\n\tcase failure != nil:\n\t\tremaining =", test: "^TestUnrollingKeepsErrors$"},
	{name: "unroll: what may be no bool", file: "macro.go", old: "&& !remaining[0].isBool():", new: "&& false:"},
	{name: "unroll: a value that is no bool", file: "macro.go", old: "failure = types.NewErr(", new: "_ = types.NewErr("},

	{name: "operand: what made a value", file: "operand.go", old: "!n.typ.IsExactType(original.typ) {", new: "false {"},
	{name: "operand: what cannot be expressed", file: "operand.go", old: "e.stopped = errInexpressible", new: ""},
	{name: "attempt", file: "operand.go", old: "if errors.Is(e.stopped, errInexpressible) ||", new: "if false ||"},
	{name: "inferred: calls", file: "operand.go", old: "(n.kind == callNode && n.result == nil) || ", new: ""},
	{name: "inferred: empty", file: "operand.go", old: "isEmptyAggregate(n) || (n.kind", new: "(n.kind"},
	{name: "substituted: values", file: "operand.go", old: "case p.isValue():\n\t\treturn true", new: "case p.isValue():\n\t\treturn false"},
	{name: "substituted: residuals", file: "operand.go", old: "return !dependsOnVariables(p.tree)", new: "return false"},
	{name: "hide: keys", file: "operand.go", old: "argument == 1 && n.kind != constantNode", new: "false"},
	{name: "hide: conversions", file: "operand.go", old: `case "bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint", "matches"`, new: `case "matches"`},
	{name: "hide: patterns", file: "operand.go", old: `"matches", "find", "findAll", "format":`, new: `"format":`},
	{name: "hide: formats", file: "operand.go", old: `, "format":`, new: `:`},
	{name: "hide: numbers beside in", file: "operand.go", old: "if argument == 1 && mayHoldNumbers(n) {", new: "if false {"},
	{name: "hide: numbers of unknown type beside in", file: "operand.go", old: "types.DoubleKind, types.DynKind:", new: "types.DoubleKind:"},
	{name: "hide: changed", file: "operand.go", old: "changed: n.changed,", new: ""},

	{name: "literal: the sign of a duration", file: "literal.go", old: "if nanos < 0 && nanos > -1e9 {", new: "if false {"},
	{name: "literal: the nanoseconds of a timestamp", file: "literal.go", old: "05.999999999Z07:00", new: "05Z07:00"},
	{name: "literal: zero below zero", file: "printer.go", old: "strconv.FormatFloat(float64(value), 'g'", new: "strconv.FormatFloat(float64(value)+0, 'g'"},
	{name: "literal: all digits of a double", file: "printer.go", old: "'g', -1, 64)", new: "'g', 16, 64)"},
	{name: "never true: one of two", file: "result.go", old: "return !slices.ContainsFunc(n.args, func(arg *node) bool { return !neverTrue(arg) })", new: "return slices.ContainsFunc(n.args, neverTrue)"},
	{name: "literal: of another type", file: "literal.go", old: "n.typ.IsExactType(want) && !isEmptyAggregate(n)", new: "!isEmptyAggregate(n)"},
	{name: "literal: empty", file: "literal.go", old: "n.typ.IsExactType(want) && !isEmptyAggregate(n)", new: "n.typ.IsExactType(want)"},
	{name: "literal: optional.none", file: "literal.go", old: ` || (n.kind == callNode && n.name == "optional.none")`, new: ""},
	{name: "literal: optional.of nothing", file: "literal.go", old: "inner = asDyn(inner)", new: ""},
	{name: "uniform: types", file: "literal.go", old: "!e.typ.IsExactType(first) || isEmptyAggregate(e)", new: "isEmptyAggregate(e)"},
	{name: "uniform: empty", file: "literal.go", old: " || isEmptyAggregate(e) {", new: " {"},

	{name: "bool: both branches", file: "tree.go", old: "n.args[1].isBool() && n.args[2].isBool()", new: "true"},
	{name: "results: every overload", file: "tree.go", old: "if i > 0 && (s.result", new: "if i < 0 && (s.result"},
	{name: "results: concrete", file: "tree.go", old: " || !isConcrete(result)", new: ""},

	{name: "bound: whole objects", file: "../bound/form.go", old: "if len(path) == 0 || !t.IsObject() {\n\t\tf.all = true", new: "if len(path) == 0 || !t.IsObject() {"},
	{name: "bound: the request of the condition", file: "../bound/compiler.go", old: "return v.request, true", new: "return v.Values.ResolveName(name)"},

	{name: "contained: calls", file: "../internal/guard/panics.go", old: "return containedCall{node}, nil", new: "return i, nil"},
	{name: "contained: maps", file: "../internal/guard/panics.go", old: "return containedConstructor{node}, nil", new: "return i, nil"},
	{name: "contained: costs of lists", file: "../internal/guard/guard.go", old: ", cel.CostTrackerOptions(listTrackers()...)", new: ""},
	{name: "contained: sets of constants", file: "../internal/guard/panics.go", old: "return []interpreter.InterpretableV2{hashable{args[0], longest}, args[1]}", new: "return args"},
	{name: "contained: keys", file: "../internal/guard/panics.go", old: "[]ref.Val{hashableValue(args[0]), args[1]}", new: "args"},
}

// suite is the oracle with as many cases as it takes, and the mutants that it must notice.
func suite() mutation.Suite {
	s := mutation.Suite{Package: "pkg/cel/partial", Test: "^TestOracle$", Env: []string{"ORACLE_CASES=1000000000", "ORACLE_FAILURES=1"}}
	for _, m := range mutants {
		s.Mutants = append(s.Mutants, mutation.Mutant{Name: m.name, File: m.file, Old: m.old, New: m.new, Test: m.test})
	}
	return s
}

// TestMutantsExist keeps the table true with the code.
func TestMutantsExist(t *testing.T) {
	t.Parallel()
	suite().Exist(t)
}

// TestMutants runs the oracle without each of the guards whose names match MUTANTS, one
// after the other, and fails for those that it does not miss. It runs the seed of
// ORACLE_SEED. All of them take some minutes, and are for `make mutants`; one that is
// noticed at once shows in every test run that deleting a guard is noticed at all.
func TestMutants(t *testing.T) {
	pattern := cmp.Or(os.Getenv("MUTANTS"), "^logic: error$")
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		t.Fatal(err)
	}
	suite().Run(t, wanted)
}
