/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/pkg/granular"
)

// The bounds of webhooks at the front door, as docs/doors.md has them.
const (
	webhooksTimeout = 2 * time.Second
	mostCalls       = 128
)

// answers is an authorizer after the policies. It answers by verb, or with Allow, and records the verbs and whether conditions were wanted.
type answers struct {
	mu     sync.Mutex
	asked  []string
	byVerb map[string]authorization.Decision
	answer authorization.Decision
}

func (a *answers) Decide(_ context.Context, attributes authorizer.Attributes) authorization.Decision {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := attributes.GetVerb()
	if authorization.RequestOf(attributes).Mode != "" {
		asked += " with conditions"
	}
	a.asked = append(a.asked, asked)
	if answer, ok := a.byVerb[attributes.GetVerb()]; ok {
		return answer
	}
	return a.answer
}

func chainAfter(tb testing.TB, members ...authorization.Decider) *authorization.Chain {
	tb.Helper()
	var named []authorization.Member
	for i, member := range members {
		named = append(named, authorization.Member{Name: fmt.Sprintf("webhook-%d.example.com", i), Decider: member})
	}
	chain, err := authorization.NewChain(named...)
	if err != nil {
		tb.Fatal(err)
	}
	return chain
}

// opaque is a condition of a webhook, of a type that only the webhook evaluates.
func opaque(effect authorization.Effect) authorization.Decision {
	return authorization.Conditions(authorization.Condition{ID: "example.com/" + strings.ToLower(string(effect)), Effect: effect, Type: "example.com/opaque", Text: "x"})
}

