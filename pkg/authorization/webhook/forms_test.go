/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
)

// proposed is a webhook that is asked in the form that is proposed for Kubernetes.
func proposed(t testing.TB, name string, r *remote) entry {
	t.Helper()
	return unconditional(t, name, r).with(entry{"conditionsReview": map[string]any{"version": "v1alpha1", "kubeConfigContextName": "conditions"}})
}

// lone is an opaque condition in the proposed form.
const lone = `{"type":"ConditionsMap","conditionsMap":{"allowConditions":[{"id":"example.com/c","type":"example.com/opaque","condition":"?"}]}}`

// last returns the body of the last review of a kind.
func (r *remote) last(of func(*remote) []string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if bodies := of(r); len(bodies) > 0 {
		return bodies[len(bodies)-1]
	}
	return ""
}

func ofReviews(r *remote) []string    { return r.reviews }
func ofConditions(r *remote) []string { return r.conditions }

var uidPattern = regexp.MustCompile(`"uid":"([^"]{36})"`)

// evaluates answers an AuthorizationConditionsReview with a response, in which UID stands for the uid of the request.
func evaluates(r **remote, response string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		uid := ""
		if found := uidPattern.FindStringSubmatch((*r).last(ofConditions)); found != nil {
			uid = found[1]
		}
		says(strings.ReplaceAll(response, "UID", uid))(w, nil)
	}
}

// TestUpstreamForm asks a webhook in the proposed form. Unless its answer is a plain Allow about this request, the decision is Deny or NoOpinion.
func TestUpstreamForm(t *testing.T) {
	t.Parallel()
	const plain = `{"response":{"uid":"UID","decision":{"type":"Allow","allow":{"reason":"r"}}}}`
	union := func(members string) string { return `{"type":"Union","union":[` + members + `]}` }
	for _, tc := range []struct{ name, decision, evaluation, want string }{
		{name: "Allow", evaluation: plain, want: "Allow"},
		{name: "Deny", evaluation: `{"response":{"uid":"UID","decision":{"type":"Deny","deny":{}}}}`, want: "Deny"},
		{name: "NoOpinion", evaluation: `{"response":{"uid":"UID","decision":{"type":"NoOpinion","noOpinion":{}}}}`, want: "NoOpinion"},
		{name: "Allow with its kind", evaluation: `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"AuthorizationConditionsReview",` + plain[1:], want: "Allow"},
		{name: "a chain", decision: union(`{"authorizerName":"a","decision":` + lone + `}`), evaluation: plain, want: "Allow"},
		{name: "an evaluation in the other form", evaluation: `{"response":{"allowed":true}}`, want: "Deny"},
		{name: "an evaluation in both forms", evaluation: strings.Replace(plain, `"uid"`, `"allowed":true,"uid"`, 1), want: "Deny"},
		{name: "a denial in the other form beside it", evaluation: strings.Replace(plain, `"uid"`, `"denied":true,"uid"`, 1), want: "Deny"},
		{name: "another uid", evaluation: strings.Replace(plain, "UID", "705ab4f5-6393-11e8-b7cc-42010a800002", 1), want: "Deny"},
		{name: "no uid", evaluation: strings.Replace(plain, `"uid":"UID",`, "", 1), want: "Deny"},
		{name: "a uid twice", evaluation: strings.Replace(plain, `"uid":"UID"`, `"uid":"x","uid":"UID"`, 1), want: "Deny"},
		{name: "a decision twice", evaluation: strings.Replace(plain, `"decision"`, `"decision":{"type":"Deny","deny":{}},"decision"`, 1), want: "Deny"},
		{name: "a field that is not known", evaluation: strings.Replace(plain, `"type"`, `"unless":{},"type"`, 1), want: "Deny"},
		{name: "two members", evaluation: strings.Replace(plain, `"type"`, `"deny":{},"type"`, 1), want: "Deny"},
		{name: "conditions again", evaluation: `{"response":{"uid":"UID","decision":` + lone + `}}`, want: "Deny"},
		{name: "no decision", evaluation: `{"response":{"uid":"UID"}}`, want: "Deny"},
		{name: "no response", evaluation: `{}`, want: "Deny"},
		{name: "another kind", evaluation: `{"kind":"SubjectAccessReview",` + plain[1:], want: "Deny"},
		{name: "nothing", evaluation: ``, want: "Deny"},
		{name: "a reason beside conditions", decision: lone + `,"reason":"r"`, evaluation: plain, want: "Deny"},
		{name: "an error beside conditions", decision: lone + `,"evaluationError":"e"`, evaluation: plain, want: "Deny"},
		{name: "allowed beside conditions", decision: lone + `,"allowed":true`, evaluation: plain, want: "Deny"},
		{name: "conditions in both forms", decision: lone + `,"conditionsChain":` + allowIf(unknown, "?"), evaluation: plain, want: "Deny"},
		{name: "a field of conditions that is not known", decision: strings.Replace(lone, `"type"`, `"unless":{},"type"`, 1), evaluation: plain, want: "Deny"},
		{name: "a field of conditions twice", decision: strings.Replace(lone, `"type"`, `"type":"Deny","type"`, 1), evaluation: plain, want: "Deny"},
		{name: "an Allow as conditions", decision: `{"type":"Allow","allow":{}}`, evaluation: plain, want: "Deny"},
		{name: "one name twice", decision: union(`{"authorizerName":"a","decision":` + lone + `},{"authorizerName":"a","decision":` + lone + `}`), evaluation: plain, want: "Deny"},
		{name: "129 conditions", decision: `{"type":"ConditionsMap","conditionsMap":{"allowConditions":[` + strings.Repeat(`{"id":"example.com/c","type":"example.com/opaque"},`, 128) + `{"id":"example.com/d","type":"example.com/opaque"}]}}`, evaluation: plain, want: "Deny"},
		{name: "deep chains", decision: strings.Repeat(`{"type":"Union","union":[{"authorizerName":"a","decision":`, 9) + lone + strings.Repeat(`}]}`, 9), evaluation: plain, want: "Deny"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			decision := tc.decision
			if decision == "" {
				decision = lone
			}
			var r *remote
			r = newRemote(t, says(status(`"conditionalDecision":`+decision)), evaluates(&r, tc.evaluation))
			got := evaluate(t, chainOf(t, newSourceWith(t, true, proposed(t, "w", r))).Begin(t.Context(), asking()))
			if kindOf(got) != tc.want {
				t.Errorf("got %s: %s %v, want %s", kindOf(got), got.Reason(), got.Err(), tc.want)
			}
		})
	}
}

