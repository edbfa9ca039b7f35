/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// audits adds policies with the enforcement Audit to the requests that it is asked about, and otherwise decides as another authorizer.
type audits struct {
	authorization.Decider

	policies []authorization.AuditPolicy
}

func (a audits) Decide(ctx context.Context, attributes authorizer.Attributes) authorization.Decision {
	if audit := authorization.RequestOf(attributes).Audit; audit != nil {
		for _, p := range a.policies {
			audit.Add(p)
		}
	}
	return a.Decider.Decide(ctx, attributes)
}

// recorded has the results of policies, as "NAME RESULT".
type recorded struct {
	mu      sync.Mutex
	results []string
}

var resultNames = map[authorization.AuditResult]string{
	authorization.AuditApplied: "applied", authorization.AuditUnapplied: "unapplied", authorization.AuditUndetermined: "undetermined", authorization.AuditFailed: "failed",
}

// policy returns a policy with an effect whose condition has an outcome at authorization, and one at admission.
func (r *recorded) policy(effect authorization.Effect, known, admitted authorization.Outcome) authorization.AuditPolicy {
	name := strings.ToLower(string(effect))
	return authorization.AuditPolicy{
		ID: authorization.ClusterPolicyDomain + "/" + name, Effect: effect,
		Known:    func(context.Context, *authorization.PolicyBudgets) authorization.Outcome { return known },
		Evaluate: func(context.Context, authorizer.ConditionsData) authorization.Outcome { return admitted },
		Count: func(result authorization.AuditResult) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.results = append(r.results, name+" "+resultNames[result])
		},
	}
}

