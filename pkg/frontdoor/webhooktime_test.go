/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
)

// prompt is a webhook that answers at once, unless it has another time, and fails open if the time is over.
type prompt struct {
	*answers
	// after is the time that it takes nevertheless.
	after time.Duration
}

func (p prompt) Decide(ctx context.Context, attributes authorizer.Attributes) authorization.Decision {
	select {
	case <-ctx.Done():
		return authorization.NoOpinion("it failed", nil)
	case <-time.After(p.after):
		return p.answers.Decide(ctx, attributes)
	}
}

// allowsAll is a kube-apiserver that allows every check.
type allowsAll struct{}

func (allowsAll) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
}

// TestSecondQuestionWithoutTime has a webhook that hangs and fails open before one that denies a part of what the front door asks about a write: the
// write itself, or to read what the answer shows. The first question takes all the time.
func TestSecondQuestionWithoutTime(t *testing.T) {
	t.Parallel()
	no, yes := authorization.Deny("", nil), authorization.Allow("", nil)
	for _, tc := range []struct {
		name   string
		policy policy
		byVerb map[string]authorization.Decision
		// slow is the time that the second webhook takes for each question, if there is no first one.
		slow   time.Duration
		denied bool
	}{
		{name: "the write", policy: onVerbs(allow, `object.a == 1`, "update"), byVerb: map[string]authorization.Decision{"update": no, "get": yes}, denied: true},
		{name: "to read, where a policy denies on a condition", policy: onVerbs(deny, `object.a == 1`, "update"), byVerb: map[string]authorization.Decision{"update": yes, "get": no}, denied: true},
		{name: "to read, where a policy allows on a condition", policy: onVerbs(allow, `object.a == 1`, "update"), byVerb: map[string]authorization.Decision{"get": no}},
		{name: "to read, by the only webhook, which takes its time", policy: onVerbs(allow, `object.a == 1`, "update"), byVerb: map[string]authorization.Decision{"get": no}, slow: 1500 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			source := publish(t, map[string]policy{"p": tc.policy})
			first := &hanging{name: "hangs", failure: authorization.NoOpinion("it failed", nil)}
			second := prompt{answers: &answers{answer: authorization.NoOpinion("", nil), byVerb: tc.byVerb}, after: tc.slow}
			webhooks := chainAfter(t, first, second)
			if tc.slow > 0 {
				webhooks = chainAfter(t, second)
			}
			door, err := frontdoor.New(frontdoor.Config{
				Policies: frontdoor.Policies{Chain: chainOf(t, source), Source: source}, AfterPolicies: webhooks, Places: places{enforces: enforcesMachines, handler: newHandler()}.table(), KubeAPIServer: allowsAll{},
			})
			if err != nil {
				t.Fatal(err)
			}
			got := listen(t, door)(post(reviewOf("update", "persistentvolumeclaims", handles+", ")))
			if !strings.Contains(got.body, `"allowed":false`) || strings.Contains(got.body, `"denied":true`) != tc.denied || strings.Contains(got.body, "conditionalDecision") {
				t.Errorf("got %s after asking %q, want denied: %t, and no conditions", got.body, second.asked, tc.denied)
			}
		})
	}
}

// TestHealthAsksNoWebhook asks about the health of kube-apiserver, and about paths that look like it.
func TestHealthAsksNoWebhook(t *testing.T) {
	t.Parallel()
	for path, isAsked := range map[string]bool{
		"/livez": false, "/readyz": false, "/healthz": false, "/livez/etcd": false, "/readyz/": false,
		"/livezz": true, "/metrics": true, "/": true, "/api/livez": true, "livez": true, "//livez": true, "/version": true, "": true,
	} {
		source, after := publish(t, nil), &answers{answer: authorization.Deny("by the webhook", nil)}
		d, err := frontdoor.New(frontdoor.Config{Policies: frontdoor.Policies{Chain: chainOf(t, source), Source: source}, AfterPolicies: chainAfter(t, after), Places: places{enforces: enforcesMachines}.table()})
		if err != nil {
			t.Fatal(err)
		}
		decision, err := d.Decide(t.Context(), authorizer.AttributesRecord{User: &user.DefaultInfo{Name: user.Anonymous}, Verb: "get", Path: path})
		if err != nil || decision.IsDeny() != isAsked || (len(after.asked) > 0) != isAsked {
			t.Errorf("%q: got %s, %v after asking %q, want a question: %t", path, show(decision), err, after.asked, isAsked)
		}
	}
	// A resource has no path.
	source, after := publish(t, nil), &answers{answer: authorization.Deny("by the webhook", nil)}
	d, err := frontdoor.New(frontdoor.Config{Policies: frontdoor.Policies{Chain: chainOf(t, source), Source: source}, AfterPolicies: chainAfter(t, after), Places: places{enforces: enforcesMachines}.table()})
	if err != nil {
		t.Fatal(err)
	}
	pods := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "ann"}, Verb: "get", Resource: "pods", APIVersion: "v1", Path: "/livez", ResourceRequest: true}
	if decision, err := d.Decide(t.Context(), pods); err != nil || !decision.IsDeny() {
		t.Errorf("a resource: got %s, %v, want Deny", show(decision), err)
	}
}
