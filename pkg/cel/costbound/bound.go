/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package costbound

import (
	"cmp"
	"fmt"
	"math"
	"sync"

	"github.com/google/cel-go/common/ast"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// Bound is an upper bound of what some expressions cost for one request. The zero value is the bound of no expressions. A Bound is immutable.
type Bound struct {
	expressions []expression
	unbounded   string
	// walk is a walk at its beginning.
	walk walk
	// same are the costs for objects of all sizes, unless the number of steps of a macro depends on the size.
	same []cost
}

// expression is a parsed expression. It has a name if it is a variable.
type expression struct {
	name string
	root ast.Expr
}

// Cost returns the bound of the cost that cel-go counts, for an object, and a stored object, of at most the given number of bytes as
// JSON. kube-apiserver ends the evaluation of an expression at cel.CostLimit.
func (b Bound) Cost(bytes int) uint64 {
	return b.total(bytes, func(e cost) float64 { return min(e.counted.plus(e.claimed).at(float64(bytes)), cel.CostLimit) })
}

// CostWithGroups is like Cost, for a user with at most that many groups.
func (b Bound) CostWithGroups(bytes, groups int) uint64 {
	b.walk.groups, b.same = float64(groups), nil
	return b.Cost(bytes)
}

// Work returns the bound of all work, in units of a twelfth of a microsecond. A unit of cost is such a unit. It returns math.MaxUint64 if
// there is no bound.
func (b Bound) Work(bytes int) uint64 {
	if b.unbounded != "" {
		return math.MaxUint64
	}
	return b.total(bytes, func(e cost) float64 {
		// Each variable that is read costs a unit, so that the limit also ends the search.
		//guard:cost-searched
		return min(e.counted.at(float64(bytes)), cel.CostLimit) + min(e.searched.at(float64(bytes)), cel.CostLimit*e.deepest) + e.unseen.at(float64(bytes))
	})
}

// total returns the sum of a bound over all expressions, for objects of a size.
func (b Bound) total(bytes int, of func(cost) float64) uint64 {
	total := 0.0
	costs := b.same
	if costs == nil {
		costs, _, _ = b.costs(float64(bytes))
	}
	for _, c := range costs {
		total += of(c)
	}
	if total >= math.MaxInt64 {
		return math.MaxUint64
	}
	return uint64(math.Ceil(total))
}

// costs returns the costs of the expressions for objects of a size, whether they depend on the size, and the name of a function whose work no limit ends,
// or "".
func (b Bound) costs(size float64) (costs []cost, hasSteps bool, unbounded string) {
	w := b.walk
	w.variables, w.size = map[string]value{}, size
	for _, e := range b.expressions {
		r := w.of(e.root)
		if e.name != "" {
			w.variables[e.name] = r.value
		}
		costs = append(costs, r.cost)
		unbounded = cmp.Or(unbounded, w.unbounded)
		if r.cost.unseen.isInfinite() {
			unbounded = cmp.Or(unbounded, "a function of two values of any size")
		}
	}
	return costs, w.hasSteps, unbounded
}

// Unbounded returns the name of a function whose work in one expression no limit ends, or "".
func (b Bound) Unbounded() string { return b.unbounded }

// environment has the functions and the macros of ValidatingAdmissionPolicies.
var environment = sync.OnceValues(func() (*cel.Environment, error) { return cel.NewAdmissionEnvironment() })

// conditionsOfABarrier is how many times as long as an expression of an author kube-apiserver may take to compile a barrier, which has the condition once for
// each class of requests: a tenth of a second.
const conditionsOfABarrier = 4

// maxNodes bounds the parts of one expression of a barrier, whose macros are expanded. kube-apiserver takes some 10 µs for each.
const maxNodes = 32768

var errNodes = fmt.Errorf("its macros expand to more than %d parts", maxNodes)

// Of returns the bound of the expressions of a ValidatingAdmissionPolicy. It returns an error if an expression cannot be parsed, or if kube-apiserver would take
// too long to compile it.
func Of(policy *admissionregistrationv1.ValidatingAdmissionPolicy) (Bound, error) {
	e, err := environment()
	if err != nil {
		return Bound{}, err
	}
	env, guard := e.Engine().Env, e.Engine().Guard
	b := Bound{walk: walk{groups: maxGroups, functions: env.Functions(), object: typesOfObject(policy.Spec.MatchConstraints), isValidated: areValidated(policy.Spec.MatchConstraints), widths: map[string]int{}}}
	var mistake error
	add := func(name, text string) {
		parsed, issues := env.Parse(text)
		if mistake = cmp.Or(mistake, issues.Err()); mistake != nil {
			return
		}
		work, err := guard.CheckTypeWorkOf(parsed.NativeRep().Expr(), conditionsOfABarrier)
		if err == nil && work.Nodes > maxNodes {
			err = errNodes
		}
		//guard:cost-compilation
		mistake = err
		b.expressions = append(b.expressions, expression{name, parsed.NativeRep().Expr()})
	}
	for _, c := range policy.Spec.MatchConditions {
		add("", c.Expression)
	}
	for _, v := range policy.Spec.Variables {
		add(v.Name, v.Expression)
	}
	for _, v := range policy.Spec.Validations {
		add("", v.Expression)
	}
	if mistake != nil {
		return Bound{}, fmt.Errorf("expression %w: %w", cel.ErrCompile, mistake)
	}
	costs, hasSteps, unbounded := b.costs(math.Inf(1))
	if b.unbounded = unbounded; !hasSteps {
		b.same = costs
	}
	return b, nil
}

// literalInt returns the number of an integer literal.
func literalInt(e ast.Expr) (float64, bool) {
	if e == nil || e.Kind() != ast.LiteralKind {
		return 0, false
	}
	n, ok := e.AsLiteral().Value().(int64)
	return float64(n), ok
}

// literalText returns the text of a string literal.
func literalText(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	text, ok := e.AsLiteral().Value().(string)
	return text, ok
}
