/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"context"
	"fmt"
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

type budgetKey struct{}

// WithBudget returns a context in which all evaluations share one budget. A context that has a
// budget keeps it.
func WithBudget(ctx context.Context) context.Context {
	return (&Budget{}).in(ctx)
}

// in returns a context with the budget, unless the context has one.
func (b *Budget) in(ctx context.Context) context.Context {
	if _, ok := ctx.Value(budgetKey{}).(*Budget); ok {
		return ctx
	}
	return context.WithValue(ctx, budgetKey{}, b)
}

// BudgetOf returns the budget of a context. It returns a whole one if the context has none.
func BudgetOf(ctx context.Context) *Budget {
	if b, ok := ctx.Value(budgetKey{}).(*Budget); ok {
		return b
	}
	return &Budget{}
}