// TestAfterPolicies has each combination of policies and of an authorizer after them: a webhook is asked unless policies deny, its Deny beats their Allow, and its
// conditions never open what Proviso does not evaluate.
func TestAfterPolicies(t *testing.T) {
	t.Parallel()
	yes, no, none := authorization.Allow("by the webhook", nil), authorization.Deny("not by the webhook", nil), authorization.NoOpinion("", nil)
	allows, denies, holds := opaque(authorization.EffectAllow), opaque(authorization.EffectDeny), opaque(authorization.EffectNoOpinion)
	mixed := authorization.Chained(authorization.Set{AuthorizerName: "a", Decision: denies}, authorization.Set{AuthorizerName: "b", Decision: allows})
	read := asAlice(configMaps("get"))
	for _, tc := range []struct {
		name     string
		policies map[string]policy
		request  authorizer.AttributesRecord
		after    authorization.Decision
		byVerb   map[string]authorization.Decision
		// misses says that the inner door is not called for what other authorizers allow.
		misses bool
		// unknown says that the kube-apiserver is not known to call the inner door.
		unknown bool
		want    string
		reason  string
		asked   string
	}{
		{name: "a policy allows", policies: always, request: read, after: none, want: "Allow", asked: "get"},
		{name: "a policy allows, and the webhook, too", policies: always, request: read, after: yes, want: "Allow", reason: "policy=p", asked: "get"},
		{name: "a policy allows, and the webhook denies", policies: always, request: read, after: no, want: "Deny", reason: "not by the webhook", asked: "get"},
		{name: "a policy allows, and the webhook could deny", policies: always, request: asAlice(nil), after: denies, want: "Deny", asked: "create"},
		{name: "a policy allows, and the webhook allows on conditions", policies: always, request: asAlice(nil), after: allows, want: "Allow", asked: "create"},
		{name: "a policy allows, when Proviso asks", policies: always, request: asAlice(both(configMaps("get"), marked(authorization.DelegationMarker))), after: no, want: "NoOpinion"},
		{name: "a policy denies", policies: never, request: read, after: yes, want: "Deny"},
		{name: "Allow", request: read, after: yes, want: "Allow", reason: "by the webhook", asked: "get"},
		{name: "Deny", request: read, after: no, want: "Deny", reason: "not by the webhook", asked: "get"},
		{name: "no opinion", request: read, after: none, want: "NoOpinion", asked: "get"},
		{name: "no opinion, with a reason", policies: onCondition, request: read, after: authorization.NoOpinion("it is down", nil), want: "NoOpinion", reason: "; it is down", asked: "get"},
		{name: "a path", request: asAlice(metricsPath), after: yes, want: "Allow", asked: "get"},
		{name: "every version", request: asAlice(both(configMaps("get"), func(a *authorizer.AttributesRecord) { a.APIVersion = "*" })), after: yes, want: "Allow", asked: "get"},
		{name: "when Proviso asks, Allow", request: asAlice(both(configMaps("get"), marked(authorization.DelegationMarker))), after: yes, want: "NoOpinion"},
		{name: "when Proviso asks, Deny", request: asAlice(both(configMaps("get"), marked("Authorization.Proviso.Dev/Delegated"))), after: no, want: "NoOpinion"},
		{name: "who impersonates the marker", request: asAlice(func(a *authorizer.AttributesRecord) {
			a.Verb, a.APIGroup, a.APIVersion, a.Resource, a.Subresource = "impersonate", "authentication.k8s.io", "v1", "userextras", authorization.DelegationMarker
		}), after: yes, want: "Deny"},

		{name: "a condition of a policy that no server evaluates", policies: onCondition, request: read, after: yes, want: "Allow", asked: "get"},
		{name: "a Deny condition of a policy that no server evaluates", policies: unlessIt, request: read, after: yes, want: "Deny"},
		{name: "a Deny condition of a policy that Proviso evaluates", policies: unlessIt, request: asAlice(nil), after: yes, want: "Allow", asked: "create with conditions"},
		{name: "a condition of a policy that Proviso evaluates", policies: onCondition, request: asAlice(nil), after: none, want: "Allow", reason: "allowed if the conditions hold", asked: "create"},
		{name: "a condition of a policy that Proviso evaluates, Deny", policies: onCondition, request: asAlice(nil), after: no, want: "Deny", reason: "not by the webhook", asked: "create"},
		{name: "a condition of a policy that Proviso evaluates, Deny conditions", policies: onCondition, request: asAlice(nil), after: mixed, want: "Deny", asked: "create"},
		{name: "a condition of a policy that another server evaluates, Deny", policies: onCondition, request: asAlice(configMaps("update")), after: no, want: "Deny", reason: "not by the webhook", asked: "update"},
		{name: "a condition of a policy that another server evaluates", policies: onCondition, request: asAlice(configMaps("update")), after: none, want: "Allow", reason: "the server of the resource evaluates", asked: "update"},
		{name: "a Deny condition of a policy that another server evaluates, Allow", policies: unlessIt, request: asAlice(configMaps("update")), after: yes, want: "Allow", asked: "update"},

		{name: "conditions about a read", request: read, after: allows, want: "NoOpinion", asked: "get"},
		{name: "conditions about a write that nothing enforces", request: asAlice(configMaps("create")), after: allows, want: "NoOpinion", asked: "create"},
		{name: "conditions that Proviso evaluates", request: asAlice(nil), after: allows, want: "Allow", reason: "allowed if the conditions hold", asked: "create with conditions"},
		{name: "Deny conditions about a write that nothing enforces", request: asAlice(configMaps("create")), after: denies, want: "Deny", asked: "create"},
		{name: "Deny conditions that Proviso could evaluate", request: asAlice(nil), after: denies, want: "Deny", asked: "create with conditions"},
		{name: "conditions that allow or deny", request: asAlice(nil), after: mixed, want: "Deny", asked: "create with conditions"},
		{name: "conditions that only hold back", request: asAlice(nil), after: holds, want: "NoOpinion", asked: "create with conditions"},

		{name: "a listed write, Allow", request: claim("create"), after: yes, want: "Allow", asked: "create with conditions"},
		{name: "a listed write, Deny", request: claim("create"), after: no, want: "Deny", asked: "create with conditions"},
		{name: "a listed write, conditions", request: claim("create"), after: allows, want: "Allow", reason: "allowed if the conditions hold", asked: "create with conditions"},
		{name: "a listed write, Deny conditions", request: claim("create"), after: mixed, want: "Deny", asked: "create with conditions"},
		{name: "a listed write of a server that is not known", request: claim("create"), after: allows, unknown: true, want: "NoOpinion", asked: "create"},
		{name: "a listed write, and the inner door is not always called", request: claim("create"), after: allows, misses: true, want: "NoOpinion", asked: "create"},
		{name: "a listed write, allowed, and the inner door is not always called", request: claim("create"), after: yes, misses: true, want: "Allow", asked: "create"},
		{name: "a condition of a policy on a listed write", policies: onCondition, request: claim("create"), after: none, want: "Allow", asked: "create"},
		{name: "a condition of a policy on a listed write, Deny", policies: onCondition, request: claim("create"), after: no, want: "Deny", reason: "not by the webhook", asked: "create"},
		{name: "a condition of a policy on a listed write, Deny conditions", policies: onCondition, request: claim("create"), after: denies, want: "Deny", asked: "create"},
		{name: "a listed write that a policy allows, Deny", policies: always, request: claim("create"), after: no, want: "Deny", reason: "not by the webhook", asked: "create"},
		{name: "the same, and the inner door is not always called", policies: onCondition, request: claim("create"), after: no, misses: true, want: "Deny", reason: "not by the webhook", asked: "create"},
		{name: "the same without a Deny", policies: onCondition, request: claim("create"), after: none, misses: true, want: "NoOpinion", reason: "a webhook could deny it", asked: "create"},

		{name: "an update of a claim that the webhook lets read", policies: map[string]policy{"p": onVerbs(allow, `object.a == 1`, "update")}, request: claim("update"), after: none, byVerb: map[string]authorization.Decision{"get": yes}, want: "Allow", asked: "get, update"},
		{name: "an update of a claim that a policy lets read, and the webhook does not", policies: map[string]policy{"p": onVerbs(allow, `object.a == 1`, "update"), "r": onVerbs(allow, ``, "get")}, request: claim("update"), after: none, byVerb: map[string]authorization.Decision{"get": no}, want: "NoOpinion", reason: "the answer may show objects", asked: "get, update with conditions"},
		{name: "an update of a claim that a policy lets read, and the webhook could deny", policies: map[string]policy{"p": onVerbs(allow, `object.a == 1`, "update"), "r": onVerbs(allow, ``, "get")}, request: claim("update"), after: none, byVerb: map[string]authorization.Decision{"get": denies}, want: "NoOpinion", reason: "the answer may show objects", asked: "get, update with conditions"},
		{name: "an update of a claim that the webhook does not let read", policies: map[string]policy{"p": onVerbs(allow, `object.a == 1`, "update")}, request: claim("update"), after: none, byVerb: map[string]authorization.Decision{"get": no}, want: "NoOpinion", reason: "the answer may show objects", asked: "get, update with conditions"},
		{name: "an update of a claim that the webhook lets read on conditions", policies: map[string]policy{"p": onVerbs(allow, `object.a == 1`, "update")}, request: claim("update"), after: none, byVerb: map[string]authorization.Decision{"get": allows}, want: "NoOpinion", asked: "get, update with conditions"},
		{name: "permission on fields", request: asAlice(func(a *authorizer.AttributesRecord) { a.Verb, a.Name = "create", "web" }), after: none, byVerb: map[string]authorization.Decision{"granular": yes}, want: "Allow", reason: "every field that changes", asked: "create with conditions, granular"},
		{name: "no permission on fields", request: asAlice(func(a *authorizer.AttributesRecord) { a.Verb, a.Name = "create", "web" }), after: none, byVerb: map[string]authorization.Decision{"granular": no}, want: "NoOpinion", asked: "create with conditions, granular"},
		{name: "permission on fields on conditions", request: asAlice(func(a *authorizer.AttributesRecord) { a.Verb, a.Name = "create", "web" }), after: none, byVerb: map[string]authorization.Decision{"granular": mixed}, want: "NoOpinion", asked: "create with conditions, granular"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			source, after := publish(t, tc.policies), &answers{answer: tc.after, byVerb: tc.byVerb}
			door := newInnerDoor()
			door.MissesWebhooks = tc.misses
			decider, err := frontdoor.New(frontdoor.Config{
				Policies: frontdoor.Policies{Chain: chainOf(t, source), Source: source}, AfterPolicies: chainAfter(t, after), KubeAPIServer: &others{},
				Places: places{enforces: enforcesMachines, inner: door, elsewhere: func(a authorizer.Attributes) bool {
					return a.GetResource() == "configmaps" && a.GetVerb() == "update"
				}}.table(),
				Fields: &frontdoor.Fields{Check: granular.GranularCheck, KubeAPIServer: &others{}},
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			if !tc.unknown {
				ctx = frontdoor.WithClient(ctx, goodClient)
			}
			got, err := decider.Decide(ctx, tc.request)
			if err != nil {
				t.Fatal(err)
			}
			// The check for permission on fields is another question.
			asked := strings.TrimSuffix(strings.Join(after.asked, ", "), ", granular")
			if strings.HasSuffix(tc.asked, ", granular") {
				asked = strings.Join(after.asked, ", ")
			}
			if show(got) != tc.want || !strings.Contains(got.Reason(), tc.reason) || asked != tc.asked {
				t.Errorf("got %s (%s), asked %q; want %s (%s), asked %q", show(got), got.Reason(), asked, tc.want, tc.reason, tc.asked)
			}
		})
	}
}

// TestAfterPoliciesFoldsClosed has a conditional answer before an Allow. Fold would allow it, because it is Allow for all values of the condition, but
// a webhook that cannot evaluate its condition denies.
func TestAfterPoliciesFoldsClosed(t *testing.T) {
	t.Parallel()
	source := publish(t, nil)
	after := chainAfter(t, &answers{answer: opaque(authorization.EffectAllow)}, &answers{answer: authorization.Allow("", nil)})
	decider, err := frontdoor.New(frontdoor.Config{Policies: frontdoor.Policies{Chain: chainOf(t, source), Source: source}, AfterPolicies: after, Places: places{enforces: enforcesMachines}.table()})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decider.Decide(t.Context(), asAlice(configMaps("create"))); err != nil || !got.IsNoOpinion() {
		t.Errorf("got %s, %v, want NoOpinion", show(got), err)
	}
}

// TestAfterPoliciesOfConditionsHandlers asks as a kube-apiserver that handles conditions: a Deny of a webhook is final, and its Allow follows the conditions of policies.
func TestAfterPoliciesOfConditionsHandlers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		policies map[string]policy
		after    authorization.Decision
		want     []string
		asked    int
	}{
		{name: "no policy, Allow", after: authorization.Allow("", nil), want: []string{`"allowed":true`}, asked: 1},
		{name: "no policy, Deny", after: authorization.Deny("", nil), want: []string{`"denied":true`}, asked: 1},
		{name: "no policy, conditions", after: opaque(authorization.EffectAllow), want: []string{`{"status":{"allowed":false,"reason":`}, asked: 1},
		{name: "conditions, Deny", policies: onCondition, after: authorization.Deny("", nil), want: []string{`"denied":true`}, asked: 1},
		{name: "conditions, Deny conditions", policies: onCondition, after: opaque(authorization.EffectDeny), want: []string{`"denied":true`}, asked: 1},
		{name: "conditions, conditions", policies: onCondition, after: opaque(authorization.EffectAllow), want: []string{`"allowConditions"`}, asked: 1},
		{name: "conditions, no opinion", policies: onCondition, after: authorization.NoOpinion("", nil), want: []string{`"allowConditions"`}, asked: 1},
		{name: "Deny conditions, Allow", policies: unlessIt, after: authorization.Allow("", nil), want: []string{`"denyConditions"`, `{"authorizerName":"webhooks.proviso.dev","decision":{"type":"Allow"`}, asked: 1},
		{name: "Allow with Deny conditions, Deny", policies: alwaysUnless, after: authorization.Deny("", nil), want: []string{`"denied":true`}, asked: 1},
		{name: "Allow with Deny conditions", policies: alwaysUnless, after: authorization.NoOpinion("", nil), want: []string{`"denyConditions"`}, asked: 1},
		{name: "Allow, Deny", policies: always, after: authorization.Deny("", nil), want: []string{`"denied":true`}, asked: 1},
		{name: "Allow", policies: always, after: authorization.NoOpinion("", nil), want: []string{`"allowed":true`}, asked: 1},
		{name: "Deny", policies: never, after: authorization.Allow("", nil), want: []string{`"denied":true`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			source, after := publish(t, tc.policies), &answers{answer: tc.after}
			door, err := frontdoor.New(frontdoor.Config{
				Policies: frontdoor.Policies{Chain: chainOf(t, source), Source: source}, AfterPolicies: chainAfter(t, after), Places: places{enforces: enforcesMachines, handler: newHandler()}.table(), KubeAPIServer: &others{},
			})
			if err != nil {
				t.Fatal(err)
			}
			got := listen(t, door)(post(reviewOf("create", "persistentvolumeclaims", handles+", ")))
			body := strings.Replace(got.body, `"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{},`, "", 1)
			missing := slices.DeleteFunc(slices.Clone(tc.want), func(want string) bool { return strings.Contains(body, want) })
			if got.code != http.StatusOK || len(missing) > 0 || len(after.asked) != tc.asked {
				t.Errorf("got %d %s after asking %q, want %q and %d questions", got.code, body, after.asked, tc.want, tc.asked)
			}
		})
	}
}

