/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/test/testutil/cases"
)

type wireSet = authorizationapi.SubjectAccessReviewConditionSet

func wireCondition(id string) authorizationapi.SubjectAccessReviewCondition {
	return authorizationapi.SubjectAccessReviewCondition{
		ID: "example.com/" + id, Effect: authorization.EffectAllow, Type: "example.com/literal", Condition: isTrue, Description: "a description",
	}
}

func TestWireRoundTrip(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		wire []wireSet
	}{
		{"no sets", nil},
		{"allowed", []wireSet{{AuthorizerName: "a", Allowed: true}}},
		{"denied", []wireSet{{AuthorizerName: "a", Denied: true}}},
		{"no opinion", []wireSet{{AuthorizerName: "a"}}},
		{"conditions", []wireSet{{AuthorizerName: "a", FailureMode: "NoOpinion", Conditions: []authorizationapi.SubjectAccessReviewCondition{wireCondition("z"), wireCondition("a")}}}},
		{"a failure mode without conditions", []wireSet{{AuthorizerName: "a", FailureMode: "Deny"}}},
		{"sets behind a final one", []wireSet{{AuthorizerName: "a", Denied: true}, {AuthorizerName: "b", Allowed: true}}},
		{"nested chains", []wireSet{
			{AuthorizerName: "a", FailureMode: "NoOpinion", ConditionsChain: []wireSet{
				{AuthorizerName: "a", ConditionsChain: []wireSet{{AuthorizerName: "deep", FailureMode: "Deny", Conditions: []authorizationapi.SubjectAccessReviewCondition{wireCondition("x")}}}},
				{AuthorizerName: "b", Allowed: true},
			}},
			{AuthorizerName: "b", Denied: true},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			sets, err := authorization.SetsFromWire(tc.wire)
			if err != nil {
				t.Fatal(err)
			}
			got, err := authorization.SetsToWire(sets)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wire, got); diff != "" {
				t.Errorf("the round trip changed it (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWireKeepsMeaning(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for c := cases.Of(5_000); c.Next(); {
		sets := randomSets(r, 2, complete)
		wire, err := authorization.SetsToWire(sets)
		if err != nil {
			t.Fatal(err)
		}
		back, err := authorization.SetsFromWire(wire)
		if err != nil {
			t.Fatal(err)
		}
		want := authorization.Chained(sets...).Evaluate(t.Context(), literal{})
		got := authorization.Chained(back...).Evaluate(t.Context(), literal{})
		if kindOf(got) != kindOf(want) || got.Reason() != want.Reason() {
			t.Fatalf("%+v\nmeans %s (%s)\nbut from the wire %s (%s)", wire, kindOf(want), want.Reason(), kindOf(got), got.Reason())
		}
	}
}

func TestWireRefusesWhatBreaksTheDataModel(t *testing.T) {
	t.Parallel()
	wire := []wireSet{{AuthorizerName: "a", Allowed: true, Denied: true}}
	if sets, err := authorization.SetsFromWire(wire); !errors.Is(err, authorization.ErrInvalidConditions) {
		t.Errorf("got %v, %v, want ErrInvalidConditions", sets, err)
	}
	long := condition(0, authorization.EffectAllow, strings.Repeat("x", authorizationapi.MaxConditionBytes+1))
	if wire, err := authorization.SetsToWire([]authorization.Set{setOf([]authorization.Condition{long}, "")}); !errors.Is(err, authorization.ErrInvalidConditions) {
		t.Errorf("got %v, %v, want ErrInvalidConditions", wire, err)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	failure := errors.New("a failure")
	long := condition(0, authorization.EffectDeny, strings.Repeat("x", authorizationapi.MaxConditionBytes+1))
	for _, tc := range []struct {
		name     string
		decision authorization.Decision
		want     authorizationapi.SubjectAccessReviewStatus
	}{
		{"Allow", authorization.Allow("because", nil), authorizationapi.SubjectAccessReviewStatus{Allowed: true, Reason: "because"}},
		{"Deny with an error", authorization.Deny("", failure), authorizationapi.SubjectAccessReviewStatus{Denied: true, EvaluationError: "a failure"}},
		{"NoOpinion", authorization.NoOpinion("nobody knows", nil), authorizationapi.SubjectAccessReviewStatus{Reason: "nobody knows"}},
		{"the empty chain", authorization.Chained(), authorizationapi.SubjectAccessReviewStatus{}},
		{"conditions", authorization.Chained(setOf([]authorization.Condition{condition(0, authorization.EffectAllow, isTrue)}, "")),
			authorizationapi.SubjectAccessReviewStatus{ConditionsChain: []wireSet{{AuthorizerName: "a", Conditions: []authorizationapi.SubjectAccessReviewCondition{
				{ID: "example.com/c0", Effect: "Allow", Type: "example.com/literal", Condition: isTrue},
			}}}}},
		{"conditions that do not fit", authorization.Chained(setOf([]authorization.Condition{long}, "")),
			authorizationapi.SubjectAccessReviewStatus{
				Denied: true, Reason: "the conditions exceed what a review can hold; they were folded to Deny",
				EvaluationError: "invalid conditions: conditionsChain[0].conditions[0].condition: Too long: may not be more than 10240 bytes",
			}},
		{"conditions without an author", authorization.Conditions(condition(0, authorization.EffectAllow, isTrue)),
			authorizationapi.SubjectAccessReviewStatus{Reason: "the conditions have no author; they were folded to NoOpinion"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, authorization.Status(tc.decision), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSerializable checks that a serializable decision is the one that a client reads from the status of a review.
func TestSerializable(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	long := condition(0, authorization.EffectDeny, strings.Repeat("x", authorizationapi.MaxConditionBytes+1))
	decisions := []authorization.Decision{
		{}, authorization.Allow("because", nil), authorization.Conditions(condition(0, authorization.EffectAllow, isTrue)),
		authorization.Chained(setOf([]authorization.Condition{long}, "")),
	}
	for range 2000 {
		decisions = append(decisions, authorization.Chained(randomSets(r, 2, complete)...))
	}
	shown := 0
	for i, d := range decisions {
		status := authorization.Status(d)
		sets, err := authorization.SetsFromWire(status.ConditionsChain)
		if err != nil {
			t.Fatal(err)
		}
		want := d.Fold()
		if len(sets) > 0 {
			want, shown = authorization.Chained(sets...), shown+1
		}
		got, wire := authorization.Serializable(d)
		if diff := cmp.Diff(status.ConditionsChain, wire); diff != "" {
			t.Fatalf("decision %d, condition sets (-status +serializable):\n%s", i, diff)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("decision %d: got %+v, want %+v", i, got, want)
		}
	}
	if shown < 100 {
		t.Errorf("only %d decisions are conditional", shown)
	}
}

// TestSerializableComputesTexts checks that texts are computed, that functions are dropped, and that a text that cannot be
// computed folds the decision.
func TestSerializableComputesTexts(t *testing.T) {
	t.Parallel()
	lazy := func(err error) authorization.Decision {
		c := condition(0, authorization.EffectAllow, "")
		c.TextFunc = func() (string, error) { return isTrue, err }
		c.EvaluateFunc = func(context.Context, authorizer.ConditionsData) authorization.Outcome { return authorization.True() }
		return authorization.Chained(setOf([]authorization.Condition{c}, ""))
	}
	got, _ := authorization.Serializable(lazy(nil))
	if c := got.Chain()[0].Decision.Conditions()[0]; c.Text != isTrue || c.TextFunc != nil || c.EvaluateFunc != nil {
		t.Errorf("got %+v", c)
	}
	if got, wire := authorization.Serializable(lazy(errors.New("no text"))); !got.IsNoOpinion() || wire != nil {
		t.Errorf("got %+v, %v, want it folded", got, wire)
	}
}

// FuzzSetsFromWire reads chains that anybody may send. Whatever is accepted must survive
// the way back, and evaluate without a panic.
func FuzzSetsFromWire(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		wire, err := authorization.SetsToWire(randomSets(r, 3, complete))
		if err != nil {
			f.Fatal(err)
		}
		seed, err := json.Marshal(wire)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var wire []wireSet
		if json.Unmarshal(data, &wire) != nil {
			return
		}
		sets, err := authorization.SetsFromWire(wire)
		if err != nil {
			return
		}
		back, err := authorization.SetsToWire(sets)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if diff := cmp.Diff(wire, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("the round trip changed it (-want +got):\n%s", diff)
		}
		decision := authorization.Chained(sets...)
		if got := decision.Evaluate(t.Context(), literal{}); got.IsAllow() && !decision.CanBecomeAllowed() {
			t.Fatalf("%+v was allowed though it could not become so", wire)
		}
		authorization.Status(decision)
	})
}