// TestEnforcementPoliciesInAudit sends requests with and without policies in Audit: the answers are the same, and the results are in the audit event and, for
// a request that succeeds, in warnings.
func TestEnforcementPoliciesInAudit(t *testing.T) {
	t.Parallel()
	const deny, allowing, noOpinion = authorization.EffectDeny, authorization.EffectAllow, authorization.EffectNoOpinion
	yes, no, residual := authorization.True(), authorization.False(), authorization.Residual(authorization.Condition{ID: "x"})
	none := authorization.NoOpinion("", nil)
	const warned = "would be denied: policy=deny reason=Denied: it denies the request"
	for _, tc := range []struct {
		name            string
		decision        authorization.Decision
		effect          authorization.Effect
		known, admitted authorization.Outcome
		method, path    string
		headers         []string
		uncovered       bool
		notAdmitted     bool
		want            string // the result
		annotation      string
		warning         string
	}{
		{name: "denies at once", decision: allow, effect: deny, known: yes, want: "deny applied", annotation: "would-deny", warning: warned},
		{name: "does not deny", decision: allow, effect: deny, known: no, want: "deny unapplied"},
		{name: "denies the object", decision: allow, effect: deny, known: residual, admitted: yes, want: "deny applied", annotation: "would-deny", warning: warned},
		{name: "does not deny the object", decision: allow, effect: deny, known: residual, admitted: no, want: "deny unapplied"},
		{name: "denies the object of a conditional request", decision: holds, effect: deny, known: residual, admitted: yes, want: "deny applied", annotation: "would-deny", warning: warned},
		{name: "denies the object that is refused", decision: fails, effect: deny, known: residual, admitted: yes, want: "deny applied", annotation: "would-deny"},
		{name: "denies a request without permission", decision: none, effect: deny, known: yes, want: "deny applied", annotation: "would-deny"},
		{name: "may deny a request without permission", decision: none, effect: deny, known: residual, want: "deny unapplied"},
		{name: "allows a request without permission", decision: none, effect: allowing, known: yes, want: "allow applied", annotation: "would-allow"},
		{name: "may allow a request without permission", decision: none, effect: allowing, known: residual, want: "allow undetermined", annotation: "undetermined"},
		{name: "allows an object that another condition refuses", decision: fails, effect: allowing, known: residual, admitted: yes, want: "allow applied", annotation: "would-allow"},
		{name: "allows an object that is denied", decision: authorization.Chained(authorization.Set{AuthorizerName: "x", Decision: denies}, authorization.Set{AuthorizerName: "y", Decision: allow}), effect: allowing, known: residual, admitted: yes},
		{name: "holds back", decision: holds, effect: noOpinion, known: residual, admitted: yes, want: "noopinion applied", annotation: "would-hold-back"},
		{name: "fails on the object", decision: allow, effect: deny, known: residual, admitted: authorization.Failed(errNotMine), want: "deny failed", annotation: "would-deny,error",
			warning: "would be denied: policy=deny reason=Error: its condition could not be evaluated"},
		{name: "no admission", decision: allow, effect: deny, known: residual, notAdmitted: true, want: "deny unapplied"},
		{name: "a read", decision: allow, effect: deny, known: yes, method: http.MethodGet, path: machines + "/x", notAdmitted: true, want: "deny applied", annotation: "would-deny", warning: warned},
		{name: "a read with a condition on the object", decision: allow, effect: deny, known: residual, method: http.MethodGet, path: machines + "/x", notAdmitted: true, want: "deny applied", annotation: "would-deny", warning: warned},
		{name: "a refused read", decision: none, effect: allowing, known: residual, method: http.MethodGet, path: machines + "/x", notAdmitted: true, want: "allow unapplied"},
		{name: "not covered", decision: allow, effect: deny, known: residual, uncovered: true, notAdmitted: true, want: "deny applied", annotation: "would-deny", warning: warned},
		{name: "an impersonation", decision: allow, effect: deny, known: yes, headers: []string{"Impersonate-User", "bob"}, want: "deny applied", annotation: "would-deny", warning: warned},
		{name: "a refused impersonation", decision: none, effect: deny, known: yes, headers: []string{"Impersonate-User", "bob"}, want: "deny applied"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			results := &recorded{}
			rigWith := func(policies ...authorization.AuditPolicy) *rig {
				member := audits{Decider: authorization.DeciderOf(always(tc.decision)), policies: policies}
				chain, err := authorization.NewChain(authorization.Member{Name: "a", Decider: member})
				if err != nil {
					t.Fatal(err)
				}
				config := rigConfig{chain: chain, storages: storages, body: "done"}
				if tc.uncovered {
					config.storages = nil
				}
				if !tc.notAdmitted {
					config.behind = admitting(admission.Create)
				}
				return newRig(t, config)
			}
			method, path := http.MethodPost, machines
			if tc.method != "" {
				method, path = tc.method, tc.path
			}
			without, with := rigWith(), rigWith(results.policy(tc.effect, tc.known, tc.admitted))
			want, got := without.send(method, path, tc.headers...), with.send(method, path, tc.headers...)
			if want.Code != got.Code || want.Body.String() != got.Body.String() {
				t.Errorf("got %d %s, without the policy %d %s", got.Code, got.Body, want.Code, want.Body)
			}
			if result := strings.Join(results.results, ","); result != tc.want {
				t.Errorf("got the results %q, want %q", result, tc.want)
			}
			var keys []string
			annotations := with.annotations()
			for key := range annotations {
				if name, ok := strings.CutPrefix(key, authorization.AuditPrefix); ok {
					keys = append(keys, name)
					delete(annotations, key)
				}
			}
			slices.SortFunc(keys, func(a, b string) int { return strings.Compare(b, a) })
			if annotation := strings.Join(keys, ","); annotation != tc.annotation {
				t.Errorf("got the annotations %q, want %q", annotation, tc.annotation)
			}
			if diff := cmp.Diff(without.annotations(), annotations); diff != "" {
				t.Errorf("other annotations (-want +got):\n%s", diff)
			}
			var warning string
			if tc.warning != "" {
				warning = fmt.Sprintf("299 - %q", tc.warning)
			}
			if warnings := strings.Join(got.Header().Values("Warning"), "; "); warnings != warning {
				t.Errorf("got the warnings %q, want %q", warnings, warning)
			}
		})
	}
}
