/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
)

// TestBudgetEndsOnce spends the budget of a request: the last evaluation may overdraw it, and nothing fills it again.
func TestBudgetEndsOnce(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		spent []uint64
		want  bool // that something is left
	}{
		{name: "nothing was spent", want: true},
		{name: "nothing costs nothing", spent: []uint64{0, 0}, want: true},
		{name: "one unit is left", spent: []uint64{cel.CostBudget - 1}, want: true},
		{name: "all of it", spent: []uint64{cel.CostBudget}},
		{name: "all of it, in parts", spent: []uint64{cel.CostBudget - 1, 1}},
		{name: "the last one overdraws it", spent: []uint64{cel.CostBudget - 1, cel.CostLimit}},
		{name: "nothing more is spent", spent: []uint64{cel.CostBudget, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := &authorization.Budget{}
			for _, cost := range tc.spent {
				b.Spend(cost)
			}
			err := b.Err()
			if (err == nil) != tc.want || err != nil && !errors.Is(err, cel.ErrCost) {
				t.Errorf("got %v, want something left %v", err, tc.want)
			}
		})
	}
}

// TestBudgetIsShared checks that all evaluations for one request spend the same budget, also at the same time, and that two
// requests have different budgets.
func TestBudgetIsShared(t *testing.T) {
	t.Parallel()
	ctx := authorization.WithBudget(t.Context())
	inner := authorization.WithBudget(ctx)
	if authorization.BudgetOf(ctx) != authorization.BudgetOf(inner) {
		t.Error("an inner context has a budget of its own, so that a condition could be evaluated without end")
	}
	if got := authorization.BudgetOf((&authorization.Budget{}).In(ctx)); got != authorization.BudgetOf(ctx) {
		t.Error("an evaluator replaces the budget of its request")
	}
	if authorization.BudgetOf(authorization.WithBudget(t.Context())) == authorization.BudgetOf(ctx) {
		t.Error("two requests have the same budget")
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 1000 {
				authorization.BudgetOf(inner).Spend(cel.CostBudget / 8000)
			}
		})
	}
	group.Wait()
	authorization.BudgetOf(ctx).Spend(cel.CostBudget % 8000)
	if err := authorization.BudgetOf(ctx).Err(); !errors.Is(err, cel.ErrCost) {
		t.Errorf("got %v after all of it was spent by several at once", err)
	}
	own := authorization.BudgetOf(t.Context())
	own.Spend(cel.CostBudget)
	if err := authorization.BudgetOf(t.Context()).Err(); err != nil {
		t.Errorf("a context without a budget: got %v, want a whole one for each evaluation", err)
	}
}

// TestPolicyBudgetsAreSeparate spends the budget of a namespace, of another one and of the cluster. No author can spend
// the budget of another.
func TestPolicyBudgetsAreSeparate(t *testing.T) {
	t.Parallel()
	type spending struct {
		namespace string
		cost      uint64
	}
	const cluster, namespaced = uint64(cel.AuthorizationBudget), uint64(cel.NamespacedAuthorizationBudget)
	for _, tc := range []struct {
		name                            string
		spent                           []spending
		wantCluster, wantOne, wantOther uint64
	}{
		{name: "nothing", wantCluster: cluster, wantOne: namespaced, wantOther: namespaced},
		{name: "by a namespace", spent: []spending{{namespace: "one", cost: 7}}, wantCluster: cluster, wantOne: namespaced - 7, wantOther: namespaced},
		{name: "by the cluster", spent: []spending{{cost: 7}}, wantCluster: cluster - 7, wantOne: namespaced, wantOther: namespaced},
		{name: "all of it", spent: []spending{{namespace: "one", cost: namespaced}}, wantCluster: cluster, wantOther: namespaced},
		{name: "more than there is", spent: []spending{{namespace: "one", cost: namespaced + 1}}, wantCluster: cluster, wantOther: namespaced},
		{name: "more than there is left", spent: []spending{{namespace: "one", cost: namespaced - 1}, {namespace: "one", cost: 2}}, wantCluster: cluster, wantOther: namespaced},
		{name: "after it has ended", spent: []spending{{cost: cluster}, {cost: 1}}, wantOne: namespaced, wantOther: namespaced},
		{name: "so much that a sum would overflow", spent: []spending{{cost: 1}, {cost: math.MaxUint64}, {namespace: "one", cost: 1}, {namespace: "one", cost: math.MaxUint64}}, wantOther: namespaced},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := &authorization.PolicyBudgets{}
			for _, s := range tc.spent {
				b.Spend(s.namespace, s.cost)
			}
			if got := b.Left(""); got != tc.wantCluster {
				t.Errorf("cluster: got %d left, want %d", got, tc.wantCluster)
			}
			if got := b.Left("one"); got != tc.wantOne {
				t.Errorf("the namespace: got %d left, want %d", got, tc.wantOne)
			}
			if got := b.Left("other"); got != tc.wantOther {
				t.Errorf("another namespace: got %d left, want %d", got, tc.wantOther)
			}
		})
	}
}

