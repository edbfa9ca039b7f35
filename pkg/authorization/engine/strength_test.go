/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// strengths are policies from the strongest to the weakest, by name.
var strengths = []string{"Deny", "cDeny", "NoOpinion", "cNoOpinion", "Allow", "cAllow"}

func strengthPolicies(chosen map[string]bool) map[string]spec {
	all := map[string]spec{
		"Deny": {Effect: deny}, "cDeny": {Effect: deny, Condition: `object.deny == true`},
		"NoOpinion": {Effect: noOpinion}, "cNoOpinion": {Effect: noOpinion, Condition: `object.noOpinion == true`},
		"Allow": {Effect: allow}, "cAllow": {Effect: allow, Condition: `object.allow == true`},
	}
	for name := range all {
		if !chosen[name] {
			delete(all, name)
		}
	}
	return all
}

// eachStrength runs f for every combination of strengths.
func eachStrength(t *testing.T, f func(t *testing.T, chosen map[string]bool)) {
	t.Helper()
	for bits := range 1 << len(strengths) {
		chosen := map[string]bool{}
		var names []string
		for i, name := range strengths {
			if bits>>i&1 == 1 {
				chosen[name] = true
				names = append(names, name)
			}
		}
		t.Run(strings.Join(names, "+"), func(t *testing.T) {
			t.Parallel()
			f(t, chosen)
		})
	}
}

