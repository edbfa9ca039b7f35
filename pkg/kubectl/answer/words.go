/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package answer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"
)

// Words returns a condition in plain words if it is simple, and otherwise its text.
//
//	object.spec.x == "dev"                           spec.x is dev
//	oldObject.spec.?x.orValue("") != "dev"           stored spec.x is not dev
//	has(object.spec.x) && object.spec.x in ["a"]     spec.x is set and spec.x is one of a
//	!("a" in object.metadata.?labels.orValue({}))    metadata.labels["a"] is not set
//
// A simple condition is a comparison of one field with a literal, or several of them that are all joined by && or all by ||.
func Words(condition string) string {
	if tree, ok := parse(condition, parser.Macros(parser.AllMacros...)); ok {
		if plain, ok := clause(tree.Expr()); ok {
			return plain
		}
	}
	return condition
}

// Clauses returns the operands of the outermost && and || of a condition, each once. A condition without them is one clause, and an empty one has none.
func Clauses(condition string) (clauses []string) {
	if condition == "" {
		return nil
	}
	tree, ok := parse(condition, parser.Macros(parser.AllMacros...), parser.PopulateMacroCalls(true))
	if !ok {
		return []string{condition}
	}
	for _, e := range termsOf(tree.Expr(), operators.LogicalAnd, operators.LogicalOr) {
		text, err := parser.Unparse(e, tree.SourceInfo())
		if err != nil {
			return []string{condition}
		}
		if !slices.Contains(clauses, text) {
			clauses = append(clauses, text)
		}
	}
	return clauses
}

// parse parses a condition. It returns false if that is not possible.
func parse(condition string, options ...parser.Option) (*ast.AST, bool) {
	p, err := parser.NewParser(append(options, parser.EnableOptionalSyntax(true))...)
	if err != nil {
		return nil, false
	}
	tree, errs := p.Parse(common.NewTextSource(condition))
	return tree, len(errs.GetErrors()) == 0
}

// clause returns the words of a comparison, or of several.
func clause(e ast.Expr) (string, bool) {
	for function, word := range map[string]string{operators.LogicalAnd: " and ", operators.LogicalOr: " or "} {
		terms := termsOf(e, function)
		if len(terms) == 1 {
			continue
		}
		texts := make([]string, len(terms))
		for i, term := range terms {
			text, ok := comparison(term)
			if !ok {
				return "", false
			}
			texts[i] = text
		}
		return strings.Join(texts, word), true
	}
	return comparison(e)
}

// termsOf returns the operands of a tree of calls of some functions, in their order.
func termsOf(e ast.Expr, functions ...string) (terms []ast.Expr) {
	if e.Kind() != ast.CallKind || !slices.Contains(functions, e.AsCall().FunctionName()) {
		return []ast.Expr{e}
	}
	for _, argument := range e.AsCall().Args() {
		terms = append(terms, termsOf(argument, functions...)...)
	}
	return terms
}

// comparisons are the words for operators with a field on the left and a literal on the right.
var comparisons = map[string]string{
	operators.Equals: "is", operators.NotEquals: "is not", operators.Less: "is less than", operators.LessEquals: "is at most",
	operators.Greater: "is more than", operators.GreaterEquals: "is at least",
}

// methods are the words for functions of texts.
var methods = map[string]string{"startsWith": "starts with", "endsWith": "ends with", "contains": "contains"}

// comparison returns the words of an expression without && and ||.
func comparison(e ast.Expr) (string, bool) {
	switch e.Kind() {
	case ast.LiteralKind:
		if b, ok := e.AsLiteral().Value().(bool); ok {
			return map[bool]string{true: "always", false: "never"}[b], true
		}
	case ast.SelectKind:
		return selected(e, "is set", "is true")
	case ast.CallKind:
		return call(e.AsCall())
	default:
	}
	return "", false
}

func call(c ast.CallExpr) (string, bool) {
	args := c.Args()
	switch name := c.FunctionName(); {
	case name == operators.LogicalNot && args[0].Kind() == ast.CallKind:
		f, ok := keyOf(args[0].AsCall())
		return f.name + " is not set", ok
	case name == operators.LogicalNot && args[0].Kind() == ast.SelectKind:
		return selected(args[0], "is not set", "is false")
	case comparisons[name] != "" && len(args) == 2:
		return compared(args[0], name, args[1])
	case name == operators.In && args[1].Kind() == ast.ListKind:
		return oneOf(args[0], args[1].AsList())
	case name == operators.In:
		if f, ok := keyOf(c); ok {
			return f.name + " is set", true
		}
		value, isLiteral := literal(args[0])
		f, ok := leafOf(args[1])
		return f.name + " contains " + value, ok && isLiteral && !f.isOptional && (f.absent == nil || isEmpty(f.absent, ast.ListKind))
	case methods[name] != "" && c.IsMemberFunction() && len(args) == 1:
		value, isLiteral := literal(args[0])
		f, ok := leafOf(c.Target())
		return f.name + " " + methods[name] + " " + value, ok && isLiteral && !f.isOptional && f.absent == nil
	case name == "hasValue" && c.IsMemberFunction() && len(args) == 0:
		f, ok := leafOf(c.Target())
		return f.name + " is set", ok && f.isOptional
	}
	return "", false
}

// keyOf returns the value of a map that an expression tests for a key. A field counts as a map only if {} is its default, as in orValue({}).
func keyOf(c ast.CallExpr) (field, bool) {
	if c.FunctionName() != operators.In || c.Args()[0].Kind() != ast.LiteralKind {
		return field{}, false
	}
	key, isText := c.Args()[0].AsLiteral().(types.String)
	f, ok := leafOf(c.Args()[1])
	return f.at(string(key)), ok && isText && !f.isOptional && f.absent != nil && isEmpty(f.absent, ast.MapKind)
}

