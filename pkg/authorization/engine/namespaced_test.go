/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/test/testutil/cases"
)

// randomPolicies are policies of the cluster and of two namespaces, with conditions that hold or not, fail, cost
// much, or depend on the object.
func randomPolicies(r *rand.Rand) map[string]spec {
	const yes, no = `request.verb == "update"`, `request.verb == "get"`
	conditions := []string{"", yes, no, `request.userInfo.extra["missing"] == []`, "object.x == 1", sorts(yes), sorts(no), sorts(no)}
	specs := map[string]spec{}
	for i := range 1 + r.IntN(6) {
		name := fmt.Sprint([]string{"", "n/", "n/", "m/"}[r.IntN(4)], "p", i)
		specs[name] = spec{Effect: []policyv1alpha1.PolicyEffect{allow, deny, noOpinion}[r.IntN(3)], Condition: conditions[r.IntN(len(conditions))]}
	}
	return specs
}

// TestNamespacedDecidesTheSame asks that a decision is the same whether or not the policies of the
// namespace were evaluated before.
func TestNamespacedDecidesTheSame(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(15, 16)) //nolint:gosec // not for secrets
	evaluated := 0
	tried := cases.Of(300)
	for tried.Next() {
		specs := randomPolicies(r)
		source := publish(t, specs)
		chain := placesChain(t, source)
		ctx, a := source.Pin(t.Context()), podsOf("update")
		want := show(t, chain.Decide(ctx, a))
		if namespaced := source.Namespaced(ctx, a); namespaced != nil {
			evaluated++
			namespaced.Evaluate(ctx)
			ctx = namespaced.In(ctx)
		}
		if got := show(t, chain.Decide(ctx, a)); got != want {
			t.Fatalf("%+v:\ngot  %s\nwant %s", specs, got, want)
		}
	}
	if evaluated < tried.Share(100) {
		t.Errorf("only %d of the decisions had conditions of the namespace", evaluated)
	}
}

// TestNamespacedInTime asks what a decision is whose policies of the namespace were not evaluated, or had no time, and
// that it is made from the snapshot that they are from.
func TestNamespacedInTime(t *testing.T) {
	t.Parallel()
	const yes, no = `request.verb == "update"`, `request.verb == "get"`
	one := func(name string, effect policyv1alpha1.PolicyEffect, condition string) map[string]spec {
		return map[string]spec{name: {Effect: effect, Condition: condition}, "z": {Effect: allow, Condition: yes}}
	}
	for _, tc := range []struct {
		name  string
		specs map[string]spec
		// wantNone is true if there is nothing to evaluate.
		wantNone bool
		want     string
	}{
		{name: "a Deny policy that would not deny", specs: one("n/p", deny, no), want: "Deny"},
		{name: "a NoOpinion policy that would not hold back", specs: one("n/p", noOpinion, no), want: "NoOpinion"},
		{name: "an Allow policy beside one of the cluster", specs: one("n/p", allow, yes), want: "Allow"},
		{name: "an Allow policy alone", specs: map[string]spec{"n/p": {Effect: allow, Condition: yes}}, want: "NoOpinion"},
		{name: "no policy of the namespace", specs: one("m/p", deny, yes), wantNone: true, want: "Allow"},
		{name: "a Deny policy of the cluster without a condition", specs: map[string]spec{"n/p": {Effect: deny, Condition: no}, "z": {Effect: deny}}, wantNone: true, want: "Deny"},
		{name: "a policy of the namespace without a condition", specs: one("n/p", deny, ""), wantNone: true, want: "Deny"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			source := publish(t, tc.specs)
			chain, a := placesChain(t, source), podsOf("update")
			namespaced := source.Namespaced(t.Context(), a)
			if (namespaced == nil) != tc.wantNone {
				t.Fatalf("got %v, want none: %t", namespaced, tc.wantNone)
			}
			ctx := t.Context()
			if namespaced != nil {
				ended, cancel := context.WithCancel(ctx)
				cancel()
				namespaced.Evaluate(ended)
				ctx = namespaced.In(ctx)
				source.Publish(engine.NewBuilder().Apply(compiled(t, nil)))
			}
			decision := chain.Decide(ctx, a)
			if got := show(t, decision); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if decision.IsDeny() && namespaced != nil && !errors.Is(decision.Err(), engine.ErrNotEvaluated) {
				t.Errorf("got error %v, want that the policies were not evaluated", decision.Err())
			}
		})
	}
}
