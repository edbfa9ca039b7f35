/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// placesChain is a chain with the authorizers that policies have in a server, and then others. The
// checks of conditions allow nothing.
func placesChain(tb testing.TB, source *engine.Source, others ...authorization.Member) *authorization.Chain {
	tb.Helper()
	chain, err := authorization.NewChain(append([]authorization.Member{
		{Name: engine.RestrictingName, Decider: &engine.Authorizer{Source: source, Part: engine.Restricting, Checks: mayNothing}},
		{Name: engine.GrantingName, Decider: &engine.Authorizer{Source: source, Part: engine.GrantingCluster, Checks: mayNothing}},
		{Name: engine.NamespacedName, Decider: &engine.Authorizer{Source: source, Part: engine.GrantingNamespaced, Checks: mayNothing}},
	}, others...)...)
	if err != nil {
		tb.Fatal(err)
	}
	return chain
}

// TestTwoGrantingPlacesAreOne asks that a chain in which Allow policies of namespaces have a place of
// their own decides as one with a single place for all: whatever is true, false or an error, of
// policies of either scope, and also if later members are asked lazily or the sets are sent in a review.
func TestTwoGrantingPlacesAreOne(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5681, 5))
	fields := []string{"a", "b", "c", "d"}
	conditions := []string{"", `request.verb == "update"`, `request.verb == "get"`, `request.userInfo.groups[7] == "g"`}
	for _, f := range fields {
		conditions = append(conditions, "object."+f+" == true", `request.verb == "update" && object.`+f+" == true", "object."+f+" == true || object.a == true")
	}
	a := podsOf("update")
	seen := map[string]int{}
	for range 150 {
		specs := map[string]spec{}
		for i := range 1 + random.IntN(7) {
			name := fmt.Sprintf("%sp%d", []string{"", "n/"}[random.IntN(2)], i)
			specs[name] = spec{Effect: []spec{{Effect: allow}, {Effect: allow}, {Effect: noOpinion}, {Effect: deny}}[random.IntN(4)].Effect, Condition: conditions[random.IntN(len(conditions))]}
		}
		source := publish(t, specs)
		one, two := chainFrom(t, source), placesChain(t, source)
		inOne, inTwo := one.Decide(t.Context(), a), two.Decide(t.Context(), a)
		for range 8 {
			object := map[string]any{}
			for _, f := range fields {
				if truth := random.IntN(3); truth < 2 {
					object[f] = truth == 0
				}
			}
			data := conditionsData{attributes: a, operation: "UPDATE", object: object, before: map[string]any{}}
			evaluate := func(d authorization.Decision) string {
				return show(t, d.Evaluate(t.Context(), authorization.EvaluatorFor(data, nil)))
			}
			want := evaluate(inOne)
			seen[want]++
			lazily := show(t, two.Begin(t.Context(), a).Evaluate(t.Context(), authorization.EvaluatorFor(data, nil)))
			inReview := want
			if !inTwo.IsUnconditional() {
				inReview = show(t, reviewed(t, two, inTwo, data))
			}
			if got := evaluate(inTwo); got != want || lazily != want || inReview != want {
				t.Fatalf("%+v\non %v: got %s, lazily %s, in a review %s, want %s", specs, object, got, lazily, inReview, want)
			}
		}
	}
	for _, d := range []string{"Allow", "Deny", "NoOpinion"} {
		if seen[d] < 50 {
			t.Errorf("%d decisions were %s, too few to tell: %v", seen[d], d, seen)
		}
	}
}