// TestPolicyBudgetsOfManyDecisions shares the budgets of a caller that makes many decisions for one request.
func TestPolicyBudgetsOfManyDecisions(t *testing.T) {
	t.Parallel()
	ctx := authorization.WithPolicyBudgets(t.Context())
	if authorization.PolicyBudgetsOf(authorization.WithPolicyBudgets(ctx)) != authorization.PolicyBudgetsOf(ctx) {
		t.Error("an inner context has budgets of its own")
	}
	var group sync.WaitGroup
	for _, namespace := range []string{"", "one", "two"} {
		for range 8 {
			group.Go(func() {
				for range 100 {
					authorization.PolicyBudgetsOf(ctx).Spend(namespace, 1)
				}
			})
		}
	}
	group.Wait()
	for namespace, whole := range map[string]uint64{"": cel.AuthorizationBudget, "one": cel.NamespacedAuthorizationBudget, "two": cel.NamespacedAuthorizationBudget} {
		if got := authorization.PolicyBudgetsOf(ctx).Left(namespace); got != whole-800 {
			t.Errorf("namespace %q: got %d left, want %d", namespace, got, whole-800)
		}
	}
	for _, other := range []context.Context{t.Context(), authorization.WithPolicyBudgets(t.Context())} {
		if got := authorization.PolicyBudgetsOf(other).Left(""); got != cel.AuthorizationBudget {
			t.Errorf("another request: got %d left, want all", got)
		}
	}
}

// TestExplanationsHaveTheirOwnBudget spends what explanations may cost. A decision must not depend on what was explained before.
func TestExplanationsHaveTheirOwnBudget(t *testing.T) {
	t.Parallel()
	const whole = uint64(cel.ExplanationBudget)
	for _, tc := range []struct {
		name  string
		spent []uint64
		want  uint64
	}{
		{name: "nothing", want: whole},
		{name: "a part", spent: []uint64{1, 2}, want: whole - 3},
		{name: "all of it", spent: []uint64{whole}},
		{name: "more than there is", spent: []uint64{whole + 1}},
		{name: "more than there is left", spent: []uint64{whole - 1, 2}},
		{name: "so much that a sum would overflow", spent: []uint64{1, math.MaxUint64, math.MaxUint64}},
	} {
		b := &authorization.PolicyBudgets{}
		for _, cost := range tc.spent {
			b.SpendToExplain(cost)
		}
		if got := b.LeftToExplain(); got != tc.want {
			t.Errorf("%s: got %d left, want %d", tc.name, got, tc.want)
		}
		if b.Left("") != cel.AuthorizationBudget || b.Left("n") != cel.NamespacedAuthorizationBudget {
			t.Errorf("%s: explanations have spent the budget of decisions", tc.name)
		}
		b.Spend("", cel.AuthorizationBudget)
		b.Spend("n", cel.NamespacedAuthorizationBudget)
		if got := b.LeftToExplain(); got != tc.want {
			t.Errorf("%s: got %d left after decisions, want %d", tc.name, got, tc.want)
		}
	}
}