// TestUpstreamFormFails lets the evaluation of conditions fail.
func TestUpstreamFormFails(t *testing.T) {
	t.Parallel()
	for name, evaluation := range map[string]http.HandlerFunc{"500": fails(500), "404": fails(404), "too late": hangs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, says(status(`"conditionalDecision":`+lone)), evaluation)
			source := newSourceWith(t, true, proposed(t, "w", r).with(entry{"timeout": "2s", "failurePolicy": "NoOpinion"}))
			if got := evaluate(t, chainOf(t, source).Begin(t.Context(), asking())); !got.IsDeny() {
				t.Errorf("got %s", kindOf(got))
			}
		})
	}
}

// TestWhatUpstreamFormSends has the reviews that a webhook gets in the proposed form, in both versions.
func TestWhatUpstreamFormSends(t *testing.T) {
	t.Parallel()
	chain := `{"type":"Union","union":[{"authorizerName":"a","decision":` + lone + `}]}`
	for _, version := range []string{"v1", "v1alpha1"} {
		for _, decision := range []string{lone, chain} {
			var r *remote
			r = newRemote(t, says(status(`"conditionalDecision":`+decision)), evaluates(&r, `{"response":{"uid":"UID","decision":{"type":"Allow","allow":{}}}}`))
			source := newSourceWith(t, true, proposed(t, "w", r).with(entry{"subjectAccessReviewVersion": version}))
			if got := evaluate(t, chainOf(t, source).Begin(t.Context(), asking())); !got.IsAllow() {
				t.Fatalf("%s: %v", version, got.Err())
			}
			var asked struct {
				APIVersion string
				Spec       map[string]any
			}
			if err := json.Unmarshal([]byte(r.last(ofReviews)), &asked); err != nil {
				t.Fatal(err)
			}
			options := fmt.Sprint(asked.Spec["authorizationOptions"])
			if asked.APIVersion != "authorization.k8s.io/"+version || options != "map[handledDecisionTypes:[Allow Deny NoOpinion ConditionsMap Union]]" || asked.Spec["conditionalAuthorization"] != nil {
				t.Errorf("%s: asked with %s", version, r.last(ofReviews))
			}
			var sent struct {
				APIVersion, Kind string
				Request          map[string]json.RawMessage
			}
			if err := json.Unmarshal([]byte(r.last(ofConditions)), &sent); err != nil {
				t.Fatal(err)
			}
			const request = `,"kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},"requestKind":{"group":"","version":"v1","kind":"Pod"},` +
				`"requestResource":{"group":"","version":"v1","resource":"pods"},"name":"name","namespace":"n","operation":"CREATE",` +
				`"userInfo":{"username":"alice","uid":"1","groups":["g"],"extra":{"authorization.proviso.dev/delegated":["true"]}},"object":{"spec":"x"},"oldObject":null,"dryRun":true,"options":{"kind":"CreateOptions"}}`
			if got := uidPattern.ReplaceAllString(string(sent.Request["admissionRequest"]), ""); got != "{"+request {
				t.Errorf("the request is %s\nwant %s", got, request)
			}
			if string(sent.Request["decision"]) != decision || len(sent.Request) != 2 || sent.APIVersion+sent.Kind != "authorization.k8s.io/v1alpha1AuthorizationConditionsReview" {
				t.Errorf("sent %s, want the decision %s", r.last(ofConditions), decision)
			}
		}
	}
}

