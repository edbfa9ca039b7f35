/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
)

// audited returns a policy with the enforcement Audit whose condition has an outcome at authorization, and one at admission.
func audited(name string, effect authorization.Effect, known, admitted authorization.Outcome, results *[]authorization.AuditResult) authorization.AuditPolicy {
	return authorization.AuditPolicy{
		ID: authorization.ClusterPolicyDomain + "/" + name, Effect: effect, Description: "no " + name,
		Known:    func(context.Context, *authorization.PolicyBudgets) authorization.Outcome { return known },
		Evaluate: func(context.Context, authorizer.ConditionsData) authorization.Outcome { return admitted },
		Count:    func(r authorization.AuditResult) { *results = append(*results, r) },
	}
}

// TestAuditIsBounded checks that many policies with long texts do not make long annotations and warnings, and that what is left out
// is said.
func TestAuditIsBounded(t *testing.T) {
	t.Parallel()
	audit, results := &authorization.Audit{}, []authorization.AuditResult{}
	for i := range 1000 {
		p := audited(fmt.Sprintf("policy-with-a-name-of-some-length-%d", i), authorization.EffectDeny, authorization.True(), authorization.True(), &results)
		p.Description = strings.Repeat("ä", 500)
		audit.Add(p)
	}
	audit.Settle(t.Context())
	audit.Finish(authorization.RemainderNone)
	annotations, warnings := audit.Annotations(), audit.Warnings()
	if len(annotations) != 2 || len(annotations[1]) > 2100 || !strings.Contains(annotations[1], ",and ") || !strings.HasSuffix(annotations[1], " more") {
		t.Errorf("got the annotations %q", annotations)
	}
	if len(warnings) != 6 || !strings.HasPrefix(warnings[0], "would be denied: policy=policy-with") || warnings[5] != "would be denied: 251 more policies" {
		t.Errorf("got the warnings %q", warnings)
	}
	for _, w := range warnings {
		if len(w) > 256 {
			t.Errorf("a warning has %d bytes: %s", len(w), w)
		}
	}
	if len(results) != 256 {
		t.Errorf("got %d results", len(results))
	}
}

// TestAuditCountsOncePerRequest checks that a policy that matches several checks of a request, or several objects, counts once, by its
// strongest result.
func TestAuditCountsOncePerRequest(t *testing.T) {
	t.Parallel()
	residual := authorization.Residual(authorization.Condition{ID: "p"})
	for _, tc := range []struct {
		name     string
		outcomes []authorization.Outcome // for the checks of a request
		want     authorization.AuditResult
	}{
		{"true and false", []authorization.Outcome{authorization.True(), authorization.False()}, authorization.AuditApplied},
		{"false and true", []authorization.Outcome{authorization.False(), authorization.True()}, authorization.AuditApplied},
		{"error and false", []authorization.Outcome{authorization.Failed(errors.New("no")), authorization.False()}, authorization.AuditFailed},
		{"residual and true", []authorization.Outcome{residual, authorization.True()}, authorization.AuditApplied},
		{"residual and false", []authorization.Outcome{residual, authorization.False()}, authorization.AuditUndetermined},
		{"false twice", []authorization.Outcome{authorization.False(), authorization.False()}, authorization.AuditUnapplied},
	} {
		audit, results := &authorization.Audit{}, []authorization.AuditResult{}
		for _, outcome := range tc.outcomes {
			audit.Add(audited("p", authorization.EffectAllow, outcome, authorization.False(), &results))
			audit.Settle(t.Context())
		}
		audit.Finish(authorization.RemainderRefused)
		audit.Finish(authorization.RemainderNone)
		if len(results) != 1 || results[0] != tc.want {
			t.Errorf("%s: got %v, want %v once", tc.name, results, tc.want)
		}
	}
}

// TestAuditOfManyObjects evaluates a condition on several objects at the same time, as a deletecollection does.
func TestAuditOfManyObjects(t *testing.T) {
	t.Parallel()
	audit, results := &authorization.Audit{}, []authorization.AuditResult{}
	p := audited("p", authorization.EffectDeny, authorization.Residual(authorization.Condition{ID: "p"}), authorization.True(), &results)
	var mu sync.Mutex
	n := 0
	p.Evaluate = func(context.Context, authorizer.ConditionsData) authorization.Outcome {
		mu.Lock()
		defer mu.Unlock()
		n++
		return authorization.Bool(n == 5)
	}
	audit.Add(p)
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() { audit.Admit(t.Context(), nil) })
	}
	group.Wait()
	audit.Finish(authorization.RemainderNone)
	if n != 10 || len(results) != 1 || results[0] != authorization.AuditApplied {
		t.Errorf("evaluated %d times, got %v", n, results)
	}
}