// TestUnreadableConditionsOfHandlers has a kube-apiserver that handles conditions ask about an update by a user who may not read the object: no conditions are left that
// could allow it, whether a policy or a webhook allows.
func TestUnreadableConditionsOfHandlers(t *testing.T) {
	t.Parallel()
	yes, none := authorization.Allow("", nil), authorization.NoOpinion("", nil)
	denyIf, always := onVerbs(deny, `object.a == 1`, "update"), onVerbs(allow, ``, "update")
	for _, tc := range []struct {
		name     string
		policies map[string]policy
		after    authorization.Decision
		get      authorization.Decision
		want     string
	}{
		{"a policy allows", map[string]policy{"d": denyIf, "a": always}, none, none, `"denied":true`},
		{"a webhook allows", map[string]policy{"d": denyIf}, yes, none, `"denied":true`},
		{"a webhook allows, and denies to read", map[string]policy{"d": denyIf}, yes, authorization.Deny("", nil), `"denied":true`},
		{"a webhook allows, also to read", map[string]policy{"d": denyIf}, yes, yes, `"conditionalDecision"`},
		{"no authorizer allows", map[string]policy{"d": denyIf}, none, none, `"conditionalDecision"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			source, after := publish(t, tc.policies), &answers{answer: tc.after, byVerb: map[string]authorization.Decision{"get": tc.get}}
			door, err := frontdoor.New(frontdoor.Config{
				Policies: frontdoor.Policies{Chain: chainOf(t, source), Source: source}, AfterPolicies: chainAfter(t, after), Places: places{enforces: enforcesMachines, handler: newHandler()}.table(), KubeAPIServer: &others{},
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := listen(t, door)(post(reviewOf("update", "persistentvolumeclaims", handles+", "))); !strings.Contains(got.body, tc.want) {
				t.Errorf("got %s after asking %q, want %s", got.body, after.asked, tc.want)
			}
		})
	}
}

// hanging is a webhook that does not answer. It fails when the time is over, and counts its calls.
type hanging struct {
	name           string
	failure        authorization.Decision
	calls, refused atomic.Int32
}

func (s *hanging) Decide(ctx context.Context, _ authorizer.Attributes) authorization.Decision {
	release, err := webhook.AcquireCall(ctx, s.name)
	if err != nil {
		s.refused.Add(1)
		return s.failure
	}
	defer release()
	s.calls.Add(1)
	<-ctx.Done()
	return s.failure
}

// TestSlowWebhook asks that the answer comes after two seconds, however many webhooks there are, and before kube-apiserver gives up.
func TestSlowWebhook(t *testing.T) {
	t.Parallel()
	open, closed := authorization.NoOpinion("it failed", nil), authorization.Deny("it failed", nil)
	for _, tc := range []struct {
		name    string
		failure []authorization.Decision
		timeout string
		user    string
		denied  bool
		reason  string
		after   time.Duration
	}{
		{name: "no opinion", failure: []authorization.Decision{open}, reason: "it failed", after: webhooksTimeout},
		{name: "deny", failure: []authorization.Decision{closed}, denied: true, reason: "it failed", after: webhooksTimeout},
		{name: "several", failure: []authorization.Decision{open, open, closed}, denied: true, reason: "it failed", after: webhooksTimeout},
		{name: "a client that waits for less", failure: []authorization.Decision{open}, timeout: "?timeout=900ms", reason: "it failed", after: 600 * time.Millisecond},
		{name: "a policy that denies", failure: []authorization.Decision{open}, user: "alice", denied: true, reason: "policy=p reason=Denied: it denies the request"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var members []authorization.Decider
				for _, failure := range tc.failure {
					members = append(members, &hanging{failure: failure})
				}
				b := newBubbleWith(t, never, nil, chainAfter(t, members...))
				if tc.user == "" {
					tc.user = "bob"
				}
				for _, bytes := range []int{0, largeBytes} {
					request := review(tc.user, "c", bytes)
					request.URL.RawQuery = strings.TrimPrefix(tc.timeout, "?")
					got := <-b.send(t, request)
					if got.code != http.StatusOK || got.status.Allowed || got.status.Denied != tc.denied || !strings.HasPrefix(got.status.Reason, tc.reason) || got.after != tc.after {
						t.Errorf("%d bytes: got %s, want denied %t after %s: %s", bytes, got, tc.denied, tc.after, tc.reason)
					}
				}
			})
		})
	}
}

// stuck ignores the end of its context.
type stuck struct{ open chan struct{} }

func (s stuck) Decide(context.Context, authorizer.Attributes) authorization.Decision {
	<-s.open
	return authorization.Allow("", nil)
}

// TestAuthorizerThatDoesNotEndIsDenied has an authorizer that does not end in time.
func TestAuthorizerThatDoesNotEndIsDenied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		b := newBubbleWith(t, nil, nil, chainAfter(t, stuck{open}))
		wantDenied(t, "a review", b.askSmall(t, "bob", "c"), reasonTooLate, 2250*time.Millisecond)
		close(open)
		synctest.Wait()
	})
}

// TestSlowWebhooksKeepNoSlotOfPolicies floods the front door with reviews that wait for a webhook: reviews that policies decide are answered at
// once, small and large ones, of the same user and of others.
func TestSlowWebhooksKeepNoSlotOfPolicies(t *testing.T) {
	t.Parallel()
	for _, bytes := range []int{0, largeBytes} {
		t.Run(fmt.Sprint(bytes, " bytes"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				hook := &hanging{failure: authorization.NoOpinion("it failed", nil)}
				b := newBubbleWith(t, never, nil, chainAfter(t, hook))
				var replies []<-chan reply
				for i := range 3 * mostCalls {
					replies = append(replies, b.send(t, review(fmt.Sprint("user-", i%50), "c", bytes)))
					synctest.Wait()
				}
				const denied = `policy=p reason=Denied: it denies the request`
				wantDenied(t, "a small review that a policy denies", b.askSmall(t, "alice", "c"), denied, 0)
				wantDenied(t, "a large review that a policy denies", b.ask(t, "alice", "c"), denied, 0)
				for _, replied := range replies {
					if got := <-replied; got.code != http.StatusOK || got.status.Allowed || got.status.Denied || got.status.Reason != "it failed" || got.after > webhooksTimeout {
						t.Errorf("got %s, want that the webhook failed, in time", got)
					}
				}
				most := int32(mostCalls)
				if bytes > 0 {
					most = mostLarge
				}
				if calls := hook.calls.Load(); calls != most || calls+hook.refused.Load() != 3*mostCalls {
					t.Errorf("got %d calls and %d refusals, want %d calls", calls, hook.refused.Load(), most)
				}
			})
		})
	}
}

// TestCallsOfOneUser asks that one user name has a share of the calls, and that calls that are not made are counted.
func TestCallsOfOneUser(t *testing.T) { //nolint:paralleltest // it counts, and others count, too
	const metric = "proviso_webhook_authorize_webhooks_busy_total"
	frontdoor.RegisterMetrics()
	before := counted(t, metric)
	synctest.Test(t, func(t *testing.T) {
		hook := &hanging{failure: authorization.Deny("it failed", nil)}
		b := newBubbleWith(t, nil, nil, chainAfter(t, hook))
		var replies []<-chan reply
		for range mostCalls {
			replies = append(replies, b.send(t, review("mallory", "c", 0)))
			synctest.Wait()
		}
		if calls := hook.calls.Load(); calls != mostCalls/4 {
			t.Errorf("got %d calls, want %d", calls, mostCalls/4)
		}
		other := b.send(t, review("bob", "c", 0))
		synctest.Wait()
		if calls := hook.calls.Load(); calls != mostCalls/4+1 {
			t.Errorf("got %d calls, want one more for another user", calls)
		}
		for _, replied := range append(replies, other) {
			if got := <-replied; !got.status.Denied || got.after > webhooksTimeout {
				t.Errorf("got %s, want denied, in time", got)
			}
		}
		if got := counted(t, metric) - before; got != float64(hook.refused.Load()) || got != 3*mostCalls/4 {
			t.Errorf("counted %v, want %d", got, 3*mostCalls/4)
		}
	})
}

// only is a webhook whose matchConditions have the users with a prefix.
type only struct {
	prefix string
	hook   authorization.Decider
}

func (o only) Decide(ctx context.Context, a authorizer.Attributes) authorization.Decision {
	if !strings.HasPrefix(a.GetUser().GetName(), o.prefix) {
		return authorization.NoOpinion("", nil)
	}
	return o.hook.Decide(ctx, a)
}

// healthy is a webhook that answers after some time.
type healthy struct {
	name   string
	after  time.Duration
	answer authorization.Decision
	calls  atomic.Int32
}

func (h *healthy) Decide(ctx context.Context, _ authorizer.Attributes) authorization.Decision {
	release, err := webhook.AcquireCall(ctx, h.name)
	if err != nil {
		return authorization.NoOpinion("not called", nil)
	}
	defer release()
	h.calls.Add(1)
	select {
	case <-time.After(h.after):
		return h.answer
	case <-ctx.Done():
		return authorization.NoOpinion("it failed", nil)
	}
}

// TestWebhookThatHangsTakesNoTimeOfOthers has webhooks that hang and fail open before one that answers.
func TestWebhookThatHangsTakesNoTimeOfOthers(t *testing.T) {
	t.Parallel()
	open := authorization.NoOpinion("it failed", nil)
	for _, tc := range []struct {
		name    string
		hanging int
		after   time.Duration
		answer  authorization.Decision
		denied  bool
		allowed bool
		calls   int32
		took    time.Duration
	}{
		{name: "Deny", hanging: 1, after: 5 * time.Millisecond, answer: authorization.Deny("", nil), denied: true, calls: 1, took: webhooksTimeout},
		{name: "Allow", hanging: 1, after: 5 * time.Millisecond, answer: authorization.Allow("", nil), allowed: true, calls: 1, took: webhooksTimeout},
		{name: "Deny after ten that hang", hanging: 10, after: webhooksTimeout/2 - time.Millisecond, answer: authorization.Deny("", nil), denied: true, calls: 1, took: webhooksTimeout},
		{name: "Deny without another webhook", after: time.Second, answer: authorization.Deny("", nil), denied: true, calls: 1, took: time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var members []authorization.Decider
				for i := range tc.hanging {
					members = append(members, &hanging{name: fmt.Sprint(i), failure: open})
				}
				last := &healthy{name: "last", after: tc.after, answer: tc.answer}
				b := newBubbleWith(t, nil, nil, chainAfter(t, append(members, last)...))
				got := <-b.send(t, review("mallory", "c", 0))
				if got.status.Denied != tc.denied || got.status.Allowed != tc.allowed || last.calls.Load() != tc.calls || got.after != tc.took {
					t.Errorf("got %s after %d calls of the last webhook", got, last.calls.Load())
				}
			})
		})
	}
}

// TestWebhooksAfterOneThatDecidesAreNotCalled asks a webhook that answers in time: the next one is not called.
func TestWebhooksAfterOneThatDecidesAreNotCalled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		next := &healthy{name: "next", answer: authorization.Deny("", nil)}
		b := newBubbleWith(t, nil, nil, chainAfter(t, &healthy{name: "first", after: 200 * time.Millisecond, answer: authorization.Allow("", nil)}, next))
		if got := <-b.send(t, review("bob", "c", 0)); !got.status.Allowed || next.calls.Load() != 0 {
			t.Errorf("got %s after %d calls of the next webhook", got, next.calls.Load())
		}
	})
}

// TestSlotsOfWebhooksAreApart floods one webhook that hangs: another one is called nevertheless, also about large reviews.
func TestSlotsOfWebhooksAreApart(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ each, bytes int }{{mostCalls / 4, 0}, {2, largeBytes}} {
		synctest.Test(t, func(t *testing.T) {
			b := newBubbleWith(t, nil, nil, chainAfter(t, only{"m", &hanging{name: "hangs", failure: authorization.NoOpinion("", nil)}},
				only{"bob", &healthy{name: "answers", after: time.Millisecond, answer: authorization.Deny("by the webhook", nil)}}))
			var replies []<-chan reply
			for i := range 4 * tc.each {
				replies = append(replies, b.send(t, review(fmt.Sprint("m", i%4), "c", tc.bytes)))
				synctest.Wait()
			}
			if got := <-b.send(t, review("bob", "c", tc.bytes)); !got.status.Denied || got.status.Reason != "by the webhook" {
				t.Errorf("%d reviews of %d bytes: got %s, want the Deny of the other webhook", 4*tc.each, tc.bytes, got)
			}
			for _, r := range replies {
				<-r
			}
		})
	}
}

// computing is a webhook whose matchConditions take some time, and match nothing. It counts how many it evaluates at the same time.
type computing struct{ now, most, refused atomic.Int32 }

func (c *computing) Decide(ctx context.Context, _ authorizer.Attributes) authorization.Decision {
	release, err := webhook.AcquirePreparation(ctx)
	if err != nil {
		c.refused.Add(1)
		return authorization.Deny("not asked", nil)
	}
	defer release()
	now := c.now.Add(1)
	defer c.now.Add(-1)
	for {
		most := c.most.Load()
		if now <= most || c.most.CompareAndSwap(most, now) {
			break
		}
	}
	time.Sleep(50 * time.Millisecond)
	return authorization.NoOpinion("", nil)
}

// TestQuestionsAreBounded has reviews of many and of one user, large and small, for which a webhook computes before it is called.
func TestQuestionsAreBounded(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name        string
		users, size int
		most        int32
	}{
		{name: "large reviews of one user", users: 1, size: largeBytes, most: 2},
		{name: "large reviews", users: 50, size: largeBytes, most: mostLarge},
		{name: "reviews of one user", users: 1, most: int32(mostEvaluations() / 4)},
		{name: "reviews", users: 50, most: int32(mostEvaluations())},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := &computing{}
				b := newBubbleWith(t, never, nil, chainAfter(t, c))
				var replies []<-chan reply
				for i := range 200 {
					replies = append(replies, b.send(t, review(fmt.Sprint("user-", i%tc.users), fmt.Sprint("n", i), tc.size)))
					synctest.Wait()
				}
				wantDenied(t, "a review that a policy denies", b.askSmall(t, "alice", "c"), `policy=p reason=Denied: it denies the request`, 0)
				denied := int32(0)
				for _, replied := range replies {
					if got := <-replied; got.status.Denied {
						denied++
					}
				}
				if c.most.Load() != tc.most || denied < c.refused.Load() {
					t.Errorf("%d at the same time, %d refused, %d denied, want %d at the same time", c.most.Load(), c.refused.Load(), denied, tc.most)
				}
			})
		})
	}
}
