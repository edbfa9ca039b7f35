/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
)

func newRestrictingSource(t testing.TB, entries ...entry) *webhook.Source {
	t.Helper()
	source, err := webhook.NewSource(webhook.SourceConfig{
		File:    write(t, filepath.Join(t.TempDir(), "config"), configuration(t, entries...)),
		Backoff: wait.Backoff{Steps: 1}, Restricting: true, Reserved: []string{"restriction", "r", "last"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// provisoWithDeny is what a Proviso answers that has a conditional Deny policy: its chain, in
// which kube-apiserver or a policy allows.
func provisoWithDeny(text string) string {
	return status(fmt.Sprintf(`"conditionsChain":[
		{"authorizerName":"deny.policy.proviso.dev","conditions":[{"id":"example.com/c","effect":"Deny","type":%q,"condition":%q}]},
		{"authorizerName":"kube-apiserver","allowed":true}]`, known, text))
}

// TestChainLosesNoDeny decides a request by the chain that NewChain makes: whoever denies,
// kube-apiserver or a webhook, is not overridden, and a failure denies.
func TestChainLosesNoDeny(t *testing.T) {
	t.Parallel()
	kubeAllows := answer{status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}
	kubeDenies := answer{status: authorizationv1.SubjectAccessReviewStatus{Denied: true}}
	kubeSilent, kubeFails := answer{}, answer{err: errors.New("connection refused")}
	for _, tc := range []struct {
		name    string
		kube    answer
		webhook http.HandlerFunc
		want    string // once conditions are evaluated
	}{
		{name: "both allow", kube: kubeAllows, webhook: says(status(`"allowed":true`)), want: "Allow"},
		{name: "kube-apiserver allows what Proviso denies", kube: kubeAllows, webhook: says(status(`"denied":true`)), want: "Deny"},
		{name: "kube-apiserver allows what Proviso denies on a condition that is true", kube: kubeAllows, webhook: says(provisoWithDeny(`object.spec == "x"`)), want: "Deny"},
		{name: "kube-apiserver allows what Proviso denies on a condition that is false", kube: kubeAllows, webhook: says(provisoWithDeny(`object.spec == "y"`)), want: "Allow"},
		{name: "kube-apiserver allows what Proviso denies on a condition that fails", kube: kubeAllows, webhook: says(provisoWithDeny(`object.nothing == "y"`)), want: "Deny"},
		{name: "kube-apiserver allows and Proviso has no opinion", kube: kubeAllows, webhook: says(status(``)), want: "Allow"},
		{name: "kube-apiserver allows and Proviso is down", kube: kubeAllows, webhook: fails(http.StatusBadGateway), want: "Deny"},
		{name: "kube-apiserver allows and Proviso talks nonsense", kube: kubeAllows, webhook: says(`{}`), want: "Deny"},
		{name: "kube-apiserver denies what a webhook allows", kube: kubeDenies, webhook: says(status(`"allowed":true`)), want: "Deny"},
		{name: "kube-apiserver denies what a webhook allows on a condition", kube: kubeDenies, webhook: says(status(`"conditionsChain":` + allowIf(known, `object.spec == "x"`))), want: "Deny"},
		{name: "kube-apiserver fails and a webhook allows", kube: kubeFails, webhook: says(status(`"allowed":true`)), want: "Deny"},
		{name: "Proviso allows", kube: kubeSilent, webhook: says(status(`"allowed":true`)), want: "Allow"},
		{name: "Proviso allows on a condition that is true", kube: kubeSilent, webhook: says(status(`"conditionsChain":` + allowIf(known, `object.spec == "x"`))), want: "Allow"},
		{name: "nobody allows", kube: kubeSilent, webhook: says(status(``)), want: "NoOpinion"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			chain, err := webhook.NewChain(webhook.ChainConfig{
				KubeAPIServer: newAuthorizer(t, &server{answers: []answer{tc.kube}}, nil),
				Webhooks:      newRestrictingSource(t, conditional(t, "w", newRemote(t, tc.webhook, nil))),
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := kindOf(evaluate(t, chain.Begin(t.Context(), asking()))); got != tc.want {
				t.Errorf("got %s of requests, want %s", got, tc.want)
			}
			if got := kindOf(chain.Decide(t.Context(), asking()).Fold()); (got == "Allow") && tc.want != "Allow" {
				t.Errorf("got %s without conditions, want %s", got, tc.want)
			}
		})
	}
}

// restricting answers with a decision, whatever the request is.
type restricting struct{ decision authorization.Decision }

func (r restricting) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return r.decision.Fold().Concrete()
}

func (r restricting) ConditionsAwareAuthorize(context.Context, authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorization.ToUpstream(r.decision)
}

func (restricting) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

// TestChainRestrictionsOnlyDeny puts authorizers before everything that could allow, while
// kube-apiserver and the webhook allow.
func TestChainRestrictionsOnlyDeny(t *testing.T) {
	t.Parallel()
	onObject := func(effect authorization.Effect, text string) authorization.Decision {
		return authorization.Conditions(authorization.Condition{ID: "example.com/c", Effect: effect, Type: authorization.ConditionTypeCEL, Text: text})
	}
	for _, tc := range []struct {
		name     string
		decision authorization.Decision
		want     string
	}{
		{name: "no opinion", decision: authorization.NoOpinion("", nil), want: "Allow"},
		{name: "Deny", decision: authorization.Deny("", nil), want: "Deny"},
		{name: "Deny on a condition that is true", decision: onObject(authorization.EffectDeny, `object.spec == "x"`), want: "Deny"},
		{name: "Deny on a condition that is false", decision: onObject(authorization.EffectDeny, `object.spec == "y"`), want: "Allow"},
		{name: "Allow, which is a mistake", decision: authorization.Allow("", nil), want: "Deny"},
		{name: "Allow on a condition, which is a mistake", decision: onObject(authorization.EffectAllow, `object.spec == "x"`), want: "Deny"},
		{name: "Allow on a condition that is false", decision: onObject(authorization.EffectAllow, `object.spec == "y"`), want: "Deny"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			chain, err := webhook.NewChain(webhook.ChainConfig{
				KubeAPIServer: newAuthorizer(t, &server{answers: []answer{{status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}}}, nil),
				Webhooks:      newRestrictingSource(t, conditional(t, "w", newRemote(t, says(status(`"allowed":true`)), nil))),
				Restrictions:  []authorization.Member{{Name: "restriction", Decider: authorization.DeciderOf(restricting{tc.decision})}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := kindOf(evaluate(t, chain.Begin(t.Context(), asking()))); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestChainAsksNobodyAboutHealth asks while kube-apiserver and the webhook are down.
func TestChainAsksNobodyAboutHealth(t *testing.T) {
	t.Parallel()
	last := authorization.Member{Name: "last", Decider: authorization.DeciderOf(authorizerfactory.NewAlwaysAllowAuthorizer())}
	kube := &server{answers: []answer{{err: errors.New("connection refused")}}}
	remote := newRemote(t, fails(http.StatusBadGateway), nil)
	chain, err := webhook.NewChain(webhook.ChainConfig{
		KubeAPIServer: newAuthorizer(t, kube, nil), Webhooks: newRestrictingSource(t, conditional(t, "w", remote)), Last: []authorization.Member{last},
		AlwaysAllowGroups: []string{user.SystemPrivilegedGroup}, AlwaysAllowPaths: []string{"/healthz"},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]authorizer.Decision{}
	for name, attributes := range map[string]authorizer.AttributesRecord{
		"health":           {User: &user.DefaultInfo{Name: user.Anonymous}, Verb: "get", Path: "/healthz"},
		"privileged group": {User: &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}, Verb: "get", Resource: "pods", ResourceRequest: true},
	} {
		got[name], _, _ = chain.Authorize(t.Context(), attributes)
	}
	want := map[string]authorizer.Decision{"health": authorizer.DecisionAllow, "privileged group": authorizer.DecisionAllow}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if calls, _ := remote.calls(); calls != 0 || len(kube.asked) != 0 {
		t.Errorf("the webhook was asked %d times and kube-apiserver %d times, want none", calls, len(kube.asked))
	}
	if decision, _, _ := chain.Authorize(t.Context(), attributes("alice")); decision != authorizer.DecisionDeny {
		t.Errorf("got %v of a later authorizer while all others are down, want Deny", decision)
	}
}

// lying answers with a Deny condition that only it can evaluate, and then allows.
type lying struct {
	restricting
}

// EvaluateConditions allows.
func (lying) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
}

// TestChainRestrictionAllowsAtEvaluation has a restriction answer with an Allow when its conditions are
// evaluated. That is a mistake, and denies, whatever later authorizers say and whatever the failure mode is.
func TestChainRestrictionAllowsAtEvaluation(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]authorization.FailureMode{"failing to Deny": authorization.FailureModeDeny, "failing to NoOpinion": authorization.FailureModeNoOpinion} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opaque := authorization.Chained(authorization.Set{AuthorizerName: "r", FailureMode: mode, Decision: authorization.Conditions(
				authorization.Condition{ID: "example.com/c", Effect: authorization.EffectDeny, Type: unknown, Text: "x"})})
			chain, err := webhook.NewChain(webhook.ChainConfig{
				KubeAPIServer: newAuthorizer(t, &server{answers: []answer{{status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}}}, nil),
				Webhooks:      newRestrictingSource(t, conditional(t, "w", newRemote(t, says(status(`"allowed":true`)), nil))),
				Restrictions:  []authorization.Member{{Name: "r", Decider: authorization.DeciderOf(lying{restricting{opaque}})}},
			})
			if err != nil {
				t.Fatal(err)
			}
			got := evaluate(t, chain.Begin(t.Context(), asking()))
			if kindOf(got) != "Deny" || !strings.Contains(got.Reason(), "may only deny") {
				t.Errorf("got %s (%s), want Deny", kindOf(got), got.Reason())
			}
		})
	}
}

// TestChainRefusesToFailOpen makes a chain from what would let kube-apiserver decide alone.
func TestChainRefusesToFailOpen(t *testing.T) {
	t.Parallel()
	kube := newAuthorizer(t, &server{answers: []answer{{}}}, nil)
	remote := newRemote(t, says(status(`"allowed":true`)), nil)
	for _, tc := range []struct {
		name   string
		config webhook.ChainConfig
		want   string
	}{
		{
			name:   "a restriction with a name that a webhook may have",
			config: webhook.ChainConfig{KubeAPIServer: kube, Webhooks: newRestrictingSource(t, conditional(t, "w", remote)), Restrictions: []authorization.Member{{Name: "w", Decider: kube}}},
			want:   `in Reserved, so that no webhook has the same name: "w"`,
		},
		{
			name:   "a last authorizer with a name that a webhook may get",
			config: webhook.ChainConfig{KubeAPIServer: kube, Webhooks: newRestrictingSource(t, conditional(t, "w", remote)), Last: []authorization.Member{{Name: "later", Decider: kube}}},
			want:   `in Reserved, so that no webhook has the same name: "later"`,
		},
		{name: "no webhooks", config: webhook.ChainConfig{KubeAPIServer: kube}, want: "needs KubeAPIServer and Webhooks"},
		{name: "no kube-apiserver", config: webhook.ChainConfig{Webhooks: newRestrictingSource(t, conditional(t, "w", remote))}, want: "needs KubeAPIServer and Webhooks"},
		{name: "webhooks that may fail open", config: webhook.ChainConfig{KubeAPIServer: kube, Webhooks: newSource(t, conditional(t, "w", remote))}, want: "Restricting"},
		{
			name:   "a name twice",
			config: webhook.ChainConfig{KubeAPIServer: kube, Webhooks: newRestrictingSource(t, conditional(t, "w", remote)), Last: []authorization.Member{{Name: "kube-apiserver", Decider: kube}}},
			want:   "used twice",
		},
		{
			name:   "a restriction that is nil",
			config: webhook.ChainConfig{KubeAPIServer: kube, Webhooks: newRestrictingSource(t, conditional(t, "w", remote)), Restrictions: []authorization.Member{{Name: "r"}}},
			want:   `"r" of the restrictions is nil`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if _, err := webhook.NewChain(tc.config); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// TestRestrictingSourceRefuses loads and reloads files that a restricting source must not
// take. The last good one stays in force.
func TestRestrictingSourceRefuses(t *testing.T) {
	t.Parallel()
	remote := newRemote(t, says(status(`"allowed":true`)), nil)
	good := conditional(t, "w", remote)
	for _, tc := range []struct {
		name string
		bad  entry
		want string
	}{
		{name: "a webhook that fails open", bad: conditional(t, "v", remote).with(entry{"failurePolicy": "NoOpinion"}), want: "authorizers[1].webhook.failurePolicy"},
		{name: "the name of kube-apiserver", bad: conditional(t, "kube-apiserver", remote), want: "authorizers[1].name"},
		{name: "the name of what kube-apiserver denies", bad: conditional(t, "deny.kube-apiserver", remote), want: "authorizers[1].name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			file := write(t, filepath.Join(t.TempDir(), "config"), configuration(t, good, tc.bad))
			config := webhook.SourceConfig{File: file, Backoff: wait.Backoff{Steps: 1}, Restricting: true}
			if _, err := webhook.NewSource(config); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error about %s", err, tc.want)
			}
			write(t, file, configuration(t, good))
			source, err := webhook.NewSource(config)
			if err != nil {
				t.Fatal(err)
			}
			write(t, file, configuration(t, good, tc.bad))
			source.Reload(t.Context())
			if members := (&webhook.Dynamic{Source: source}).Members(t.Context()); len(members) != 1 {
				t.Errorf("got %d webhooks after a reload of a bad file, want that of the good one", len(members))
			}
		})
	}
}