// TestStrength asks that a conditional answer is given only where no unconditional one of
// the same or more strength exists, for every combination of policies.
func TestStrength(t *testing.T) {
	t.Parallel()
	eachStrength(t, func(t *testing.T, chosen map[string]bool) {
		want := wantRestricting(chosen) + ", " + wantGranting(chosen)
		if got := decided(t, publish(t, strengthPolicies(chosen)), podsOf("update")); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func wantRestricting(chosen map[string]bool) string {
	switch {
	case chosen["Deny"]:
		return "Deny"
	case chosen["cDeny"]:
		return "[Deny cDeny: object.deny == true]"
	}
	return "NoOpinion"
}

func wantGranting(chosen map[string]bool) string {
	held := ""
	if chosen["cNoOpinion"] {
		held = "NoOpinion cNoOpinion: object.noOpinion == true; "
	}
	switch {
	case chosen["NoOpinion"]:
		return "NoOpinion"
	case chosen["Allow"] && held == "":
		return "Allow"
	case chosen["Allow"]:
		return "[" + held + "Allow Allow: true]"
	case chosen["cAllow"]:
		return "[" + held + "Allow cAllow: object.allow == true]"
	}
	return "NoOpinion"
}

// TestTwoPhasesAreOne asks that deciding first and evaluating later gives what knowing
// everything at once would have given, whatever is true, false or an error.
func TestTwoPhasesAreOne(t *testing.T) {
	t.Parallel()
	truths := []any{true, false, nil}
	eachStrength(t, func(t *testing.T, chosen map[string]bool) {
		chain, a := chainFrom(t, publish(t, strengthPolicies(chosen))), podsOf("update")
		decision := chain.Decide(t.Context(), a)
		for i := range 27 {
			object := map[string]any{}
			for j, field := range []string{"deny", "noOpinion", "allow"} {
				if truth := truths[i/[]int{1, 3, 9}[j]%3]; truth != nil {
					object[field] = truth
				}
			}
			evaluator := authorization.EvaluatorFor(conditionsData{attributes: a, operation: "UPDATE", object: object}, nil)
			if got, want := show(t, decision.Evaluate(t.Context(), evaluator)), oneGo(chosen, object); got != want {
				t.Errorf("%v: got %s, want %s", object, got, want)
			}
		}
	})
}

// oneGo decides as if everything were known. What is missing is an error.
func oneGo(chosen map[string]bool, object map[string]any) string {
	holds := func(name, field string) bool { return chosen[name] && object[field] != false }
	switch {
	case chosen["Deny"] || holds("cDeny", "deny"):
		return "Deny"
	case chosen["NoOpinion"] || holds("cNoOpinion", "noOpinion"):
		return "NoOpinion"
	case chosen["Allow"] || (chosen["cAllow"] && object["allow"] == true):
		return "Allow"
	}
	return "NoOpinion"
}

// TestPruning asks that what can never allow is not returned, and that nothing of the
// others is dropped that way, since an error in them counts.
func TestPruning(t *testing.T) {
	t.Parallel()
	const never = `object.a == 1 && false`
	for _, tc := range []struct {
		name string
		spec spec
		want string
	}{
		{"never Allow", spec{Effect: allow, Condition: never}, "NoOpinion, NoOpinion"},
		{"never Deny is false", spec{Effect: deny, Condition: never}, "NoOpinion, NoOpinion"},
		{"erring or false Deny", spec{Effect: deny, Condition: `object.a == 1 || false`}, "[Deny p: object.a == 1], NoOpinion"},
		{"Allow of somebody else", spec{Effect: allow, Condition: `request.name == "q" && object.a == 1`}, "NoOpinion, NoOpinion"},
		{"failed Allow", spec{Effect: allow, Condition: `request.userInfo.groups[7] == "g"`}, "NoOpinion, NoOpinion"},
		{"failed Deny", spec{Effect: deny, Condition: `request.userInfo.groups[7] == "g"`}, "Deny, NoOpinion"},
		{"failed or Allow", spec{Effect: allow, Condition: `request.userInfo.groups[7] == "g" && object.a == 1`}, "NoOpinion, NoOpinion"},
		{"true Allow", spec{Effect: allow, Condition: `request.name == "p" || object.a == 1`}, "NoOpinion, Allow"},
		{"true Deny", spec{Effect: deny, Condition: `request.name == "p" || object.a == 1`}, "Deny, NoOpinion"},
		{"no old object when created", spec{Effect: allow, Condition: `oldObject != null && object.a == 1`}, "NoOpinion, NoOpinion"},
		{"a create is CREATE", spec{Effect: allow, Condition: `operation == "CREATE"`}, "NoOpinion, Allow"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := decided(t, publish(t, map[string]spec{"p": tc.spec}), podsOf("create")); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestFailingNoOpinion asks that a NoOpinion policy that fails holds back, and one that
// may fail keeps its condition.
func TestFailingNoOpinion(t *testing.T) {
	t.Parallel()
	for condition, want := range map[string]string{
		`request.userInfo.groups[7] == "g"`:                  "NoOpinion, NoOpinion",
		`request.userInfo.groups[7] == "g" && object.a == 1`: "NoOpinion, [NoOpinion hold: ERROR && object.a == 1; Allow yes: true]",
		`request.name == "p"`:                                "NoOpinion, NoOpinion",
		`request.name == "q"`:                                "NoOpinion, Allow",
	} {
		t.Run(condition, func(t *testing.T) {
			t.Parallel()
			got := decided(t, publish(t, map[string]spec{"hold": {Effect: noOpinion, Condition: condition}, "yes": {Effect: allow}}), podsOf("get"))
			if !strings.Contains(want, "ERROR") && got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if strings.Contains(want, "ERROR") && (!strings.Contains(got, "NoOpinion hold: ") || !strings.Contains(got, "object.a == 1")) {
				t.Errorf("got %s", got)
			}
		})
	}
}

// TestUnlimitedConditions asks that a set may have more conditions than a review holds, and
// that what decides among any number of policies is still found.
func TestUnlimitedConditions(t *testing.T) {
	t.Parallel()
	many := func(count int, s spec, more map[string]spec) map[string]spec {
		specs := map[string]spec{}
		for i := range count {
			specs[fmt.Sprintf("p%03d", i)] = s
		}
		for name, other := range more {
			specs[name] = other
		}
		return specs
	}
	maybeAllow, maybeDeny, maybeNoOpinion := spec{Effect: allow, Condition: "object.a == 1"}, spec{Effect: deny, Condition: "object.a == 1"}, spec{Effect: noOpinion, Condition: "object.a == 1"}
	for _, tc := range []struct {
		name                 string
		specs                map[string]spec
		restricting, granted string
	}{
		{"128 Allow", many(128, maybeAllow, nil), "NoOpinion", "128"},
		{"129 Allow", many(129, maybeAllow, nil), "NoOpinion", "129"},
		{"129 Allow and one that is certain", many(129, maybeAllow, map[string]spec{"z": {Effect: allow, Condition: `request.name == "p"`}}), "NoOpinion", "Allow"},
		{"129 Allow and one unconditional", many(129, maybeAllow, map[string]spec{"z": {Effect: allow}}), "NoOpinion", "Allow"},
		{"128 Deny", many(128, maybeDeny, map[string]spec{"z": {Effect: allow}}), "128", "Allow"},
		{"129 Deny", many(129, maybeDeny, map[string]spec{"z": {Effect: allow}}), "129", "Allow"},
		{"129 NoOpinion", many(129, maybeNoOpinion, map[string]spec{"z": {Effect: allow}}), "NoOpinion", "130"},
		{"127 NoOpinion and Allow", many(127, maybeNoOpinion, map[string]spec{"z": {Effect: allow}}), "NoOpinion", "128"},
		{"128 NoOpinion and Allow", many(128, maybeNoOpinion, map[string]spec{"z": {Effect: allow}}), "NoOpinion", "129"},
		{"127 NoOpinion and 2 Allow", many(127, maybeNoOpinion, map[string]spec{"y": maybeAllow, "z": maybeAllow}), "NoOpinion", "129"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			source, a := publish(t, tc.specs), podsOf("update")
			got := countOrShow(t, partOf(source, false).Decide(t.Context(), a)) + ", " + countOrShow(t, partOf(source, true).Decide(t.Context(), a))
			if want := tc.restricting + ", " + tc.granted; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func countOrShow(tb testing.TB, d authorization.Decision) string {
	tb.Helper()
	if !d.IsUnconditional() {
		return fmt.Sprint(len(d.Conditions()))
	}
	return show(tb, d)
}

// TestFolding checks that Authorize, which returns no conditions, does not allow what depends on one, and names the policy
// whose condition it could not evaluate.
func TestFolding(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		specs    map[string]spec
		want     authorizer.Decision
		granting bool
		policy   string
	}{
		{"Deny", map[string]spec{"p": {Effect: deny, Condition: "object.a == 1"}}, authorizer.DecisionDeny, false, "p"},
		{"Allow", map[string]spec{"p": {Effect: allow, Condition: "object.a == 1"}}, authorizer.DecisionNoOpinion, true, "p"},
		{"held back", map[string]spec{"p": {Effect: allow}, "q": {Effect: noOpinion, Condition: "object.a == 1"}}, authorizer.DecisionNoOpinion, true, "q"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, reason, err := authorization.AuthorizerOf(partOf(publish(t, tc.specs), tc.granting)).Authorize(t.Context(), podsOf("update"))
			if got != tc.want || err != nil || reason != "policy="+tc.policy+" reason=Error: its condition cannot be evaluated for this request" {
				t.Errorf("got %v, %q, %v; want %v", got, reason, err, tc.want)
			}
		})
	}
}
