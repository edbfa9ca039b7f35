/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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
		`{"status":{"conditionsChain":[{"authorizerName":"a","conditions":[{"id":"c","effect":"Allow","type":""}]}]}}`,
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, raw []byte, asked bool) {
		decision, _, err := decisionFrom(raw, officialGroup+versionV1alpha1, "w", asked, false)
		if relaxed, _, relaxedErr := decisionFrom(raw, officialGroup+versionV1alpha1, "w", asked, true); err != nil {
			// The letter of the KEP adds conditions, and no other answer.
			if decision, err = relaxed, relaxedErr; err == nil && decision.IsAllow() {
				t.Fatal("an Allow by the letter of the KEP only")
			}
		}
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

// TestDecisionFromAnswers has the answers that a webhook can give to a SubjectAccessReview. One that says two things, or that does not say what it
// depends on, is an error, and never an Allow.
func TestDecisionFromAnswers(t *testing.T) {
	t.Parallel()
	const (
		allowIf  = `{"id":"example.com/c","effect":"Allow","type":"example.com/x","condition":"?"}`
		typeless = `{"id":"example.com/c","effect":"Allow","condition":"?"}`
		union    = `"conditionalDecision":{"type":"Union","union":[%s]}`
	)
	set := func(rest string) string { return `{"authorizerName":"a",` + rest + `}` }
	chain := func(sets ...string) string { return `"conditionsChain":[` + strings.Join(sets, ",") + `]` }
	member := func(decision string) string { return `{"authorizerName":"a","decision":` + decision + `}` }
	onMap := `{"type":"ConditionsMap","conditionsMap":{"allowConditions":[{"id":"example.com/c","type":"example.com/x","condition":"?"}]}}`
	for _, tc := range []struct {
		name, status string // the members of the status
		unasked      bool
		want         string
		wantErr      error
	}{
		{name: "nothing", want: "NoOpinion"},
		{name: "allowed", status: `"allowed":true`, want: "Allow"},
		{name: "denied", status: `"denied":true`, want: "Deny"},
		{name: "neither, in words", status: `"allowed":false,"denied":false`, want: "NoOpinion"},
		{name: "allowed and denied", status: `"allowed":true,"denied":true`, wantErr: errContradictory},
		{name: "null for what is not there", status: `"allowed":true,"denied":null,"conditionsChain":null,"conditionalDecision":null`, want: "Allow"},
		{name: "a number for true", status: `"allowed":1`, wantErr: errMalformed},
		{name: "a field twice", status: `"allowed":false,"allowed":true`, wantErr: errMalformed},
		{name: "a field in other letters", status: `"Allowed":true`, want: "NoOpinion"},
		{name: "a field that is not known", status: `"allowed":true,"perhaps":true`, want: "Allow"},

		{name: "conditions", status: chain(set(`"conditions":[` + allowIf + `]`)), want: "conditional"},
		{name: "conditions, not requested", status: chain(set(`"conditions":[` + allowIf + `]`)), unasked: true, wantErr: errUnasked},
		{name: "an empty chain, not requested", status: `"conditionsChain":[]`, unasked: true, wantErr: errUnasked},
		{name: "a decision that depends, not requested", status: `"allowed":true,"conditionalDecision":` + onMap, unasked: true, wantErr: errUnasked},
		{name: "allowed, with conditions", status: `"allowed":true,` + chain(set(`"conditions":[`+allowIf+`]`)), wantErr: errContradictory},
		{name: "denied, with conditions", status: `"denied":true,` + chain(set(`"conditions":[`+allowIf+`]`)), wantErr: errContradictory},
		{name: "allowed, with an empty chain", status: `"allowed":true,"conditionsChain":[]`, wantErr: errContradictory},
		{name: "conditions in two forms", status: chain(set(`"conditions":[`+allowIf+`]`)) + `,"conditionSetChain":[]`, wantErr: errContradictory},
		{name: "a chain and a decision", status: chain(set(`"conditions":[`+allowIf+`]`)) + `,"conditionalDecision":` + onMap, wantErr: errContradictory},
		{name: "an empty chain", status: `"conditionsChain":[]`, wantErr: errMalformed},
		{name: "an empty chain in the newer form", status: `"conditionSetChain":[]`, wantErr: errMalformed},
		{name: "an empty list of conditions", status: chain(set(`"conditions":[]`)), wantErr: errMalformed},
		{name: "an empty chain in a chain", status: chain(set(`"conditionsChain":[]`)), wantErr: errMalformed},
		{name: "a chain in a chain", status: chain(set(chain(set(`"conditions":[` + allowIf + `]`)))), want: "conditional"},
		{name: "a chain in a chain, in the newer form", status: chain(set(`"conditionSetChain":[` + set(`"conditions":[`+allowIf+`]`) + `]`)), want: "conditional"},
		{name: "both chains in a chain", status: chain(set(`"conditionsChain":[` + set(`"denied":true`) + `],"conditionSetChain":[` + set(`"allowed":true`) + `]`)), wantErr: errMalformed},
		{name: "a set that is allowed and denied", status: chain(set(`"allowed":true,"denied":true`)), wantErr: errMalformed},
		{name: "a set that is allowed, with conditions", status: chain(set(`"allowed":true,"conditions":[` + allowIf + `]`)), wantErr: errMalformed},
		{name: "a set that is denied, with a chain", status: chain(set(`"denied":true,` + chain(set(`"allowed":true`)))), wantErr: errMalformed},
		{name: "a chain that allows for any data", status: chain(set(`"allowed":true`)), wantErr: errContradictory},
		{name: "conditions, and then an Allow", status: chain(set(`"conditions":[`+allowIf+`]`), `{"authorizerName":"b","allowed":true}`), wantErr: errContradictory},
		{name: "an Allow behind a condition that may deny", status: chain(set(`"conditions":[{"id":"example.com/c","effect":"Deny","type":"example.com/x","condition":"?"}]`), `{"authorizerName":"b","allowed":true}`), want: "conditional"},
		{name: "a chain that denies for any data", status: chain(set(`"denied":true`), `{"authorizerName":"b","allowed":true}`), want: "Deny"},
		{name: "an effect that is not known", status: chain(set(`"conditions":[{"id":"example.com/c","effect":"Audit","type":"example.com/x"}]`)), wantErr: errMalformed},
		{name: "a failure mode that is not known", status: chain(set(`"failureMode":"Allow","conditions":[` + allowIf + `]`)), wantErr: errMalformed},
		{name: "a condition without a type", status: chain(set(`"conditions":[` + typeless + `]`)), wantErr: errMalformed},
		{name: "the type of the set", status: chain(set(`"conditionsType":"example.com/x","conditions":[` + typeless + `]`)), want: "conditional"},
		{name: "the type of both", status: chain(set(`"conditionsType":"example.com/x","conditions":[` + allowIf + `]`)), want: "conditional"},
		{name: "two types", status: chain(set(`"conditionsType":"example.com/z","conditions":[` + allowIf + `]`)), wantErr: errMalformed},
		{name: "a set that has nothing", status: chain(set(`"failureMode":"Deny"`)), want: "NoOpinion"},

		{name: "a map", status: `"conditionalDecision":` + onMap, want: "conditional"},
		{name: "an empty map", status: `"conditionalDecision":{"type":"ConditionsMap","conditionsMap":{}}`, wantErr: errMalformed},
		{name: "a map without its type", status: `"conditionalDecision":{"conditionsMap":{"allowConditions":[` + allowIf + `]}}`, wantErr: errMalformed},
		{name: "the type without a map", status: `"conditionalDecision":{"type":"ConditionsMap"}`, wantErr: errMalformed},
		{name: "a type that is not known", status: `"conditionalDecision":{"type":"Perhaps","allow":{}}`, wantErr: errMalformed},
		{name: "two members", status: `"conditionalDecision":{"type":"Allow","allow":{},"deny":{}}`, wantErr: errMalformed},
		{name: "two members, of which the type names both", status: `"conditionalDecision":{"type":"AllowDeny","allow":{},"deny":{}}`, wantErr: errMalformed},
		{name: "an Allow that depends on nothing", status: `"conditionalDecision":{"type":"Allow","allow":{}}`, wantErr: errMalformed},
		{name: "a Deny that depends on nothing", status: `"conditionalDecision":{"type":"Deny","deny":{}}`, wantErr: errMalformed},
		{name: "a field of a decision that is not known", status: `"conditionalDecision":` + strings.Replace(onMap, `{"type":"ConditionsMap"`, `{"expires":"1970","type":"ConditionsMap"`, 1), wantErr: errMalformed},
		{name: "a list of conditions that is not known", status: `"conditionalDecision":` + strings.Replace(onMap, `{"allowConditions"`, `{"requireConditions":[],"allowConditions"`, 1), wantErr: errMalformed},
		{name: "a list of conditions in other letters", status: `"conditionalDecision":` + strings.Replace(onMap, `{"allowConditions"`, `{"DenyConditions":[],"allowConditions"`, 1), wantErr: errMalformed},
		{name: "a field of a condition that is not known", status: `"conditionalDecision":` + strings.Replace(onMap, `"condition":"?"`, `"condition":"?","unless":"true"`, 1), wantErr: errMalformed},
		{name: "a field of a member that is not known", status: fmt.Sprintf(union, strings.Replace(member(onMap), `"authorizerName"`, `"failureMode":"Deny","authorizerName"`, 1)), wantErr: errMalformed},
		{name: "a list of conditions twice", status: `"conditionalDecision":` + strings.Replace(onMap, `{"allowConditions"`, `{"allowConditions":[],"allowConditions"`, 1), wantErr: errMalformed},
		{name: "an empty union", status: fmt.Sprintf(union, ""), wantErr: errMalformed},
		{name: "a union of a map", status: fmt.Sprintf(union, member(onMap)), want: "conditional"},
		{name: "a union of a union", status: fmt.Sprintf(union, member(`{"type":"Union","union":[`+member(onMap)+`]}`)), want: "conditional"},
		{name: "a union with a mistake in it", status: fmt.Sprintf(union, member(onMap)+","+member(`{"type":"Allow"}`)), wantErr: errMalformed},
		{name: "a union that allows", status: fmt.Sprintf(union, member(`{"type":"Allow","allow":{}}`)), wantErr: errContradictory},
		{name: "a union that denies", status: fmt.Sprintf(union, member(`{"type":"Deny","deny":{}}`)), want: "Deny"},
		{name: "a union without opinion", status: fmt.Sprintf(union, member(`{"type":"NoOpinion","noOpinion":{}}`)), want: "NoOpinion"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			decision, _, err := decisionFrom([]byte(`{"status":{`+tc.status+`}}`), officialGroup+versionV1alpha1, "w", !tc.unasked, false)
			if !errors.Is(err, tc.wantErr) || (err == nil) != (tc.wantErr == nil) {
				t.Fatalf("got %v, want %v", err, tc.wantErr)
			}
			if tc.wantErr != nil && !decision.IsDeny() {
				t.Errorf("got %s beside the error", describe(decision))
			}
			if got := describe(decision); tc.wantErr == nil && got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestEvaluationsInForms has the answers to an AuthorizationConditionsReview, in the form of the review, in the other one, and in both. An answer
// in the other form is an error: a reader that ignores its fields takes a Deny for NoOpinion.
func TestEvaluationsInForms(t *testing.T) {
	t.Parallel()
	const (
		allow    = `"uid":"1","decision":{"type":"Allow","allow":{}}`
		deny     = `"uid":"1","decision":{"type":"Deny","deny":{}}`
		sets     = `[{"authorizerName":"a","denied":true}]`
		left     = `{"type":"ConditionsMap","conditionsMap":{"denyConditions":[{"id":"example.com/c","type":"example.com/x"}]}}`
		conflict = "error"
	)
	for _, tc := range []struct{ name, response, wantKEP, wantUpstream string }{
		{name: "allowed", response: `"allowed":true`, wantKEP: "Allow", wantUpstream: conflict},
		{name: "denied", response: `"denied":true`, wantKEP: "Deny", wantUpstream: conflict},
		{name: "nothing", wantKEP: "NoOpinion", wantUpstream: conflict},
		{name: "a decision of Allow", response: allow, wantKEP: conflict, wantUpstream: "Allow"},
		{name: "a decision of Deny", response: deny, wantKEP: conflict, wantUpstream: "Deny"},
		{name: "a decision of NoOpinion", response: `"uid":"1","decision":{"type":"NoOpinion","noOpinion":{}}`, wantKEP: conflict, wantUpstream: "NoOpinion"},
		{name: "allowed beside a decision of Deny", response: `"allowed":true,` + deny, wantKEP: conflict, wantUpstream: conflict},
		{name: "denied beside a decision of Allow", response: `"denied":true,` + allow, wantKEP: conflict, wantUpstream: conflict},
		{name: "allowed beside a decision of Allow", response: `"allowed":true,` + allow, wantKEP: conflict, wantUpstream: conflict},
		{name: "allowed and denied", response: `"allowed":true,"denied":true`, wantKEP: conflict, wantUpstream: conflict},
		{name: "a decision that is no object", response: `"uid":"1","decision":"Allow"`, wantKEP: conflict, wantUpstream: conflict},
		{name: "a decision with conditions", response: `"uid":"1","decision":` + left, wantKEP: conflict, wantUpstream: conflict},
		{name: "a decision with a field that is not known", response: `"uid":"1","decision":{"type":"Allow","allow":{},"unless":"x"}`, wantKEP: conflict, wantUpstream: conflict},
		{name: "a decision for another uid", response: strings.Replace(allow, "1", "2", 1), wantKEP: conflict, wantUpstream: conflict},
		{name: "a reason beside a decision", response: `"reason":"r",` + allow, wantKEP: conflict, wantUpstream: conflict},
		{name: "an error beside a decision", response: `"evaluationError":"e",` + allow, wantKEP: conflict, wantUpstream: conflict},
		{name: "conditionSets beside allowed", response: `"allowed":true,"conditionSets":` + sets, wantKEP: conflict, wantUpstream: conflict},
		{name: "conditionSetChain beside allowed", response: `"allowed":true,"conditionSetChain":` + sets, wantKEP: conflict, wantUpstream: conflict},
		{name: "conditionsChain beside allowed", response: `"allowed":true,"conditionsChain":` + sets, wantKEP: conflict, wantUpstream: conflict},
		{name: "conditionsChain beside a decision", response: `"conditionsChain":` + sets + "," + allow, wantKEP: conflict, wantUpstream: conflict},
		{name: "conditionsChain alone", response: `"conditionsChain":` + sets, wantKEP: conflict, wantUpstream: conflict},
		{name: "conditionalDecision beside allowed", response: `"allowed":true,"conditionalDecision":` + left, wantKEP: conflict, wantUpstream: conflict},
		{name: "conditionalDecision beside a decision", response: `"conditionalDecision":` + left + "," + allow, wantKEP: conflict, wantUpstream: conflict},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			raw := []byte(`{"response":{` + tc.response + `}}`)
			check := func(form string, decision authorization.Decision, err error, want string) {
				got := describe(decision)
				if err != nil {
					if got != "Deny" || !errors.Is(err, errMalformed) && !errors.Is(err, errContradictory) {
						t.Errorf("%s: got %s beside %v", form, got, err)
					}
					got = conflict
				}
				if got != want {
					t.Errorf("%s: got %s, want %s", form, got, want)
				}
			}
			decision, err := evaluationFrom(raw, officialGroup+versionV1alpha1)
			check("the form of KEP-5681", decision, err, tc.wantKEP)
			decision, err = upstreamEvaluationFrom(raw, officialGroup+versionV1alpha1, "1")
			check("the proposed form", decision, err, tc.wantUpstream)
		})
	}
}

func describe(d authorization.Decision) string {
	switch {
	case !d.IsUnconditional() && d.CanBecomeAllowed():
		return "conditional"
	case d.Fold().IsAllow():
		return "Allow"
	case d.Fold().IsDeny():
		return "Deny"
	default:
		return "NoOpinion"
	}
}

// TestAnswersToOtherReviews has answers that name another version or kind, as a server gives them that does not know the one that was sent.
func TestAnswersToOtherReviews(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, meta string
		wantErr    bool
	}{
		{name: "no version and kind", meta: ``},
		{name: "the same", meta: `"apiVersion":"authorization.k8s.io/v1alpha1","kind":"SubjectAccessReview",`},
		{name: "the version alone", meta: `"apiVersion":"authorization.k8s.io/v1alpha1",`},
		{name: "another version", meta: `"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview",`, wantErr: true},
		{name: "another group", meta: `"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"SubjectAccessReview",`, wantErr: true},
		{name: "another kind", meta: `"kind":"SelfSubjectAccessReview",`, wantErr: true},
		{name: "a status of an error", meta: `"apiVersion":"v1","kind":"Status",`, wantErr: true},
	} {
		decision, _, err := decisionFrom([]byte(`{`+tc.meta+`"status":{"allowed":true}}`), officialGroup+versionV1alpha1, "w", false, false)
		if (err != nil) != tc.wantErr || decision.IsAllow() == tc.wantErr {
			t.Errorf("%s: got %s, %v", tc.name, describe(decision), err)
		}
	}
	for _, raw := range []string{``, `null`, `[]`, `"x"`, `{}`, `{"status":null}`, `{"status":[]}`, `{"status":{"allowed":true}}{}`, `{"status":{"allowed":true}`} {
		if decision, _, err := decisionFrom([]byte(raw), officialGroup+versionV1alpha1, "w", true, false); !errors.Is(err, errMalformed) || decision.IsAllow() {
			t.Errorf("%q: got %s, %v", raw, describe(decision), err)
		}
		if decision, err := evaluationFrom([]byte(strings.ReplaceAll(raw, "status", "response")), officialGroup+versionV1alpha1); !errors.Is(err, errMalformed) || decision.IsAllow() {
			t.Errorf("%q of conditions: got %s, %v", raw, describe(decision), err)
		}
	}
}

// TestReasonsOfAnswers bounds what a webhook can add to messages, and shows an error in spite of which it has decided.
func TestReasonsOfAnswers(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ß", 3000) // 6000 bytes
	for _, tc := range []struct {
		name, members  string
		want           string
		wantEvaluation string // of conditions, if it is another one
	}{
		{name: "a reason", members: `"denied":true,"reason":"r"`, want: "r"},
		{name: "an error", members: `"denied":true,"evaluationError":"e"`, want: "e"},
		{name: "both", members: `"reason":"r","evaluationError":"e"`, want: "r; e"},
		{name: "an error of an Allow", members: `"allowed":true,"reason":"r","evaluationError":"e"`, want: "r", wantEvaluation: "r; e"},
		{name: "a long reason", members: `"denied":true,"reason":"` + long + `"`, want: strings.Repeat("ß", 2046) + "…"},
		{name: "a long reason, cut within a letter", members: `"denied":true,"reason":"a` + long + `"`, want: "a" + strings.Repeat("ß", 2046) + "…"},
		{name: "the longest reason", members: `"denied":true,"reason":"` + long[:4096] + `"`, want: long[:4096]},
		{name: "a long error", members: `"denied":true,"reason":"r","evaluationError":"` + long + `"`, want: "r; " + strings.Repeat("ß", 2046) + "…"},
	} {
		decision, _, err := decisionFrom([]byte(`{"status":{`+tc.members+`}}`), officialGroup+versionV1, "w", false, false)
		if err != nil || decision.Reason() != tc.want {
			t.Errorf("%s: got %q, %v", tc.name, decision.Reason(), err)
		}
		want := tc.want
		if tc.wantEvaluation != "" {
			want = tc.wantEvaluation
		}
		evaluated, err := evaluationFrom([]byte(`{"response":{`+tc.members+`}}`), officialGroup+versionV1alpha1)
		if err != nil || evaluated.Reason() != want {
			t.Errorf("%s, of conditions: got %q, %v", tc.name, evaluated.Reason(), err)
		}
	}
}

// checkUpstream makes sure that the types of Kubernetes do not make more of a decision.
func checkUpstream(t *testing.T, decision authorization.Decision) {
	t.Helper()
	if authorization.ToUpstream(decision).IsAllow() || authorization.FromUpstream("w", authorization.ToUpstream(decision)).Fold().IsAllow() {
		t.Fatal("an Allow in the types of Kubernetes only")
	}
}

// checkUpstreamEvaluation reads an evaluation in the form that is proposed for Kubernetes. An Allow must have the uid, and nothing of the other form.
func checkUpstreamEvaluation(t *testing.T, raw []byte) {
	t.Helper()
	decision, err := upstreamEvaluationFrom(raw, officialGroup+versionV1alpha1, "1")
	if err != nil {
		if !decision.IsDeny() {
			t.Fatalf("%s beside %v", describe(decision), err)
		}
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
	given, _ := answer.Response["decision"].(map[string]any)
	if answer.Response["uid"] != "1" || answer.Response["denied"] == true || given["type"] != "Allow" || given["allow"] == nil || given["deny"] != nil {
		t.Fatalf("an Allow from %v", answer.Response)
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
		`{"response":{"uid":"1","decision":{"type":"Allow","allow":{"reason":"r"}}}}`,
		`{"response":{"uid":"1","allowed":true,"decision":{"type":"Deny","deny":{"evaluationError":"e"}}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		checkUpstreamEvaluation(t, raw)
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