// TestManyPoliciesOfANamespace asks that policies of a namespace, however many, leave the conditions
// of others in force, in requests and in reviews, and that what a review cannot hold is closed.
func TestManyPoliciesOfANamespace(t *testing.T) {
	t.Parallel()
	const bound = authorizationapi.MaxConditionsPerSet
	many := func(count int, prefix string, s spec, more map[string]spec) map[string]spec {
		specs := map[string]spec{}
		for i := range count {
			specs[fmt.Sprintf("%sp%03d", prefix, i)] = s
		}
		maps.Copy(specs, more)
		return specs
	}
	byB, byC := spec{Effect: allow, Condition: "object.b == true"}, spec{Effect: allow, Condition: "object.c == true"}
	heldByD, deniedByD := spec{Effect: noOpinion, Condition: "object.d == true"}, spec{Effect: deny, Condition: "object.d == true"}
	for _, tc := range []struct {
		name               string
		specs              map[string]spec
		object             map[string]any
		wantRequest, wants string // in a request, and in a review
		wantMessage        string
	}{
		{name: "a policy of the cluster beside 129 of a namespace", specs: many(bound+1, "n/", byB, map[string]spec{"z": byC}),
			object: map[string]any{"b": false, "c": true, "d": false}, wantRequest: "Allow", wants: "Allow", wantMessage: "1 of 129 conditions"},
		{name: "one of those that fit", specs: many(bound+1, "n/", byB, map[string]spec{"z": byC}),
			object: map[string]any{"b": true, "c": false, "d": false}, wantRequest: "Allow", wants: "Allow", wantMessage: "1 of 129 conditions"},
		{name: "one that does not fit", specs: many(bound, "n/", byB, map[string]spec{"n/z": byC}),
			object: map[string]any{"b": false, "c": true, "d": false}, wantRequest: "Allow", wants: "NoOpinion", wantMessage: "1 of 129 conditions"},
		{name: "129 of the cluster", specs: many(bound, "", byB, map[string]spec{"z": byC}),
			object: map[string]any{"b": false, "c": true, "d": false}, wantRequest: "Allow", wants: "NoOpinion", wantMessage: "1 of 129 conditions"},
		{name: "128 of either", specs: many(bound, "", byB, many(bound, "n/", byC, nil)),
			object: map[string]any{"b": false, "c": true, "d": false}, wantRequest: "Allow", wants: "Allow"},
		{name: "128 and one that holds back, which does not", specs: many(bound, "n/", byB, map[string]spec{"z": heldByD}),
			object: map[string]any{"b": true, "c": false, "d": false}, wantRequest: "Allow", wants: "Allow", wantMessage: "1 of 129 conditions"},
		{name: "128 and one that holds back", specs: many(bound, "n/", byB, map[string]spec{"z": heldByD}),
			object: map[string]any{"b": true, "c": false, "d": true}, wantRequest: "NoOpinion", wants: "NoOpinion", wantMessage: "1 of 129 conditions"},
		{name: "129 that hold back, and do not", specs: many(bound+1, "n/", heldByD, map[string]spec{"z": byB}),
			object: map[string]any{"b": true, "c": false, "d": false}, wantRequest: "Allow", wants: "NoOpinion", wantMessage: "130 conditions"},
		{name: "129 that deny, and do not", specs: many(bound+1, "n/", deniedByD, map[string]spec{"z": byB}),
			object: map[string]any{"b": true, "c": false, "d": false}, wantRequest: "Allow", wants: "Deny", wantMessage: "129 conditions"},
		{name: "129 that deny", specs: many(bound+1, "n/", deniedByD, map[string]spec{"z": byB}),
			object: map[string]any{"b": true, "c": false, "d": true}, wantRequest: "Deny", wants: "Deny", wantMessage: "129 conditions"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			chain, a := placesChain(t, publish(t, tc.specs)), podsOf("update")
			data := conditionsData{attributes: a, operation: "UPDATE", object: tc.object, before: map[string]any{}}
			lazy := chain.Begin(t.Context(), a)
			if d := lazy.Decision(); !d.CanBecomeAllowed() || d.Err() != nil {
				t.Errorf("before the object is known: got %s, %v", show(t, d), d.Err())
			}
			if got := show(t, lazy.Evaluate(t.Context(), authorization.EvaluatorFor(data, nil))); got != tc.wantRequest {
				t.Errorf("request: got %s, want %s", got, tc.wantRequest)
			}
			status := authorization.Status(chain.Decide(t.Context(), a))
			if (tc.wantMessage == "") != (status.EvaluationError == "") || !strings.Contains(status.EvaluationError, tc.wantMessage) {
				t.Errorf("got the message %q, want %q", status.EvaluationError, tc.wantMessage)
			}
			got := map[bool]string{true: "Deny", false: "NoOpinion"}[status.Denied]
			if len(status.ConditionsChain) > 0 {
				sets, err := authorization.SetsFromWire(status.ConditionsChain)
				if err != nil {
					t.Fatal(err)
				}
				got = show(t, authorization.Chained(sets...).Evaluate(t.Context(), textEvaluator(t, data)))
			}
			if got != tc.wants {
				t.Errorf("review: got %s, want %s", got, tc.wants)
			}
		})
	}
}

// TestNamespacedPlaceOverTheBudget asks that Allow policies of a namespace that are over the budget
// at admission leave the request to later authorizers: there is nothing among them that denies.
func TestNamespacedPlaceOverTheBudget(t *testing.T) {
	t.Parallel()
	specs := map[string]spec{}
	for name, s := range several(20, allow, "object.three == 4", nil) {
		specs["n/"+name] = s
	}
	chain := placesChain(t, publish(t, specs), authorization.Member{Name: "later", Decider: authorization.DeciderOf(mayAll)})
	a := podsOf("update")
	data := conditionsData{attributes: a, operation: "UPDATE", object: three, before: map[string]any{}}
	if got := chain.Begin(t.Context(), a).Evaluate(t.Context(), authorization.EvaluatorFor(data, nil)); !got.IsAllow() {
		t.Errorf("got %s, %v, want what the last authorizer says", show(t, got), got.Err())
	}
}
