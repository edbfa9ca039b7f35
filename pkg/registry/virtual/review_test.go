/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package virtual_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/registry/virtual"
)

// fixed is an authorizer that always returns the same decision.
type fixed authorization.Decision

func (f fixed) Decide(context.Context, authorizer.Attributes) authorization.Decision {
	return authorization.Decision(f)
}

func chainOf(t *testing.T, decision authorization.Decision) *authorization.Chain {
	t.Helper()
	chain, err := authorization.NewChain(authorization.Member{Name: "a", Decider: fixed(decision)})
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

func condition(effect authorization.Effect) authorization.Condition {
	return authorization.Condition{ID: "example.com/c0", Effect: effect, Type: "example.com/literal", Text: "true"}
}

var (
	allowIf = authorization.Conditions(condition(authorization.EffectAllow))
	denyIf  = authorization.Conditions(condition(authorization.EffectDeny))

	errSelector = errors.New("the selector cannot be parsed")
)

func TestReview(t *testing.T) {
	t.Parallel()
	oneRequest := authorizer.AttributesRecord{ResourceRequest: true, Verb: "create", APIVersion: "v1", Resource: "things"}
	allVersions := oneRequest
	allVersions.APIVersion = "*"
	withBadSelector := authorizer.AttributesRecord{User: &user.DefaultInfo{}, LabelSelectorParsingErr: errSelector}
	wantChain := []authorizationapi.SubjectAccessReviewConditionSet{{AuthorizerName: "a", Conditions: []authorizationapi.SubjectAccessReviewCondition{
		{ID: "example.com/c0", Effect: "Allow", Type: "example.com/literal", Condition: "true"},
	}}}
	for _, tc := range []struct {
		name       string
		decision   authorization.Decision
		attributes authorizer.AttributesRecord
		config     *authorizationapi.ConditionalAuthorizationConfiguration
		want       authorizationapi.SubjectAccessReviewStatus
	}{
		{"conditions were not asked for", allowIf, authorizer.AttributesRecord{}, nil, authorizationapi.SubjectAccessReviewStatus{
			Reason: "the decision depends on conditions, which cannot be evaluated or shown here: allowed on conditions: condition=example.com/c0; to see the conditions, create the review of authorization.k8s.io/v1alpha1 with spec.conditionalAuthorization.mode"}},
		{"the mode is empty", denyIf, authorizer.AttributesRecord{}, &authorizationapi.ConditionalAuthorizationConfiguration{}, authorizationapi.SubjectAccessReviewStatus{
			Denied: true, Reason: "the decision depends on conditions, which cannot be evaluated or shown here: one condition could deny: condition=example.com/c0; to see the conditions, create the review of authorization.k8s.io/v1alpha1 with spec.conditionalAuthorization.mode"}},
		{"conditions were asked for", allowIf, oneRequest, &authorizationapi.ConditionalAuthorizationConfiguration{Mode: "HumanReadable"}, authorizationapi.SubjectAccessReviewStatus{
			ConditionsChain: wantChain}},
		{"conditions were asked for, about many requests", allowIf, allVersions, &authorizationapi.ConditionalAuthorizationConfiguration{Mode: "HumanReadable"}, authorizationapi.SubjectAccessReviewStatus{
			Reason: "the decision depends on conditions, which cannot be evaluated or shown here: allowed on conditions: condition=example.com/c0; to see the conditions, name one verb, group, version and resource"}},
		{"no conditions matter", authorization.NoOpinion("why", nil), oneRequest, nil, authorizationapi.SubjectAccessReviewStatus{Reason: "why"}},
		{"a selector was left out", authorization.Allow("", nil), withBadSelector, nil, authorizationapi.SubjectAccessReviewStatus{
			Allowed: true, EvaluationError: "spec.resourceAttributes.labelSelector ignored due to parse error"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, _ := (&virtual.Reviewer{Chain: chainOf(t, tc.decision), Conditional: true}).Review(t.Context(), tc.attributes, tc.config)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReviewSaysWhoEnforces looks at the warnings of reviews with conditions, and at the mode,
// which counts only while the feature is on.
func TestReviewSaysWhoEnforces(t *testing.T) {
	t.Parallel()
	create := authorizer.AttributesRecord{ResourceRequest: true, Verb: "create", APIVersion: "v1", Resource: "things"}
	get := create
	get.Verb = "get"
	enforced := func(a authorizer.Attributes) bool { return a.GetVerb() == "create" }
	for _, tc := range []struct {
		name        string
		decision    authorization.Decision
		attributes  authorizer.AttributesRecord
		conditional bool
		enforced    func(authorizer.Attributes) bool
		wantFolded  bool
		wantWarning string
	}{
		{"enforced here", allowIf, create, true, enforced, false, ""},
		{"not this verb", allowIf, get, true, enforced, false, "this server does not enforce conditions on get things"},
		{"nothing is", allowIf, create, true, nil, false, "this server does not enforce conditions on create things"},
		{"unconditional", authorization.Allow("", nil), get, true, nil, true, ""},
		{"the feature is off", allowIf, create, false, enforced, true, ""},
		{"the feature is off, and it could be denied", denyIf, create, false, enforced, true, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			reviewer := &virtual.Reviewer{Chain: chainOf(t, tc.decision), Conditional: tc.conditional, Enforced: tc.enforced}
			status, warnings := reviewer.Review(t.Context(), tc.attributes, &authorizationapi.ConditionalAuthorizationConfiguration{Mode: "HumanReadable"})
			if folded := len(status.ConditionsChain) == 0; folded != tc.wantFolded {
				t.Errorf("got %+v, want folded %v", status, tc.wantFolded)
			}
			if got := strings.Join(warnings, ""); !strings.HasPrefix(got, tc.wantWarning) || (tc.wantWarning == "") != (got == "") {
				t.Errorf("got warnings %q, want %q", got, tc.wantWarning)
			}
		})
	}
}

// TestElsewhere has conditions that another component evaluates, or usually evaluates.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	record := authorizer.AttributesRecord{ResourceRequest: true, Verb: "create", APIVersion: "v1", Resource: "things"}
	config := &authorizationapi.ConditionalAuthorizationConfiguration{Mode: authorizationapi.ConditionsModeHumanReadable}
	elsewhere := func(isEvaluated bool, problem string) func(authorizer.AttributesRecord, bool) (bool, string) {
		return func(a authorizer.AttributesRecord, isDenial bool) (bool, string) {
			if a.Verb != "create" || a.Resource != "things" {
				t.Errorf("asked about %+v", a)
			}
			if isDenial {
				return false, "it could deny"
			}
			return isEvaluated, problem
		}
	}
	const standard = "this server does not enforce conditions on create things"
	to := func(rest authorization.Decision) func(authorizer.AttributesRecord, authorization.Decision) authorization.Decision {
		return func(a authorizer.AttributesRecord, _ authorization.Decision) authorization.Decision {
			if a.Verb != "create" || a.Resource != "things" {
				t.Errorf("asked about %+v", a)
			}
			return rest
		}
	}
	for _, tc := range []struct {
		name       string
		decision   authorization.Decision
		elsewhere  func(authorizer.AttributesRecord, bool) (bool, string)
		unenforced func(authorizer.AttributesRecord, authorization.Decision) authorization.Decision
		want       string
	}{
		{name: "kube-apiserver itself", decision: denyIf, elsewhere: elsewhere(true, ""), unenforced: to(authorization.NoOpinion("", nil))},
		{name: "kube-apiserver itself, and nobody else", decision: denyIf, unenforced: to(authorization.NoOpinion("", nil))},
		{name: "kube-apiserver itself, one of several", decision: denyIf, elsewhere: elsewhere(true, ""), unenforced: to(denyIf), want: "conditions on create things are not evaluated: it could deny"},
		{name: "kube-apiserver itself and another component", decision: denyIf, elsewhere: elsewhere(true, ""), unenforced: to(allowIf)},
		{name: "nobody", decision: allowIf, want: standard},
		{name: "another component", decision: allowIf, elsewhere: elsewhere(true, "")},
		{name: "another component, a Deny", decision: denyIf, elsewhere: elsewhere(true, ""), want: "conditions on create things are not evaluated: it could deny"},
		{name: "not now", decision: allowIf, elsewhere: elsewhere(false, "it is away"), want: "conditions on create things are not evaluated: it is away"},
		{name: "not this request", decision: allowIf, elsewhere: elsewhere(false, ""), want: standard},
		{name: "unconditional", decision: authorization.Allow("", nil), elsewhere: elsewhere(false, "it is away")},
	} {
		r := &virtual.Reviewer{Chain: chainOf(t, tc.decision), Conditional: true, Elsewhere: tc.elsewhere, Unenforced: tc.unenforced}
		_, warnings := r.Review(t.Context(), record, config)
		if got := strings.Join(warnings, "; "); !strings.HasPrefix(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
		if got := r.Warnings(record); len(got) != 1 || !strings.HasPrefix(got[0], standard) {
			t.Errorf("%s: an impersonation gets %q", tc.name, got)
		}
	}
}

// auditing adds a policy with the enforcement Audit to each decision.
type auditing struct {
	decision authorization.Decision
	known    authorization.Outcome
	counted  *int
	callers  *[]string
}

func (a auditing) Decide(_ context.Context, attributes authorizer.Attributes) authorization.Decision {
	if caller := authorization.CallerOf(attributes); caller != nil {
		*a.callers = append(*a.callers, caller.GetName())
	}
	authorization.AuditOf(attributes).Add(authorization.AuditPolicy{
		ID: "cluster.policy.proviso.dev/p", Effect: authorization.EffectDeny,
		Known: func(context.Context, *authorization.PolicyBudgets) authorization.Outcome { return a.known },
		Count: func(authorization.AuditResult) { *a.counted++ },
	})
	return a.decision
}

// TestVirtualAudit checks that a review warns of a Deny policy with the enforcement Audit, that it does not count for it, and that the answer
// is the same.
func TestVirtualAudit(t *testing.T) {
	t.Parallel()
	const warned = "would be denied: policy=p reason=Denied: it denies the request"
	for _, tc := range []struct {
		name     string
		decision authorization.Decision
		known    authorization.Outcome
		want     []string
	}{
		{"allowed", authorization.Allow("", nil), authorization.True(), []string{warned}},
		{"allowed, and the condition is false", authorization.Allow("", nil), authorization.False(), nil},
		{"allowed, and the condition is about the object", authorization.Allow("", nil), authorization.Residual(authorization.Condition{}), nil},
		{"denied", authorization.Deny("", nil), authorization.True(), nil},
		{"no opinion", authorization.NoOpinion("", nil), authorization.True(), nil},
	} {
		counted, callers := 0, []string{}
		chain, err := authorization.NewChain(authorization.Member{Name: "a", Decider: auditing{tc.decision, tc.known, &counted, &callers}})
		if err != nil {
			t.Fatal(err)
		}
		reviewer := &virtual.Reviewer{Chain: chain, Conditional: true}
		ctx := genericapirequest.WithUser(t.Context(), &user.DefaultInfo{Name: "carol"})
		status, warnings := reviewer.Review(ctx, authorizer.AttributesRecord{Verb: "get", APIVersion: "v1", Resource: "pods", ResourceRequest: true}, nil)
		if status.Allowed != tc.decision.IsAllow() || status.Denied != tc.decision.IsDeny() || !slices.Equal(warnings, tc.want) {
			t.Errorf("%s: got %+v with %q, want the warnings %q", tc.name, status, warnings, tc.want)
		}
		if counted > 0 || !slices.Equal(callers, []string{"carol"}) {
			t.Errorf("%s: counted %d times, for the callers %q", tc.name, counted, callers)
		}
	}
}
