/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"fmt"
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
		warned := one.neverTrue(&policyv1alpha1.AuthorizationPolicySpec{Effect: "Deny", Rules: []policyv1alpha1.PolicyRule{rule}})
		spec := &policyv1alpha1.AuthorizationPolicySpec{Effect: "Deny"}
		for range 64 {
			spec.Rules = append(spec.Rules, rule)
		}
		all := many.neverTrue(spec)
		if one.left != many.left || len(many.found) > 4 || len(all) != 64*len(warned) {
			t.Errorf("%s: %d units are left after one rule and %d after 64, with %d situations and %d and %d warnings", condition, one.left, many.left, len(many.found), len(warned), len(all))
		}
	}
}
