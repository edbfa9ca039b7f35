/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package costbound

import (
	"fmt"
	"math"
	"sync"

	"github.com/google/cel-go/common/ast"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// Bound is an upper bound of what some expressions cost for one request. The zero value is the bound of no expressions. A Bound is immutable.
type Bound struct {
	expressions []cost
	unbounded   string
}

// Cost returns the bound of the cost that cel-go counts, for an object, and a stored object, of at most the given number of bytes as
// JSON. kube-apiserver ends the evaluation of an expression at cel.CostLimit.
func (b Bound) Cost(bytes int) uint64 {
	return b.total(func(e cost) float64 { return min(e.counted.at(float64(bytes)), cel.CostLimit) })
}

// Work returns the bound of all work, in units of a twelfth of a microsecond. A unit of cost is such a unit. It returns math.MaxUint64 if
// there is no bound.
func (b Bound) Work(bytes int) uint64 {
	if b.unbounded != "" {
		return math.MaxUint64
	}
	return b.total(func(e cost) float64 {
		counted := e.counted.at(float64(bytes))
		share := min(1, cel.CostLimit/max(counted, 1))
		if math.IsInf(counted, 1) {
			return cel.CostLimit + e.unseen.at(float64(bytes))
		}
		return share*(counted+e.searched.at(float64(bytes))) + e.unseen.at(float64(bytes))
	})
}

// total returns the sum of a bound over all expressions.
func (b Bound) total(of func(cost) float64) uint64 {
	total := 0.0
	for _, e := range b.expressions {
		total += of(e)
	}
	if total >= math.MaxInt64 {
		return math.MaxUint64
	}
	return uint64(math.Ceil(total))
}

// Unbounded returns the name of a function whose work in one expression no limit ends, or "".
func (b Bound) Unbounded() string { return b.unbounded }

// environment has the functions and the macros of ValidatingAdmissionPolicies.
var environment = sync.OnceValues(func() (*cel.Environment, error) { return cel.NewAdmissionEnvironment() })

// Of returns the bound of the expressions of a ValidatingAdmissionPolicy, which must have been compiled before. It returns an error if an
// expression cannot be parsed.
func Of(policy *admissionregistrationv1.ValidatingAdmissionPolicy) (Bound, error) {
	e, err := environment()
	if err != nil {
		return Bound{}, err
	}
	env := e.Engine().Env
	b, w := Bound{}, &walk{functions: env.Functions(), object: typesOfObject(policy.Spec.MatchConstraints), variables: map[string]value{}}
	var mistake error
	add := func(text string) value {
		parsed, issues := env.Parse(text)
		if mistake == nil {
			mistake = issues.Err()
		}
		if mistake != nil {
			return value{}
		}
		result := w.of(parsed.NativeRep().Expr())
		b.expressions = append(b.expressions, result.cost)
		switch {
		case w.unbounded != "":
			b.unbounded = w.unbounded
		case result.cost.unseen.isInfinite():
			b.unbounded = "a function of two values of any size"
		}
		return result.value
	}
	for _, c := range policy.Spec.MatchConditions {
		add(c.Expression)
	}
	for _, v := range policy.Spec.Variables {
		w.variables[v.Name] = add(v.Expression)
	}
	for _, v := range policy.Spec.Validations {
		add(v.Expression)
	}
	if mistake != nil {
		return Bound{}, fmt.Errorf("expression %w: %w", cel.ErrCompile, mistake)
	}
	return b, nil
}

// literalText returns the text of a string literal.
func literalText(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	text, ok := e.AsLiteral().Value().(string)
	return text, ok
}
