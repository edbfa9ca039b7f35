/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/pkg/place"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
)

// gateway is a place that no other code knows. It evaluates all conditions on ConfigMaps.
type gateway struct{ obstacle *place.Obstacle }

func (gateway) Terms() place.Terms {
	return place.Terms{At: "Gateway", Evaluates: place.AllEffects, HasObstacles: true, Reason: "allowed if the gateway agrees: "}
}

func (gateway) Takes(r *place.Request) bool { return r.Attributes.GetResource() == "configmaps" }

func (g gateway) Obstacle(context.Context, *place.Request, place.Asker) *place.Obstacle {
	return g.obstacle
}

// Status implements place.Place.
func (g gateway) Status() enforcementstatus.Place { return gatewayStatus{isAway: g.obstacle != nil} }

type gatewayStatus struct{ isAway bool }

func (s gatewayStatus) Share(e enforcementstatus.Entry) []enforcementstatus.Entry {
	if e.Path != "configmaps" || e.Reads != enforcementstatus.More {
		return []enforcementstatus.Entry{e}
	}
	if s.isAway {
		return e.With(e.Verbs, e.Versions, "the gateway is away")
	}
	e.Add(e.Verbs, enforcementstatus.Outcome{At: "Gateway", Result: policyv1alpha1.ResultEnforced})
	return nil
}

func (gateway) Audit(authorization.Decision) place.Audit {
	return place.Audit{Leaves: []authorization.Effect{authorization.EffectAllow}, Remainder: authorization.RemainderElsewhere}
}

