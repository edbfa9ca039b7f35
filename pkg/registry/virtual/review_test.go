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
			Reason: "the decision depends on conditions, which cannot be evaluated or shown here: allowed on conditions: condition=example.com/c0; to see the conditions, create the review of authorization.proviso.dev/v1alpha1 with spec.conditionalAuthorization.mode"}},
		{"the mode is empty", denyIf, authorizer.AttributesRecord{}, &authorizationapi.ConditionalAuthorizationConfiguration{}, authorizationapi.SubjectAccessReviewStatus{
			Denied: true, Reason: "the decision depends on conditions, which cannot be evaluated or shown here: one condition could deny: condition=example.com/c0; to see the conditions, create the review of authorization.proviso.dev/v1alpha1 with spec.conditionalAuthorization.mode"}},
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

// TestWarningsAboutEvaluation has conditions that a component evaluates, or usually evaluates.
func TestWarningsAboutEvaluation(t *testing.T) {
	t.Parallel()
	record := authorizer.AttributesRecord{ResourceRequest: true, Verb: "create", APIVersion: "v1", Resource: "things"}
	config := &authorizationapi.ConditionalAuthorizationConfiguration{Mode: authorizationapi.ConditionsModeHumanReadable}
	const standard = "this server does not enforce conditions on create things"
	for _, tc := range []struct {
		name        string
		decision    authorization.Decision
		isEvaluated bool
		problem     string
		want        string
	}{
		{name: "a component", decision: denyIf, isEvaluated: true},
		{name: "not now", decision: allowIf, problem: "it is away", want: "conditions on create things are not evaluated: it is away"},
		{name: "no component", decision: allowIf, want: standard},
		{name: "unconditional", decision: authorization.Allow("", nil), problem: "it is away"},
	} {
		r := &virtual.Reviewer{Chain: chainOf(t, tc.decision), Conditional: true, Evaluated: func(_ context.Context, a authorizer.AttributesRecord, decision authorization.Decision) (bool, string) {
			if a.Verb != "create" || a.Resource != "things" || decision.CanBecomeDenied() != tc.decision.CanBecomeDenied() {
				t.Errorf("%s: asked about %+v, %s", tc.name, a, decision.DependsOn())
			}
			return tc.isEvaluated, tc.problem
		}}
		_, warnings := r.Review(t.Context(), record, config)
		if got := strings.Join(warnings, "; "); !strings.HasPrefix(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
		if got := r.WarningsOfImpersonation(record); len(got) != 1 || got[0] != standard+": it refuses the request with this impersonation" {
			t.Errorf("%s: an impersonation gets %q", tc.name, got)
		}
	}
}

// TestNamesOfPolicies warns of names where a question has none, although each request has one, and the caller asks for conditions.
func TestNamesOfPolicies(t *testing.T) {
	t.Parallel()
	names := authorization.Names{Names: []string{"a"}}
	r := &virtual.Reviewer{Chain: chainOf(t, authorization.NoOpinion("", nil)), Conditional: true, Names: func(_ context.Context, a authorizer.Attributes, _ authorization.Decision) authorization.Names {
		if a.GetResource() == "things" {
			return names
		}
		return authorization.Names{}
	}, LeavesOut: func(a authorizer.AttributesRecord) bool { return a.User != nil && a.User.GetName() == "node" }}
	config := &authorizationapi.ConditionalAuthorizationConfiguration{Mode: authorizationapi.ConditionsModeHumanReadable}
	for _, tc := range []struct {
		record authorizer.AttributesRecord
		config *authorizationapi.ConditionalAuthorizationConfiguration
		want   string
	}{
		{authorizer.AttributesRecord{Verb: "get", APIVersion: "v1", Resource: "things", ResourceRequest: true}, config, names.Warning()},
		{authorizer.AttributesRecord{Verb: "get", APIVersion: "v1", Resource: "things", ResourceRequest: true}, nil, ""},
		{authorizer.AttributesRecord{Verb: "get", APIVersion: "v1", Resource: "things", Name: "a", ResourceRequest: true}, config, ""},
		{authorizer.AttributesRecord{Verb: "list", APIVersion: "v1", Resource: "things", ResourceRequest: true}, config, ""},
		{authorizer.AttributesRecord{Verb: "get", APIVersion: "v1", Resource: "others", ResourceRequest: true}, config, ""},
		{authorizer.AttributesRecord{Verb: "get", Path: "/things"}, config, ""},
		{authorizer.AttributesRecord{Verb: "get", APIVersion: "v1", Resource: "things", ResourceRequest: true, User: &user.DefaultInfo{Name: "node"}}, config, authorization.WarningLeftOut},
		{authorizer.AttributesRecord{Verb: "get", APIVersion: "v1", Resource: "things", ResourceRequest: true, User: &user.DefaultInfo{Name: "node"}}, nil, ""},
	} {
		if _, warnings := r.Review(t.Context(), tc.record, tc.config); strings.Join(warnings, "; ") != tc.want {
			t.Errorf("%+v: got %q, want %q", tc.record, warnings, tc.want)
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
	if caller := authorization.RequestOf(attributes).Caller; caller != nil {
		*a.callers = append(*a.callers, caller.GetName())
	}
	authorization.RequestOf(attributes).Audit.Add(authorization.AuditPolicy{
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

// byVersion returns a decision for each version, and denies all others.
type byVersion map[string]authorization.Decision

func (b byVersion) Decide(_ context.Context, attributes authorizer.Attributes) authorization.Decision {
	return b[attributes.GetAPIVersion()]
}

// pinned decides from the state that the context is pinned to. Each new pin is another state.
type pinned struct {
	pins int
	seen map[int]bool
}

type pinKey struct{}

func (p *pinned) Pin(ctx context.Context) context.Context {
	if ctx.Value(pinKey{}) != nil {
		return ctx
	}
	p.pins++
	return context.WithValue(ctx, pinKey{}, p.pins)
}

func (p *pinned) Decide(ctx context.Context, _ authorizer.Attributes) authorization.Decision {
	p.seen[ctx.Value(pinKey{}).(int)] = true
	return authorization.Allow("", nil)
}

func reviewerOf(t *testing.T, decider authorization.Decider, versions ...string) *virtual.Reviewer {
	t.Helper()
	chain, err := authorization.NewChain(authorization.Member{Name: "a", Decider: decider})
	if err != nil {
		t.Fatal(err)
	}
	return &virtual.Reviewer{
		Chain: chain, Conditional: true, Enforced: func(authorizer.Attributes) bool { return true },
		Versions: func(a authorizer.Attributes) []string {
			if a.GetResource() != "things" {
				return nil
			}
			return versions
		},
	}
}

func withMode(mode authorizationapi.ConditionsMode) *authorizationapi.ConditionalAuthorizationConfiguration {
	return &authorizationapi.ConditionalAuthorizationConfiguration{Mode: mode}
}

// results names what a review may be answered.
func resultOf(status authorizationapi.SubjectAccessReviewStatus) string {
	switch {
	case len(status.ConditionsChain) > 0 && !status.Allowed && !status.Denied:
		return "conditions"
	case status.Allowed && !status.Denied:
		return "allowed"
	case status.Denied && !status.Allowed:
		return "denied"
	case !status.Allowed && !status.Denied:
		return "no opinion"
	}
	return "contradiction"
}

var versionDecisions = map[string]authorization.Decision{
	"allowed": authorization.Allow("yes", nil), "denied": authorization.Deny("no", nil), "no opinion": authorization.NoOpinion("who knows", nil),
	"allowed on conditions": allowIf, "denied on conditions": denyIf,
	"allowed unless denied": authorization.Chained(
		authorization.Set{AuthorizerName: "d", Decision: denyIf}, authorization.Set{AuthorizerName: "x", Decision: authorization.Allow("", nil)},
	),
}

// TestReviewsOfVersions combines the answers of two versions. The combination is as closed as the more closed of them.
func TestReviewsOfVersions(t *testing.T) {
	t.Parallel()
	folded := map[string]string{"allowed on conditions": "no opinion", "denied on conditions": "denied", "allowed unless denied": "denied"}
	for one, first := range versionDecisions {
		for two, second := range versionDecisions {
			t.Run(one+"/"+two, func(t *testing.T) {
				t.Parallel()
				reviewer := reviewerOf(t, byVersion{"v1": first, "v2": second}, "v1", "v2")
				of := func(name string) string {
					if f, conditional := folded[name]; conditional {
						return f
					}
					return name
				}
				want := "no opinion"
				switch {
				case one == two && folded[one] != "":
					want = "conditions"
				case of(one) == "denied" || of(two) == "denied":
					want = "denied"
				case of(one) == "allowed" && of(two) == "allowed":
					want = "allowed"
				}
				for _, version := range []string{"", "*"} {
					record := authorizer.AttributesRecord{ResourceRequest: true, Verb: "create", APIVersion: version, Resource: "things"}
					status, warnings := reviewer.Review(t.Context(), record, withMode("HumanReadable"))
					if got := resultOf(status); got != want {
						t.Errorf("got %s, want %s: %+v", got, want, status)
					}
					if len(warnings) != 1 || !strings.Contains(warnings[0], "the served versions (v1, v2)") {
						t.Errorf("got warnings %q", warnings)
					}
					if differ := one != two && (of(one) != of(two) || folded[one] != folded[two]); differ && (!strings.Contains(status.Reason, "v1: "+of(one)) || !strings.Contains(status.Reason, "v2: "+of(two))) {
						t.Errorf("got the reason %s, want the answer of each version", status.Reason)
					}
				}
			})
		}
	}
}

// TestReviewsOfOneVersion looks at reviews without a version about what is served in one, and at those that stay folded.
func TestReviewsOfOneVersion(t *testing.T) {
	t.Parallel()
	decider := byVersion{"v1": allowIf, "*": denyIf, "": denyIf, "v7": authorization.Allow("", nil)}
	things := authorizer.AttributesRecord{ResourceRequest: true, Verb: "create", APIVersion: "*", Resource: "things"}
	change := func(change func(*authorizer.AttributesRecord)) authorizer.AttributesRecord {
		changed := things
		change(&changed)
		return changed
	}
	for _, tc := range []struct {
		name   string
		record authorizer.AttributesRecord
		mode   authorizationapi.ConditionsMode
		want   string
	}{
		{"conditions", things, "HumanReadable", "conditions"},
		{"bound conditions", things, "Optimized", "conditions"},
		{"no mode", things, "", "denied"},
		{"a version that is not served", change(func(a *authorizer.AttributesRecord) { a.APIVersion = "v7" }), "HumanReadable", "allowed"},
		{"another resource", change(func(a *authorizer.AttributesRecord) { a.Resource = "others" }), "HumanReadable", "denied"},
		{"every verb", change(func(a *authorizer.AttributesRecord) { a.Verb = "*" }), "HumanReadable", "denied"},
		{"every subresource", change(func(a *authorizer.AttributesRecord) { a.Subresource = "*" }), "HumanReadable", "denied"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			status, _ := reviewerOf(t, decider, "v1").Review(t.Context(), tc.record, withMode(tc.mode))
			if got := resultOf(status); got != tc.want {
				t.Errorf("got %s, want %s: %+v", got, tc.want, status)
			}
		})
	}
	t.Run("the feature is off", func(t *testing.T) {
		t.Parallel()
		reviewer := reviewerOf(t, decider, "v1")
		reviewer.Conditional = false
		if status, _ := reviewer.Review(t.Context(), things, withMode("HumanReadable")); resultOf(status) != "denied" {
			t.Errorf("got %+v, want that it is folded", status)
		}
	})
}

// TestVersionsAreDecidedFromOneState asks that policies that change meanwhile do not make versions differ.
func TestVersionsAreDecidedFromOneState(t *testing.T) {
	t.Parallel()
	decider := &pinned{seen: map[int]bool{}}
	record := authorizer.AttributesRecord{ResourceRequest: true, Verb: "create", Resource: "things"}
	if status, _ := reviewerOf(t, decider, "v1", "v2", "v3").Review(t.Context(), record, withMode("HumanReadable")); !status.Allowed || len(decider.seen) != 1 {
		t.Errorf("got %+v from %d states, want one", status, len(decider.seen))
	}
}
