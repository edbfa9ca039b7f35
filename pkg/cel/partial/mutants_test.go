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
}

// mutants are the guards that keep what partial evaluation makes of an expression the same
// expression. None may be deleted without the oracle noticing. What only makes residuals
// shorter is not among them.
var mutants = []mutant{
	{"root: what has become dyn", "evaluation.go", "if tree.changed {", "if false {"},
	{"a variable that has become dyn", "evaluation.go", "if slices.Contains(e.retyped, s.name) {", "if false && slices.Contains(e.retyped, s.name) {"},
	{"constants of inferred type", "evaluation.go", "&& !hasInferredTypes(s.node)", ""},
	{"select: changed", "evaluation.go", "result.changed = result.target.changed && !s.test", ""},
	{"lazy: index", "evaluation.go", "operators.Index: true, ", ""},
	{"lazy: optional index", "evaluation.go", "operators.OptIndex: true,", ""},
	{"lazy: in", "evaluation.go", "operators.In: true,", ""},
	{"lazy: or", "evaluation.go", `"or": true,`, ""},
	{"lazy: orValue", "evaluation.go", `"or": true, "orValue": true`, `"or": true`},
	{"call: hidden arguments", "evaluation.go", "operand = hideFromPlanner(call.name, number, operand)", ""},
	{"call: in constants", "evaluation.go", "&& len(original.free) == 0 && !p.isError() {", "&& false {"},
	{"call: the overload stays the same", "evaluation.go", "if call.overloaded {", "if false {"},
	{"call: changed receiver", "evaluation.go", "result.changed = result.target.changed\n\t}\n\tfor", "}\n\tfor"},
	{"call: changed argument", "evaluation.go", "result.changed = result.changed || operand.changed\n\t}\n\tif s.isBool()", "}\n\tif s.isBool()"},
	{"call: what changed is dyn", "evaluation.go", "return part{tree: asDyn(&result)} // with", "// with"},
	{"logic: error", "evaluation.go", "if failure != nil {\n\t\tremaining = append(remaining, errorTerm())", "if failure != nil {"},
	{"logic: what may be no bool", "evaluation.go", "if only.isBool() {", "if true {"},
	{"logic: a value that is no bool", "evaluation.go", "case failure == nil:\n\t\t\tfailure =", "case failure == nil:\n\t\t\t_ ="},
	{"conditional: changed", "evaluation.go", "result.changed = result.args[1].changed || result.args[2].changed", ""},
	{"branch: of another type", "evaluation.go", "!taken.typ.IsExactType(s.typ) || ", ""},
	{"branch: what a macro binds", "evaluation.go", " || e.isBinder(p.tree)", ""},
	{"aggregate: changed", "evaluation.go", "if result.changed { // the checker wants", "if false { //"},
	{"aggregate: optional elements stay optional", "evaluation.go", "result.args[i] = optionalOf(arg)", "result.args[i] = asDyn(arg)"},

	{"macro: the dyn around its range", "macro.go", "result.target = asDyn(result.target) //", "//"},
	{"macro: retyped", "macro.go", "if result.changed && retypes(s) {", "if false {"},
	{"retypes: optionals", "macro.go", `HasPrefix(s.name, "opt")`, `HasPrefix(s.name, "none")`},
	{"retypes: elements", "macro.go", " || slices.ContainsFunc(s.target.typ.Parameters(), known)", " || s.target == nil && known(nil)"},
	{"unroll: index and element", "macro.go", "[]ref.Val{i, element}", "[]ref.Val{element, i}"},
	{"unroll: key and value", "macro.go", "[]ref.Val{key, collection.Get(key)}", "[]ref.Val{collection.Get(key), key}"},
	{"plan: binders end with their macro", "plan.go", "inner := maps.Clone(known)", "inner := known\n\t\t_ = maps.Clone(known)"},
	{"unroll: error", "macro.go", "remaining = append(remaining, errorTerm())", ""},
	{"unroll: what may be no bool", "macro.go", "&& !remaining[0].isBool():", "&& false:"},
	{"unroll: a value that is no bool", "macro.go", "failure = types.NewErr(", "_ = types.NewErr("},

	{"operand: what made a value", "operand.go", "!n.typ.IsExactType(original.typ) {", "false {"},
	{"operand: what cannot be expressed", "operand.go", "e.stopped = errInexpressible", ""},
	{"attempt", "operand.go", "if errors.Is(e.stopped, errInexpressible) ||", "if false ||"},
	{"inferred: calls", "operand.go", "(n.kind == callNode && n.result == nil) || ", ""},
	{"inferred: empty", "operand.go", "isEmptyAggregate(n) || (n.kind", "(n.kind"},
	{"substituted: values", "operand.go", "case p.isValue():\n\t\treturn true", "case p.isValue():\n\t\treturn false"},
	{"substituted: residuals", "operand.go", "return !dependsOnVariables(p.tree)", "return false"},
	{"hide: keys", "operand.go", "argument == 1 && n.kind != constantNode", "false"},
	{"hide: conversions", "operand.go", `case "bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint", "matches"`, `case "matches"`},
	{"hide: patterns", "operand.go", `"matches", "find", "findAll", "format":`, `"format":`},
	{"hide: formats", "operand.go", `, "format":`, `:`},
	{"hide: numbers beside in", "operand.go", "if argument == 1 && mayHoldNumbers(n) {", "if false {"},
	{"hide: numbers of unknown type beside in", "operand.go", "types.DoubleKind, types.DynKind:", "types.DoubleKind:"},
	{"hide: changed", "operand.go", "changed: n.changed,", ""},

	{"literal: the sign of a duration", "literal.go", "if nanos < 0 && nanos > -1e9 {", "if false {"},
	{"literal: the nanoseconds of a timestamp", "literal.go", "05.999999999Z07:00", "05Z07:00"},
	{"literal: zero below zero", "printer.go", "strconv.FormatFloat(float64(value), 'g'", "strconv.FormatFloat(float64(value)+0, 'g'"},
	{"literal: all digits of a double", "printer.go", "'g', -1, 64)", "'g', 16, 64)"},
	{"never true: one of two", "result.go", "return !slices.ContainsFunc(n.args, func(arg *node) bool { return !neverTrue(arg) })", "return slices.ContainsFunc(n.args, neverTrue)"},
	{"literal: of another type", "literal.go", "n.typ.IsExactType(want) && !isEmptyAggregate(n)", "!isEmptyAggregate(n)"},
	{"literal: empty", "literal.go", "n.typ.IsExactType(want) && !isEmptyAggregate(n)", "n.typ.IsExactType(want)"},
	{"literal: optional.none", "literal.go", ` || (n.kind == callNode && n.name == "optional.none")`, ""},
	{"literal: optional.of nothing", "literal.go", "inner = asDyn(inner)", ""},
	{"uniform: types", "literal.go", "!e.typ.IsExactType(first) || isEmptyAggregate(e)", "isEmptyAggregate(e)"},
	{"uniform: empty", "literal.go", " || isEmptyAggregate(e) {", " {"},

	{"bool: both branches", "tree.go", "n.args[1].isBool() && n.args[2].isBool()", "true"},
	{"results: every overload", "tree.go", "if i > 0 && (s.result", "if i < 0 && (s.result"},
	{"results: concrete", "tree.go", " || !isConcrete(result)", ""},

	{"bound: whole objects", "../bound/form.go", "if len(path) == 0 || !t.IsObject() {\n\t\tf.all = true", "if len(path) == 0 || !t.IsObject() {"},
	{"bound: the request of the condition", "../bound/compiler.go", "return v.request, true", "return v.Values.ResolveName(name)"},

	{"contained: calls", "../internal/guard/panics.go", "return containedCall{node}, nil", "return i, nil"},
	{"contained: maps", "../internal/guard/panics.go", "return containedConstructor{node}, nil", "return i, nil"},
	{"contained: costs of lists", "../internal/guard/guard.go", ", cel.CostTrackerOptions(listTrackers()...)", ""},
	{"contained: sets of constants", "../internal/guard/panics.go", "return []interpreter.InterpretableV2{hashable{args[0], longest}, args[1]}", "return args"},
	{"contained: keys", "../internal/guard/panics.go", "[]ref.Val{hashableValue(args[0]), args[1]}", "args"},
}

// suite is the oracle with as many cases as it takes, and the mutants that it must notice.
func suite() mutation.Suite {
	s := mutation.Suite{Package: "pkg/cel/partial", Test: "^TestOracle$", Env: []string{"ORACLE_CASES=1000000000", "ORACLE_FAILURES=1"}}
	for _, m := range mutants {
		s.Mutants = append(s.Mutants, mutation.Mutant{Name: m.name, File: m.file, Old: m.old, New: m.new})
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
