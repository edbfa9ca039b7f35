/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook_test

import (
	"context"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
)

// byName answers by the name of the user, and counts the questions.
type byName struct {
	answers map[string]authorization.Decision
	asked   int
}

func (b *byName) Decide(_ context.Context, a authorizer.Attributes) authorization.Decision {
	b.asked++
	return b.answers[a.GetUser().GetName()]
}

// TestDenialsFirst has an authorizer in two places around another one, which allows everything or has no opinion.
func TestDenialsFirst(t *testing.T) {
	t.Parallel()
	conditional := authorization.Conditions(authorization.Condition{ID: "example.com/c", Effect: authorization.EffectAllow, Type: "example.com/t", Text: "x"})
	answers := map[string]authorization.Decision{
		"allowed": authorization.Allow("", nil), "denied": authorization.Deny("", nil), "none": authorization.NoOpinion("", nil), "conditions": conditional,
	}
	for _, tc := range []struct {
		user    string
		between authorization.Decision
		want    string
	}{
		{"allowed", authorization.NoOpinion("", nil), "Allow"},
		{"allowed", authorization.Deny("", nil), "Deny"},
		{"denied", authorization.Allow("", nil), "Deny"},
		{"none", authorization.Allow("", nil), "Allow"},
		{"none", authorization.NoOpinion("", nil), "NoOpinion"},
		{"conditions", authorization.Allow("", nil), "Deny"},
		{"unknown", authorization.Allow("", nil), "Deny"},
	} {
		asked := &byName{answers: answers}
		first, last := webhook.DenialsFirst(asked)
		chain, err := authorization.NewChain(authorization.Member{Name: "first", Decider: first},
			authorization.Member{Name: "between", Decider: &byName{answers: map[string]authorization.Decision{tc.user: tc.between}}}, authorization.Member{Name: "last", Decider: last})
		if err != nil {
			t.Fatal(err)
		}
		ctx := chain.Pin(t.Context())
		attributes := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: tc.user}, Verb: "get", Path: "/x"}
		for i := range 2 { // an answer is not kept for another decision
			if got := kindOf(chain.Decide(ctx, attributes)); got != tc.want || asked.asked != i+1 {
				t.Errorf("%s, %s between: got %s after %d questions, want %s after %d", tc.user, kindOf(tc.between), got, asked.asked, tc.want, i+1)
			}
		}
	}
}

// TestDenialsFirstTellsChecksApart decides another check between the two places, as a condition does.
func TestDenialsFirstTellsChecksApart(t *testing.T) {
	t.Parallel()
	asked := &byName{answers: map[string]authorization.Decision{"alice": authorization.NoOpinion("", nil), "bob": authorization.Allow("", nil)}}
	first, last := webhook.DenialsFirst(asked)
	ctx := authorization.Pin(t.Context(), first)
	of := func(name string) authorizer.Attributes {
		return authorizer.AttributesRecord{User: &user.DefaultInfo{Name: name}, Verb: "get", Path: "/x"}
	}
	for _, name := range []string{"alice", "bob"} {
		if got := first.Decide(ctx, of(name)); !got.IsNoOpinion() {
			t.Errorf("%s: got %s at the first place", name, kindOf(got))
		}
	}
	if alice, bob := last.Decide(ctx, of("alice")), last.Decide(ctx, of("bob")); !alice.IsNoOpinion() || !bob.IsAllow() || asked.asked != 2 {
		t.Errorf("got %s and %s after %d questions", kindOf(alice), kindOf(bob), asked.asked)
	}
	if again := last.Decide(ctx, of("bob")); !again.IsAllow() || asked.asked != 3 {
		t.Errorf("the same check again: got %s after %d questions, want another question", kindOf(again), asked.asked)
	}
}