// TestAnotherPlace adds a place to the table. Answers, reviews, metrics, the counts of policies in Audit and their status follow, without another change. It is not
// parallel, because metrics belong to the process.
func TestAnotherPlace(t *testing.T) {
	frontdoor.RegisterMetrics()
	away := &place.Obstacle{Answer: "away", Reason: "the gateway is away"}
	for _, tc := range []struct {
		name     string
		obstacle *place.Obstacle
		policies map[string]policy
		resource string
		want     string
		reason   string
		problem  string
		metric   string
	}{
		{name: "it agrees", resource: "configmaps", policies: onCondition, want: "Allow", reason: "allowed if the gateway agrees: policy=", metric: "allowed_on_conditions"},
		{name: "a Deny, which it evaluates", resource: "configmaps", policies: unlessIt, want: "NoOpinion", metric: "left_to_server"},
		{name: "an obstacle", obstacle: away, resource: "configmaps", policies: onCondition, want: "NoOpinion", reason: "the gateway is away", problem: "the gateway is away", metric: "folded_to_no_opinion"},
		{name: "another resource", resource: "secrets", policies: onCondition, want: "NoOpinion", reason: "policy=", metric: "folded_to_no_opinion", problem: "none"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			policies := map[string]policy{
				"denies": {effect: deny, condition: `object.data.x == "y"`, enforcement: inAudit}, "allows": {effect: allow, condition: `object.data.x == "y"`, enforcement: inAudit},
			}
			for name, p := range tc.policies {
				policies[name] = p
			}
			compiled, source := compile(t, policies), &engine.Source{}
			source.Publish(engine.NewBuilder().Apply(compiled))
			table, err := place.NewTable(nil, gateway{tc.obstacle})
			if err != nil {
				t.Fatal(err)
			}
			door, err := frontdoor.New(frontdoor.Config{Policies: frontdoor.Policies{Chain: chainOf(t, source), Source: source}, Places: table, KubeAPIServer: &others{}})
			if err != nil {
				t.Fatal(err)
			}
			request := claim("update", of(tc.resource))
			before := conditionalAnswers(t)
			got, err := door.Decide(frontdoor.WithClient(t.Context(), goodClient), request)
			if err != nil || show(got) != tc.want || !strings.Contains(got.Reason(), tc.reason) {
				t.Errorf("got %s %q, %v, want %s %q", show(got), got.Reason(), err, tc.want, tc.reason)
			}
			if counted := conditionalAnswers(t)[tc.metric] - before[tc.metric]; counted != 1 {
				t.Errorf("%s: counted %v", tc.metric, counted)
			}
			decision := authorization.Chained(authorization.Set{AuthorizerName: engine.GrantingName, Decision: authorization.Conditions(authorization.Condition{
				ID: "example.com/c", Effect: authorization.EffectAllow, Type: "example.com/literal", Text: "true",
			})})
			isEvaluated, problem := door.Evaluated(t.Context(), &place.Request{Attributes: request}, decision, &others{})
			if isEvaluated != (tc.problem == "") || tc.problem != "none" && problem != tc.problem {
				t.Errorf("a review: got %t, %q, want %q", isEvaluated, problem, tc.problem)
			}
			places := enforcementstatus.NewPlaces(enforcementstatus.Facts{Others: table.Status()})
			status := enforcementstatus.Server{FrontDoor: true, Places: func() *enforcementstatus.Places { return places }}.Of(&policyv1alpha1.AuthorizationPolicySpec{
				Effect: allow, Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"update"}, APIGroups: []string{""}, Resources: []string{tc.resource}}},
			}, enforcementstatus.More)
			wantStatus := policyv1alpha1.RuleEnforcement{At: "Gateway", Result: policyv1alpha1.ResultEnforced}
			if tc.problem != "" {
				wantStatus.At, wantStatus.Result = policyv1alpha1.EnforcedAtFrontDoor, policyv1alpha1.ResultGrantsNothing
			}
			if len(status) != 1 || status[0].At != wantStatus.At || status[0].Result != wantStatus.Result || tc.obstacle != nil && !strings.Contains(status[0].Message, tc.problem) {
				t.Errorf("the status is %+v, want %s at %s", status, wantStatus.Result, wantStatus.At)
			}
			// The place counts the Allow policy itself, and leaves open what the Deny policy would have done. Elsewhere a Deny is folded.
			want := map[string]engine.AuditDelta{"denies": {Undetermined: 1}, "allows": {}}
			if tc.resource == "secrets" {
				want["denies"] = engine.AuditDelta{Decided: 1}
			}
			for key, p := range compiled {
				if p.AuditCounts() == nil {
					continue
				}
				if diff := cmp.Diff(want[key.Name], p.AuditCounts().Take(), cmpopts.IgnoreFields(engine.AuditDelta{}, "Last")); diff != "" && policies[key.Name].enforcement == policyv1alpha1.PolicyEnforcementAudit {
					t.Errorf("Audit of %s (-want +got):\n%s", key.Name, diff)
				}
			}
		})
	}
}

// TestReviewsAskForThemselves has a review about a write on conditions, whose answer shows an object: the authorizer of requests is not asked.
func TestReviewsAskForThemselves(t *testing.T) {
	t.Parallel()
	ofRequests, ofReviews := &others{}, &others{allow: []string{"get persistentvolumeclaims/ demo:c"}}
	inner := newInnerDoor()
	inner.Known = func(*place.Client) bool { return true }
	source := publish(t, nil)
	door, err := frontdoor.New(frontdoor.Config{Policies: frontdoor.Policies{Chain: chainOf(t, source), Source: source}, KubeAPIServer: ofRequests, Places: places{enforces: enforcesMachines, inner: inner}.table()})
	if err != nil {
		t.Fatal(err)
	}
	decision := authorization.Chained(authorization.Set{AuthorizerName: engine.GrantingName, Decision: authorization.Conditions(authorization.Condition{
		ID: "example.com/c", Effect: authorization.EffectAllow, Type: "example.com/literal", Text: "true",
	})})
	isEvaluated, problem := door.Evaluated(t.Context(), &place.Request{Attributes: claim("update")}, decision, ofReviews)
	if !isEvaluated || len(ofReviews.asked) != 1 || len(ofRequests.asked) != 0 {
		t.Errorf("got %t, %q; asked for reviews %q, for requests %q", isEvaluated, problem, ofReviews.asked, ofRequests.asked)
	}
}
