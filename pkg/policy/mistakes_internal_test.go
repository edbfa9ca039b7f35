/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"fmt"
	"strings"
	"testing"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// TestMistakesAreFoundOnce looks for mistakes in a policy with as many rules and verbs as it may have. A condition is planned
// and evaluated once for each kind of request and situation, and not for each verb of each rule.
func TestMistakesAreFoundOnce(t *testing.T) {
	t.Parallel()
	verbs := []string{"create", "update", "patch", "delete", "deletecollection", "get", "list", "watch"}
	for i := range 56 {
		verbs = append(verbs, fmt.Sprint("custom", i))
	}
	rule := policyv1alpha1.PolicyRule{Verbs: verbs, APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"things"}}
	for _, condition := range []string{`object.a == 1 && 1 == 2`, `operation == "NONE" && request.userInfo.username.startsWith(operation)`} {
		expression, err := newCompiler(t).Compile(condition)
		if err != nil {
			t.Fatal(err)
		}
		one, many := newSearch(t.Context(), expression), newSearch(t.Context(), expression)
		warned := one.mistakes(&policyv1alpha1.AuthorizationPolicySpec{Effect: "Deny", Rules: []policyv1alpha1.PolicyRule{rule}})
		spec := &policyv1alpha1.AuthorizationPolicySpec{Effect: "Deny"}
		for range 64 {
			spec.Rules = append(spec.Rules, rule)
		}
		all := many.mistakes(spec)
		if one.left != many.left || len(many.found) > 4 || len(all) != 64*len(warned) {
			t.Errorf("%s: %d units are left after one rule and %d after 64, with %d situations and %d and %d warnings", condition, one.left, many.left, len(many.found), len(warned), len(all))
		}
	}
}

// TestLookingForVerbsIsBounded looks for the verbs that may have been meant in a policy with as many verbs as it may have, and
// with many others in its condition.
func TestLookingForVerbsIsBounded(t *testing.T) {
	spec := &policyv1alpha1.AuthorizationPolicySpec{Effect: "Deny"}
	for r := range 64 {
		rule := policyv1alpha1.PolicyRule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"things"}}
		for v := range 64 {
			rule.Verbs = append(rule.Verbs, fmt.Sprintf("%04d%s", 64*r+v, strings.Repeat("a", 60)))
		}
		spec.Rules = append(spec.Rules, rule)
	}
	var others []string
	for i := range 140 {
		others = append(others, fmt.Sprintf("%q", fmt.Sprintf("%s%04d", strings.Repeat("b", 60), i)))
	}
	expression, err := newCompiler(t).Compile(`request.verb == "craete" || request.verb in [` + strings.Join(others, ", ") + "]")
	if err != nil {
		t.Fatal(err)
	}
	var warnings []policyv1alpha1.ExpressionWarning
	allocations := testing.AllocsPerRun(1, func() { warnings = verbMistakes(expression, spec.Rules) })
	// A comparison of two names takes some allocations.
	if most := 8 * float64(maxVerbsInCondition*maxVerbsMeant); allocations > most {
		t.Errorf("%.0f allocations, want at most %.0f", allocations, most)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0].Warning, `did you mean "create"?`) {
		t.Errorf("got %v", warnings)
	}
}