// TestFormMatrix asks webhooks of both forms in both forms, and evaluates their opaque conditions. A webhook that does not know the form in which it is
// asked does not see the question, and so never returns conditions. One that answers in the other form gets its conditions back in that form.
func TestFormMatrix(t *testing.T) {
	t.Parallel()
	kep, upstream := `"conditionsChain":`+allowIf(unknown, "?"), `"conditionalDecision":`+lone
	knows := func(r **remote, field, conditional string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if strings.Contains((*r).last(ofReviews), field) {
				says(status(conditional))(w, nil)
				return
			}
			says(status(`"allowed":false`))(w, nil)
		}
	}
	both := func(r **remote) http.HandlerFunc { // evaluates in the form of the review
		return func(w http.ResponseWriter, _ *http.Request) {
			if strings.Contains((*r).last(ofConditions), `"admissionRequest"`) {
				evaluates(r, `{"response":{"uid":"UID","decision":{"type":"Allow","allow":{}}}}`)(w, nil)
				return
			}
			says(response(`"allowed":true`))(w, nil)
		}
	}
	for _, tc := range []struct {
		name                string
		isGated, isUpstream bool
		field, answer       string
		want, wantSent      string
	}{
		{name: "old form, old webhook", field: "conditionalAuthorization", answer: kep, want: "Allow", wantSent: "conditionSets"},
		{name: "old form, new webhook", field: "authorizationOptions", answer: upstream, want: "NoOpinion"},
		{name: "gate on, old form, old webhook", isGated: true, field: "conditionalAuthorization", answer: kep, want: "Allow", wantSent: "conditionSets"},
		{name: "gate on, old form, new webhook", isGated: true, field: "authorizationOptions", answer: upstream, want: "NoOpinion"},
		{name: "new form, new webhook", isGated: true, isUpstream: true, field: "authorizationOptions", answer: upstream, want: "Allow", wantSent: "admissionRequest"},
		{name: "new form, old webhook", isGated: true, isUpstream: true, field: "conditionalAuthorization", answer: kep, want: "NoOpinion"},
		{name: "old form, answered in the new one", isGated: true, answer: upstream, want: "Allow", wantSent: "admissionRequest"},
		{name: "new form, answered in the old one", isGated: true, isUpstream: true, answer: kep, want: "Allow", wantSent: "conditionSets"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var r *remote
			r = newRemote(t, knows(&r, tc.field, tc.answer), both(&r))
			e := conditional(t, "w", r)
			if tc.isUpstream {
				e = proposed(t, "w", r)
			}
			got := evaluate(t, chainOf(t, newSourceWith(t, tc.isGated, e)).Begin(t.Context(), asking()))
			if sent := r.last(ofConditions); kindOf(got) != tc.want || !strings.Contains(sent, tc.wantSent) || tc.wantSent == "" && sent != "" {
				t.Errorf("got %s, %v, after the conditions were sent as %s", kindOf(got), got.Err(), sent)
			}
		})
	}
}

// TestOneEndpoint has a webhook that gets both reviews at one URL.
func TestOneEndpoint(t *testing.T) {
	t.Parallel()
	r := newRemote(t, nil, nil)
	r.answer = func(w http.ResponseWriter, _ *http.Request) {
		body := r.last(ofReviews)
		if found := uidPattern.FindStringSubmatch(body); strings.Contains(body, "AuthorizationConditionsReview") && found != nil {
			says(`{"response":{"uid":"`+found[1]+`","decision":{"type":"Allow","allow":{}}}}`)(w, nil)
			return
		}
		says(status(`"conditionalDecision":`+lone))(w, nil)
	}
	e := unconditional(t, "w", r).with(entry{"conditionsReview": map[string]any{"version": "v1alpha1"}})
	if got := evaluate(t, chainOf(t, newSourceWith(t, true, e)).Begin(t.Context(), asking())); !got.IsAllow() {
		t.Errorf("got %s, %v", kindOf(got), got.Err())
	}
}

