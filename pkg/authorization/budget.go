/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// Budget bounds what the conditions of one request may cost together: cel.CostBudget. All
// evaluators of one request share it, so that a request is decided as its review is. The zero
// value is a whole budget. It is safe for concurrent use.
type Budget struct {
	spent atomic.Uint64
}

var errBudget = fmt.Errorf("%w: the conditions of one request may cost %d together", cel.ErrCost, cel.CostBudget)

// Spend takes the cost of one evaluation from the budget. The last evaluation may overdraw it, by
// less than the limit of one.
func (b *Budget) Spend(cost uint64) { b.spent.Add(cost) }

// Err returns an error that wraps cel.ErrCost if nothing is left. A condition then has no value for
// this request: its outcome is Exhausted.
func (b *Budget) Err() error {
	if b.spent.Load() >= cel.CostBudget {
		return errBudget
	}
	return nil
}

// WithBudget returns a context in which all evaluations share one budget. A context that has a
// budget keeps it.
func WithBudget(ctx context.Context) context.Context {
	return (&Budget{}).In(ctx)
}

// In returns a context with the budget, unless the context has one.
func (b *Budget) In(ctx context.Context) context.Context {
	s := scopeOf(ctx)
	if s.budget != nil {
		return ctx
	}
	s.budget = b
	return s.in(ctx)
}

// BudgetOf returns the budget of a context. It returns a whole one if the context has none.
func BudgetOf(ctx context.Context) *Budget {
	if b := scopeOf(ctx).budget; b != nil {
		return b
	}
	return &Budget{}
}

// PolicyBudgets bound what the conditions of policies may cost while only the request is known:
// cel.AuthorizationBudget for cluster-scoped policies, and cel.NamespacedAuthorizationBudget for the
// policies of each namespace. The budgets are separate, so that authors in a namespace can exhaust nothing
// that policies of the cluster or of another namespace need. The zero value has whole budgets. It is safe for
// concurrent use.
type PolicyBudgets struct {
	mu      sync.Mutex
	cluster uint64
	// namespaced has what was spent, by namespace.
	namespaced map[string]uint64
	// explaining is what explanations have spent.
	explaining uint64
}

// LeftToExplain returns what explanations of decisions may still cost: at first cel.ExplanationBudget. It is a budget of its own,
// so that an explanation changes no decision.
func (b *PolicyBudgets) LeftToExplain() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return cel.ExplanationBudget - b.explaining
}

// SpendToExplain takes the cost of one explanation. If less is left, nothing is left afterwards.
func (b *PolicyBudgets) SpendToExplain(cost uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.explaining += min(cost, cel.ExplanationBudget-b.explaining)
}

// Left returns the cost that the policies of a namespace may still spend. If the namespace is empty, it returns the cost
// that cluster-scoped policies may still spend.
func (b *PolicyBudgets) Left(namespace string) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if namespace == "" {
		return cel.AuthorizationBudget - b.cluster
	}
	return cel.NamespacedAuthorizationBudget - b.namespaced[namespace]
}

// Spend takes the cost of one evaluation from a budget. If less is left, nothing is left afterwards.
func (b *PolicyBudgets) Spend(namespace string, cost uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if namespace == "" {
		b.cluster += min(cost, cel.AuthorizationBudget-b.cluster)
		return
	}
	if b.namespaced == nil {
		b.namespaced = map[string]uint64{}
	}
	b.namespaced[namespace] += min(cost, cel.NamespacedAuthorizationBudget-b.namespaced[namespace])
}

// WithPolicyBudgets returns a context in which all decisions share one PolicyBudgets. A context that has one
// keeps it. Without it, each member of a chain has whole budgets for each decision. It is for
// a caller that makes many decisions for one request.
func WithPolicyBudgets(ctx context.Context) context.Context {
	s := scopeOf(ctx)
	if s.policies != nil {
		return ctx
	}
	s.policies = &PolicyBudgets{}
	return s.in(ctx)
}

// PolicyBudgetsOf returns the budgets that decisions in a context share. It returns whole ones if
// the context has none.
func PolicyBudgetsOf(ctx context.Context) *PolicyBudgets {
	if b := scopeOf(ctx).policies; b != nil {
		return b
	}
	return &PolicyBudgets{}
}
