/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package presence

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/containers"
	"github.com/google/cel-go/common/types"
)

// Bound is the number of steps for one policy, which take about a tenth of a second.
const Bound = 400_000

// The operations with which a condition is evaluated. An object is null for some of them.
const (
	Create = "CREATE"
	Update = "UPDATE"
	Delete = "DELETE"
)

// The variables for objects.
const (
	object    = "object"
	oldObject = "oldObject"
	request   = "request"
	verbField = "verb"
)

// Expression is the checked expression of a variable, which has a name, or of the condition, whose name is empty.
type Expression struct {
	Name string
	AST  *ast.AST
}

// Question asks about the condition of a policy for the objects of one kind.
type Question struct {
	// Expressions are the variables, and the condition as the last one.
	Expressions []Expression
	// Object is the shape of the objects. If it is nil, nothing is known of them.
	Object *Shape
	// Operation is the operation, or empty for a request without objects.
	Operation string
	// Verbs are the verbs of such requests. If there are none, request.verb is not known.
	Verbs []string
	// OnlySurprising asks for the accesses whose failure is a surprise in a condition that allows: those under ! or !=, and those
	// in an operand of || that is not the last one.
	OnlySurprising bool
}

// Missing is an access that may fail.
type Missing struct {
	// Expression is the number of the expression in the question.
	Expression int
	// Place is what may not exist, or may be null, and IsNull says the latter.
	Place  string
	IsNull bool
	// Remedy is what to write instead.
	Remedy string
}

// search tries the runs of one question.
type search struct {
	// verb is request.verb, or empty if it is not known.
	verb string
	*Question

	steps int
	roots map[string]value
	// assumed has the places that are assumed to exist: a finding has told of them.
	assumed map[string]bool
	series  []choice
	next    int // of series
}

// choice is an answer. If it is the second one, both have been tried with the choices before.
type choice struct{ is, isSecond bool }

func (s *search) choose(first bool) bool {
	if s.next == len(s.series) {
		s.series = append(s.series, choice{is: first})
	}
	s.next++
	return s.series[s.next-1].is
}

// advance makes the series the next one, and returns false after the last.
func (s *search) advance() bool {
	for len(s.series) > 0 {
		if last := &s.series[len(s.series)-1]; !last.isSecond {
			*last = choice{is: !last.is, isSecond: true}
			return true
		}
		s.series = s.series[:len(s.series)-1]
	}
	return false
}

// Find returns the accesses that may fail, in the order of the expressions, and what is left of the steps.
func Find(q *Question, steps int) ([]Missing, int) {
	s := &search{Question: q, steps: steps, assumed: map[string]bool{}}
	verbs := q.Verbs
	if len(verbs) == 0 || !slices.ContainsFunc(q.Expressions, readsVerb) {
		verbs = []string{""}
	}
	var found []missing
	for _, s.verb = range verbs {
		found = append(found, s.find()...)
	}
	return s.report(found), max(s.steps, 0)
}

// readsVerb reports whether an expression reads request.verb.
func readsVerb(e Expression) (reads bool) {
	ast.PostOrderVisit(e.AST.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		name, _ := containers.ToQualifiedName(e)
		reads = reads || name == request+"."+verbField
	}))
	return reads
}

// find returns the accesses that may fail for requests with the verb, or with any if it is empty.
func (s *search) find() []missing {
	s.roots = map[string]value{
		object:            {key: object, place: object, shape: s.Object},
		oldObject:         {key: oldObject, place: oldObject, shape: s.Object},
		request:           {key: request, place: request, shape: Request},
		"namespaceObject": {key: "namespaceObject", place: "namespaceObject", shape: Namespace},
	}
	if s.Operation != "" {
		s.roots["operation"] = constantOf(types.String(s.Operation))
	} else {
		s.roots[object], s.roots[oldObject] = unknownOf(object), unknownOf(oldObject)
	}
	null, hasNull := map[string]string{Create: oldObject, Delete: object}[s.Operation]
	if hasNull {
		s.roots[null] = value{kind: constant, constant: types.NullValue, key: null, place: null}
	}
	found, isTrue := s.try(null)
	if !hasNull {
		return found
	}
	isOfNull := func(m missing) bool { return m.place == null }
	first := slices.IndexFunc(found, isOfNull)
	if first < 0 {
		return found
	}
	ofNull := found[first]
	others := slices.DeleteFunc(found, isOfNull)
	s.roots[null] = unknownOf(null)
	more, _ := s.try("")
	others = append(others, more...)
	if isTrue { // otherwise another warning says that the condition is never true for the operation
		others = append(others, ofNull)
	}
	return others
}

// try evaluates the condition with all choices. It returns why it failed, each place once, and whether it was true. A failure
// at the place null does not change the runs after it.
func (s *search) try(null string) (found []missing, isTrue bool) {
	last := len(s.Expressions) - 1
	s.series = nil
	for s.steps > 0 {
		s.next = 0
		r := &run{search: s, chosen: map[string]bool{}, equal: map[string]string{}, variables: map[string]value{}, expression: last}
		condition := s.Expressions[last].AST.Expr()
		result := r.truth(r.eval(condition, nil), condition.ID())
		if s.steps <= 0 {
			break
		}
		isTrue = isTrue || result.isBool(true)
		if m := result.missing; result.kind == failure && !s.assumed[assumption(m)] {
			found = append(found, m)
			s.assumed[assumption(m)] = true
			if m.place != null {
				s.series = nil
				continue
			}
		}
		if !s.advance() {
			break
		}
	}
	return found, isTrue
}

func assumption(m missing) string {
	switch {
	case m.place == "":
		return fmt.Sprint(m.expression, " ", m.id)
	case m.isNull:
		return "null " + m.place
	}
	return m.place
}

// part is a part of an expression: the number of the expression, and the ID of the part.
type part struct {
	expression int
	id         int64
}

// report returns findings, one for each chain of accesses.
func (s *search) report(found []missing) (reported []Missing) {
	trees := make([]*tree, len(s.Expressions))
	for i, e := range s.Expressions {
		trees[i] = newTree(e.AST)
	}
	if s.OnlySurprising {
		surprising := surprises(s.Expressions, trees)
		found = slices.DeleteFunc(found, func(m missing) bool { return !surprising[part{m.expression, m.id}] })
	}
	slices.SortStableFunc(found, func(a, b missing) int { return cmp.Compare(a.expression, b.expression) })
	seen := map[part]bool{}
	for _, m := range found {
		t := trees[m.expression]
		if key := (part{m.expression, t.top(m.id).ID()}); !seen[key] {
			seen[key] = true
			if m.place == "" {
				m.place = t.textOf(t.byID[m.id])
			}
			reported = append(reported, Missing{Expression: m.expression, Place: m.place, IsNull: m.isNull, Remedy: t.remedy(m)})
		}
	}
	return reported
}
