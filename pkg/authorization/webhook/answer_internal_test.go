/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"encoding/json"
	"testing"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// FuzzAnswers makes sure that no answer is taken for an Allow that does not say so, plainly
// and alone, and that conditions never come out of a review that did not ask for them.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		`{"status":{"allowed":true}}`,
		`{"status":{"allowed":true,"denied":true}}`,
		`{"status":{"conditionsChain":[{"authorizerName":"a","conditions":[{"id":"example.com/c","effect":"Allow","type":"example.com/x"}]}]}}`,
		`{"status":{"conditionSetChain":[{"authorizerName":"a","conditionsType":"example.com/x","conditions":[{"id":"example.com/c","effect":"Deny"}]},{"authorizerName":"b","allowed":true}]}}`,
		`{"status":{"conditionalDecision":{"type":"Union","union":[{"authorizerName":"a","decision":{"type":"Allow","allow":{}}}]}}}`,
		`{"status":{"conditionalDecision":{"type":"ConditionsMap","conditionsMap":{"allowConditions":[{"id":"example.com/c","type":"example.com/x"}]}}}}`,
		`{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"SubjectAccessReview","status":{"allowed":false,"allowed":true}}`,
		`{"response":{"allowed":true}}`,
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, raw []byte, asked bool) {
		decision, err := decisionFrom(raw, officialGroup+versionV1alpha1, "w", asked)
		if err != nil {
			return
		}
		if !decision.IsUnconditional() && !asked {
			t.Fatal("conditions, for which nobody asked")
		}
		if !decision.IsAllow() && !decision.Fold().IsAllow() {
			checkUpstream(t, decision)
			return
		}
		var answer struct {
			Status map[string]any `json:"status"`
		}
		if err := json.Unmarshal(raw, &answer); err != nil {
			t.Fatalf("an Allow from what is not JSON: %v", err)
		}
		if answer.Status["allowed"] != true || answer.Status["denied"] == true ||
			answer.Status["conditionsChain"] != nil || answer.Status["conditionSetChain"] != nil || answer.Status["conditionalDecision"] != nil {
			t.Fatalf("an Allow from %v", answer.Status)
		}
	})
}

// checkUpstream makes sure that the types of Kubernetes do not make more of a decision.
func checkUpstream(t *testing.T, decision authorization.Decision) {
	t.Helper()
	if authorization.ToUpstream(decision).IsAllow() || authorization.FromUpstream("w", authorization.ToUpstream(decision)).Fold().IsAllow() {
		t.Fatal("an Allow in the types of Kubernetes only")
	}
}

// FuzzEvaluations does the same for the evaluation of conditions.
func FuzzEvaluations(f *testing.F) {
	for _, seed := range []string{
		`{"response":{"allowed":true}}`,
		`{"response":{"allowed":true,"denied":true}}`,
		`{"response":{"allowed":true,"conditionSets":[]}}`,
		`{"kind":"AuthorizationConditionsReview","response":{"denied":true,"reason":"r","evaluationError":"e"}}`,
		`{"status":{"allowed":true}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		decision, err := evaluationFrom(raw, officialGroup+versionV1alpha1)
		if err != nil {
			return
		}
		if !decision.IsUnconditional() {
			t.Fatal("conditions remain")
		}
		if !decision.IsAllow() {
			return
		}
		var answer struct {
			Response map[string]any `json:"response"`
		}
		if err := json.Unmarshal(raw, &answer); err != nil {
			t.Fatalf("an Allow from what is not JSON: %v", err)
		}
		if answer.Response["allowed"] != true || answer.Response["denied"] == true || answer.Response["conditionSets"] != nil {
			t.Fatalf("an Allow from %v", answer.Response)
		}
	})
}