// compared returns the words of a comparison. A value for an absent field must not change their meaning: an absent field is not the
// literal.
func compared(left ast.Expr, operator string, right ast.Expr) (string, bool) {
	f, ok := leafOf(left)
	value, isLiteral := literal(right)
	if !ok || !isLiteral {
		return "", false
	}
	if f.absent != nil {
		isEquality := operator == operators.Equals || operator == operators.NotEquals
		if !isEquality || f.absent.Kind() != ast.LiteralKind || f.absent.AsLiteral().Equal(right.AsLiteral()) == types.True {
			return "", false
		}
	}
	return f.name + " " + comparisons[operator] + " " + value, !f.isOptional
}

func oneOf(left ast.Expr, list ast.ListExpr) (string, bool) {
	f, ok := leafOf(left)
	if !ok || f.isOptional || f.absent != nil || len(list.Elements()) == 0 || len(list.OptionalIndices()) > 0 {
		return "", false
	}
	var values []string
	for _, element := range list.Elements() {
		value, isLiteral := literal(element)
		if !isLiteral {
			return "", false
		}
		values = append(values, value)
	}
	return f.name + " is one of " + strings.Join(values, ", "), true
}

// selected returns the words of a field that has() tests, or that is a bool.
func selected(e ast.Expr, tested, value string) (string, bool) {
	if !e.AsSelect().IsTestOnly() {
		f, ok := leafOf(e)
		return f.name + " " + value, ok && !f.isOptional
	}
	operand, ok := fieldOf(e.AsSelect().Operand())
	return operand.child(e.AsSelect().FieldName()).name + " " + tested, ok && operand.absent == nil && !operand.isOptional
}

// field is a field of an object.
type field struct {
	name string
	// isOptional says that the expression is an optional, from .? or [?]. absent is the value of orValue.
	isOptional bool
	absent     ast.Expr
}

func (f field) child(name string) field {
	switch f.name {
	case "":
		f.name = name
	case stored:
		f.name += " " + name
	default:
		f.name += "." + name
	}
	return f
}

// at is the value of a key of a field that is a map.
func (f field) at(key string) field {
	f.name += fmt.Sprintf("[%q]", key)
	return f
}

// leafOf is fieldOf, but the object as a whole is no field.
func leafOf(e ast.Expr) (field, bool) {
	f, ok := fieldOf(e)
	return f, ok && f.name != "" && f.name != stored
}

// stored is the name of oldObject.
const stored = "stored"

// fieldOf returns the field that an expression reads. The roots are object and oldObject.
func fieldOf(e ast.Expr) (field, bool) {
	switch e.Kind() {
	case ast.IdentKind:
		switch e.AsIdent() {
		case "object":
			return field{}, true
		case "oldObject":
			return field{name: stored}, true
		}
	case ast.SelectKind:
		f, ok := fieldOf(e.AsSelect().Operand())
		return f.child(e.AsSelect().FieldName()), ok && f.absent == nil && !e.AsSelect().IsTestOnly()
	case ast.CallKind:
		return fieldOfCall(e.AsCall())
	default:
	}
	return field{}, false
}

func fieldOfCall(c ast.CallExpr) (field, bool) {
	args := c.Args()
	switch name := c.FunctionName(); {
	case isDyn(c):
		return fieldOf(args[0])
	case name == operators.OptSelect || name == operators.Index || name == operators.OptIndex:
		f, ok := fieldOf(args[0])
		if !ok || f.absent != nil || args[1].Kind() != ast.LiteralKind {
			return field{}, false
		}
		key, isText := args[1].AsLiteral().(types.String)
		if name == operators.OptSelect {
			f = f.child(string(key))
		} else {
			f = f.at(string(key))
		}
		f.isOptional = f.isOptional || name != operators.Index
		return f, isText
	case name == "orValue" && c.IsMemberFunction() && len(args) == 1:
		f, ok := fieldOf(c.Target())
		if !ok || !f.isOptional {
			return field{}, false
		}
		f.isOptional, f.absent = false, args[0]
		return f, args[0].Kind() == ast.LiteralKind || isEmpty(args[0], ast.ListKind) || isEmpty(args[0], ast.MapKind)
	}
	return field{}, false
}

// isEmpty reports whether an expression is a list or a map without elements, or dyn() of one.
func isEmpty(e ast.Expr, kind ast.ExprKind) bool {
	if e.Kind() == ast.CallKind && isDyn(e.AsCall()) {
		e = e.AsCall().Args()[0]
	}
	return e.Kind() == kind && (kind == ast.ListKind && len(e.AsList().Elements()) == 0 || kind == ast.MapKind && len(e.AsMap().Entries()) == 0)
}

// isDyn reports whether a call is dyn() of one operand. It counts the operands, because another server's condition may never have been type-checked.
func isDyn(c ast.CallExpr) bool {
	return c.FunctionName() == "dyn" && !c.IsMemberFunction() && len(c.Args()) == 1
}

// literal returns a literal as people write it. Texts that could be misread have quotes.
func literal(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	switch v := e.AsLiteral().(type) {
	case types.String:
		if text := string(v); isPlain(text) {
			return text, true
		}
		return strconv.Quote(string(v)), true
	case types.Int, types.Uint, types.Bool, types.Double:
		return fmt.Sprint(v.Value()), true
	}
	return "", false
}

// isPlain reports whether a text is a word that looks like no number and no boolean.
func isPlain(text string) bool {
	switch text {
	case "", "true", "false", "null", "and", "or", "always", "never":
		return false
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return false
	}
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._/:@"
	return !strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune(plain, r) })
}