// TestAuditFailures checks that a panic and a deadline end neither the request nor the other policies.
func TestAuditFailures(t *testing.T) {
	t.Parallel()
	residual := authorization.Residual(authorization.Condition{ID: "p"})
	var results []authorization.AuditResult
	panics := audited("panics", authorization.EffectDeny, residual, residual, &results)
	panics.Evaluate = func(context.Context, authorizer.ConditionsData) authorization.Outcome { panic("at the disco") }
	panicsBefore := audited("panics-before", authorization.EffectDeny, residual, residual, &results)
	panicsBefore.Known = func(context.Context, *authorization.PolicyBudgets) authorization.Outcome { panic("before") }
	slow := audited("slow", authorization.EffectDeny, residual, residual, &results)
	slow.Evaluate = func(ctx context.Context, _ authorizer.ConditionsData) authorization.Outcome {
		if _, bounded := ctx.Deadline(); !bounded {
			return authorization.True()
		}
		<-ctx.Done()
		return authorization.Failed(ctx.Err())
	}
	audit := &authorization.Audit{}
	for _, p := range []authorization.AuditPolicy{panics, panicsBefore, audited("p", authorization.EffectDeny, residual, authorization.True(), &results), slow, audited("late", authorization.EffectDeny, residual, authorization.True(), &results)} {
		audit.Add(p)
	}
	audit.Settle(t.Context())
	audit.Admit(t.Context(), nil)
	audit.Finish(authorization.RemainderNone)
	want := []authorization.AuditResult{authorization.AuditFailed, authorization.AuditFailed, authorization.AuditApplied, authorization.AuditUndetermined, authorization.AuditUndetermined}
	if !slices.Equal(results, want) {
		t.Errorf("got %v, want %v", results, want)
	}
}

// TestAuditLeave checks that policies that another component audits are not counted here.
func TestAuditLeave(t *testing.T) {
	t.Parallel()
	var results []authorization.AuditResult
	audit := &authorization.Audit{}
	audit.Add(audited("d", authorization.EffectDeny, authorization.True(), authorization.True(), &results))
	audit.Add(audited("a", authorization.EffectAllow, authorization.True(), authorization.True(), &results))
	audit.Settle(t.Context())
	audit.Leave(authorization.EffectDeny)
	audit.Finish(authorization.RemainderFolded)
	if got := audit.Annotations(); len(got) != 2 || got[1] != "cluster.policy.proviso.dev/a" || len(results) != 1 {
		t.Errorf("got %q and %v", got, results)
	}
}

// TestNoAudit checks that requests without an Audit need no special case.
func TestNoAudit(t *testing.T) {
	t.Parallel()
	var none *authorization.Audit
	none.Settle(t.Context())
	none.Admit(t.Context(), nil)
	none.Leave(authorization.EffectDeny)
	none.Finish(authorization.RemainderFolded)
	if none.Annotations() != nil || none.Warnings() != nil {
		t.Error("there is something in nothing")
	}
}

// TestAuditHasABudget checks that the conditions of policies in Audit share a budget, which is not the one of the request.
func TestAuditHasABudget(t *testing.T) {
	t.Parallel()
	ctx := authorization.WithBudget(t.Context())
	var results []authorization.AuditResult
	residual := authorization.Residual(authorization.Condition{ID: "p"})
	audit := &authorization.Audit{}
	for _, name := range []string{"a", "b"} {
		p := audited(name, authorization.EffectAllow, residual, residual, &results)
		p.Evaluate = func(ctx context.Context, _ authorizer.ConditionsData) authorization.Outcome {
			authorization.BudgetOf(ctx).Spend(cel.CostBudget)
			return authorization.True()
		}
		audit.Add(p)
	}
	audit.Settle(ctx)
	audit.Admit(ctx, nil)
	audit.Finish(authorization.RemainderNone)
	if err := authorization.BudgetOf(ctx).Err(); err != nil {
		t.Errorf("the budget of the request: %v", err)
	}
	if len(results) != 2 || results[0] != authorization.AuditApplied || results[1] != authorization.AuditFailed {
		t.Errorf("got %v, want that the second one has no budget left", results)
	}
}