// TestByTheLetterOfTheKEP has answers in v1, IDs and types without a domain, and conditions without a type. The author gets its conditions back as it wrote
// them.
func TestByTheLetterOfTheKEP(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, conditions, want string
	}{
		{"an ID without a domain", `{"id":"c","effect":"Allow","type":"example.com/opaque","condition":"?"}`, "Allow"},
		{"a type without a domain", `{"id":"c","effect":"Allow","type":"rego","condition":"?"}`, "Allow"},
		{"no type", `{"id":"c","effect":"Allow","type":"","condition":"?"}`, "Allow"},
		{"the same ID in its own domain", `{"id":"c","effect":"Allow","type":"rego","condition":"?"},{"id":"w.example.com/c","effect":"Allow","type":"rego","condition":"?"}`, "Allow"},
		{"one ID twice", `{"id":"c","effect":"Allow","type":"rego","condition":"?"},{"id":"c","effect":"Allow","type":"rego","condition":"?"}`, "Deny"},
		{"no ID", `{"id":"","effect":"Allow","type":"rego","condition":"?"}`, "Deny"},
		{"the reserved domain", `{"id":"unqualified.w.example.com/c","effect":"Allow","type":"rego","condition":"?"}`, "Deny"},
		{"the reserved type", `{"id":"c","effect":"Allow","type":"untyped.w.example.com/condition","condition":"?"}`, "Deny"},
		{"an ID that is no name", `{"id":"a b","effect":"Allow","type":"rego","condition":"?"}`, "Deny"},
	} {
		for _, version := range []string{"v1", "v1alpha1"} {
			t.Run(tc.name+"/"+version, func(t *testing.T) {
				t.Parallel()
				r := newRemote(t, says(status(`"conditionsChain":[{"authorizerName":"a","conditions":[`+tc.conditions+`]}]`)), says(response(`"allowed":true`)))
				source := newSourceWith(t, true, conditional(t, "w.example.com", r).with(entry{"subjectAccessReviewVersion": version}))
				if got := evaluate(t, chainOf(t, source).Begin(t.Context(), asking())); kindOf(got) != tc.want {
					t.Errorf("got %s, %v, want %s", kindOf(got), got.Err(), tc.want)
				}
				if asked := r.last(ofReviews); !strings.Contains(asked, `"conditionalAuthorization":{"mode":"HumanReadable"}`) || !strings.Contains(asked, `"authorization.k8s.io/`+version+`"`) {
					t.Errorf("asked with %s", asked)
				}
				if sent := r.last(ofConditions); tc.want == "Allow" && !strings.Contains(sent, `"conditions":[`+tc.conditions+`]`) {
					t.Errorf("sent back %s", sent)
				}
			})
		}
	}
	r := newRemote(t, says(status(`"conditionsChain":[{"authorizerName":"a","conditions":[{"id":"c","effect":"Allow","type":"rego"}]}]`)), says(response(`"allowed":true`)))
	if got := evaluate(t, chainOf(t, newSource(t, conditional(t, "w.example.com", r))).Begin(t.Context(), asking())); !got.IsDeny() {
		t.Errorf("without the gate: got %s", kindOf(got))
	}
}

// TestFormsNeedTheGate has configurations that need the gate.
func TestFormsNeedTheGate(t *testing.T) {
	t.Parallel()
	r := newRemote(t, nil, nil)
	for want, e := range map[string]entry{
		"authorizers[0].webhook.conditionsReview: Forbidden: needs the feature gate":                          proposed(t, "w", r),
		"authorizers[0].webhook.conditionsEndpointKubeConfigContext: Forbidden: needs subjectAccessReviewVer": conditional(t, "w", r).with(entry{"subjectAccessReviewVersion": "v1"}),
		"conditionsReview.kubeConfigContextName: Invalid value":                                               unconditional(t, "w", r).with(entry{"conditionsReview": map[string]any{"version": "v1alpha1", "kubeConfigContextName": "missing"}}),
	} {
		_, err := webhook.NewSource(webhook.SourceConfig{
			File: write(t, filepath.Join(t.TempDir(), "config"), configuration(t, e)), Backoff: wait.Backoff{Steps: 1, Duration: time.Millisecond},
			Upstream: strings.Contains(want, "Name: Invalid"),
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
