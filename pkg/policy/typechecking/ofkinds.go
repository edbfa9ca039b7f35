/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package typechecking

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/presence"
	"github.com/proviso-authz/proviso/pkg/excerpt"
)

// maxComparedBytes bounds how much of a text a warning shows.
const maxComparedBytes = 64

// kindFields are the fields of an object that its resource decides, with what they are for a kind.
var kindFields = map[string]func(schema.GroupVersionKind) string{
	"kind":       func(kind schema.GroupVersionKind) string { return kind.Kind },
	"apiVersion": func(kind schema.GroupVersionKind) string { return kind.GroupVersion().String() },
}

// warnOfKinds adds a warning for each text with which an expression compares the kind or the version of an object, and which no object of
// the rules has. kinds are all kinds of the rules.
func warnOfKinds(checked []presence.Expression, kinds []schema.GroupVersionKind, policy *policyv1alpha1.AuthorizationPolicySpec, found [][]policyv1alpha1.ExpressionWarning) {
	for i, expression := range checked {
		seen := sets.New[string]()
		for _, call := range ast.MatchDescendants(ast.NavigateAST(expression.AST), ast.KindMatcher(ast.CallKind)) {
			of, texts := comparedWithKind(call.AsCall())
			for _, text := range texts {
				var known []string
				for _, kind := range kinds {
					known = append(known, kindFields[of[strings.LastIndex(of, ".")+1:]](kind))
				}
				if known = sets.List(sets.New(known...)); slices.Contains(known, text) || seen.Has(of+text) {
					continue
				}
				seen.Insert(of + text)
				addWarning(policy, i, fmt.Sprintf("%s is never %q: for the resources of the rules it is %s", of, excerpt.Of(text, maxComparedBytes), strings.Join(known, " or ")), found)
			}
		}
	}
}

// comparedWithKind returns the field that a call compares, as object.kind, and the constant texts with which it does. It returns nothing for other calls.
func comparedWithKind(call ast.CallExpr) (of string, texts []string) {
	if len(call.Args()) != 2 || !slices.Contains([]string{operators.Equals, operators.NotEquals, operators.In}, call.FunctionName()) {
		return "", nil
	}
	left, right := call.Args()[0], call.Args()[1]
	if of := kindFieldOf(left); of != "" {
		return of, textsOf(right)
	}
	if of := kindFieldOf(right); of != "" {
		return of, textsOf(left)
	}
	return "", nil
}

// kindFieldOf returns the name of a field of kindFields of an object, or "".
func kindFieldOf(e ast.Expr) string {
	if e.Kind() != ast.SelectKind || e.AsSelect().IsTestOnly() || kindFields[e.AsSelect().FieldName()] == nil {
		return ""
	}
	of := e.AsSelect().Operand()
	if of.Kind() != ast.IdentKind || of.AsIdent() != string(cel.Object) && of.AsIdent() != string(cel.OldObject) {
		return ""
	}
	return of.AsIdent() + "." + e.AsSelect().FieldName()
}

// textsOf returns a constant text, or those in a list.
func textsOf(e ast.Expr) (texts []string) {
	if e.Kind() == ast.LiteralKind {
		if text, ok := e.AsLiteral().Value().(string); ok {
			return []string{text}
		}
	}
	if e.Kind() == ast.ListKind {
		for _, element := range e.AsList().Elements() {
			texts = append(texts, textsOf(element)...)
		}
	}
	return texts
}
