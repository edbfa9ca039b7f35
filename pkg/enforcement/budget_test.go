/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement_test

import (
	"context"
	"net/http"
	"testing"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/enforcement"
)

// costing is an Allow on a condition that holds and has a cost.
func costing(cost uint64) authorization.Decision {
	return authorization.Conditions(authorization.Condition{
		ID: "example.com/costing", Effect: authorization.EffectAllow, Type: "example.com/go",
		EvaluateFunc: func(ctx context.Context, _ authorizer.ConditionsData) authorization.Outcome {
			budget := authorization.BudgetOf(ctx)
			if err := budget.Err(); err != nil {
				return authorization.Unsupported(err)
			}
			budget.Spend(cost)
			return authorization.True()
		},
	})
}

// TestBudgetOfARequest asks that all decisions about one object share one budget: the connection
// and the create that it needs as well. Each object of a collection has a budget of its own.
func TestBudgetOfARequest(t *testing.T) {
	t.Parallel()
	connect := func(ctx context.Context, _ *rig) error {
		return admit(ctx, admission.Connect, func(to *target) { to.object = nil })
	}
	twoObjects := func(ctx context.Context, _ *rig) error {
		for range 2 {
			if err := admit(ctx, admission.Delete, func(to *target) { to.name = "" }); err != nil {
				return err
			}
		}
		return nil
	}
	for _, tc := range []struct {
		name, method, path string
		cost               uint64
		behind             func(context.Context, *rig) error
		want               int
	}{
		{name: "both within the budget", method: http.MethodGet, path: "/x/exec", cost: cel.CostBudget - 1, behind: connect, want: http.StatusOK},
		{name: "the create over the budget", method: http.MethodGet, path: "/x/exec", cost: cel.CostBudget, behind: connect, want: http.StatusForbidden},
		{name: "a collection", method: http.MethodDelete, path: "", cost: cel.CostBudget, behind: twoObjects, want: http.StatusOK},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigConfig{
				chain: chainOf(t, always(costing(tc.cost))), storages: storages, behind: tc.behind,
				adjust: func(c *enforcement.Config) { c.ConnectWithCreate = true },
			})
			if got := r.send(tc.method, machines+tc.path); got.Code != tc.want {
				t.Errorf("got %d %s, want %d", got.Code, got.Body, tc.want)
			}
		})
	}
}
