/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
)

const reviewJSON = `{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "alice",
  "resourceAttributes": {"verb": "get", "version": "v1", "resource": "configmaps", "namespace": "demo", "name": "c"}}}`

// answer is what a request was answered.
type answer struct {
	code   int
	header http.Header
	body   string
}

// listen serves a door to a client whose certificate is right, and returns a function that
// asks.
func listen(t *testing.T, door *frontdoor.Decider) func(*http.Request) answer {
	t.Helper()
	s := newListener(t, door)
	client := s.client(t, s.clientPair(t, "kube-apiserver"))
	return func(r *http.Request) answer {
		t.Helper()
		r.URL.Scheme, r.URL.Host, r.RequestURI = "https", s.address, ""
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer{response.StatusCode, response.Header, string(body)}
	}
}

func post(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, frontdoor.AuthorizePath, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

var tooLong = authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: "the review of this request is longer than 262144 bytes, the most that policies decide about: use a shorter selector"}

func TestReviews(t *testing.T) {
	t.Parallel()
	attributes := func(more string) string {
		return fmt.Sprintf(`{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "alice", "groups": ["system:authenticated"], %s}}`, more)
	}
	for _, tc := range []struct {
		name     string
		policies map[string]policy
		body     string
		want     authorizationv1.SubjectAccessReviewStatus
	}{
		{name: "allowed", policies: always, body: reviewJSON,
			want: authorizationv1.SubjectAccessReviewStatus{Allowed: true, Reason: `policy=p reason=Allowed: it allows the request`}},
		{name: "denied", policies: never, body: reviewJSON,
			want: authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: `policy=p reason=Denied: it denies the request`}},
		{name: "no opinion", body: reviewJSON},
		{name: "the marker", policies: always, body: attributes(`"extra": {"authorization.proviso.dev/delegated": ["true"]}, "resourceAttributes": {"verb": "get", "version": "v1", "resource": "pods"}`),
			want: authorizationv1.SubjectAccessReviewStatus{}},
		{name: "a path", policies: alwaysPaths, body: attributes(`"nonResourceAttributes": {"verb": "get", "path": "/metrics"}`),
			want: authorizationv1.SubjectAccessReviewStatus{Allowed: true, Reason: `policy=p reason=Allowed: it allows the request`}},
		{name: "conditions where they are enforced", policies: onCondition,
			body: attributes(`"resourceAttributes": {"verb": "create", "group": "demo.proviso.dev", "version": "v1alpha1", "resource": "virtualmachines"}`),
			want: authorizationv1.SubjectAccessReviewStatus{Allowed: true, Reason: `allowed if the conditions hold, which Proviso evaluates at admission: policy=p`}},
		{name: "a version that is left out is every version", policies: onCondition,
			body: attributes(`"resourceAttributes": {"verb": "create", "group": "demo.proviso.dev", "resource": "virtualmachines"}`),
			want: authorizationv1.SubjectAccessReviewStatus{Reason: `the answer depends on conditions, and the review does not name one verb, group, version and resource: allowed on conditions: policy=p; ` + authorization.HowToSeeConditions}},
		{name: "a selector that makes no sense is no way around a Deny", policies: never,
			body: attributes(`"resourceAttributes": {"verb": "list", "version": "v1", "resource": "pods", "fieldSelector": {"requirements": [{"key": "", "operator": "In", "values": []}]}}`),
			want: authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: `policy=p reason=Denied: it denies the request`}},
		{name: "a selector of another type is no way around a Deny", policies: readsLabels,
			body: attributes(`"resourceAttributes": {"verb": "list", "version": "v1", "resource": "pods", "labelSelector": 1}`),
			want: authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: `policy=p reason=Denied: it denies the request`}},
		{name: "a condition reads selectors", policies: readsLabels,
			body: attributes(`"resourceAttributes": {"verb": "list", "version": "v1", "resource": "pods", "labelSelector": {"requirements": [{"key": "a", "operator": "Exists"}]}, "fieldSelector": {"requirements": [{"key": "f", "operator": "In", "values": ["1"]}]}}`)},
		{name: "no selectors", policies: readsLabels, body: attributes(`"resourceAttributes": {"verb": "list", "version": "v1", "resource": "pods", "labelSelector": null}`),
			want: authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: `policy=p reason=Denied: it denies the request`}},
		{name: "a field of a later version is no way around a Deny", policies: never, body: attributes(`"later": {}, "resourceAttributes": {"verb": "list", "version": "v1", "resource": "pods", "later": 1}`),
			want: authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: `policy=p reason=Denied: it denies the request`}},
		{name: "a user without a name", policies: never, body: strings.Replace(reviewJSON, "alice", "", 1)},
		{name: "a long request is no way around a Deny", policies: never, body: strings.Replace(reviewJSON, `"c"`, `"`+strings.Repeat(`\u003c`, 43_000)+`"`, 1),
			want: authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: `policy=p reason=Denied: it denies the request`}},
		// The longest that kube-apiserver would serve: a megabyte, of which JSON escapes every byte.
		{name: "nor is the longest one", policies: never, body: strings.Replace(reviewJSON, `"c"`, `"`+strings.Repeat(`\u003c`, 1<<20)+`"`, 1), want: tooLong},
		// What kube-apiserver makes of a selector of 1 MiB: an object of every few bytes of it.
		{name: "a long selector is no way around a Deny", policies: never,
			body: attributes(`"resourceAttributes": {"verb": "list", "version": "v1", "resource": "pods", "labelSelector": {"requirements": [` +
				strings.Repeat(`{"key":"a","operator":"DoesNotExist"},`, 1<<20/3) + `{"key":"a","operator":"Exists"}]}}`), want: tooLong},
		{name: "nor one that a policy would allow", policies: always, body: strings.Replace(reviewJSON, "alice", strings.Repeat("a", 256<<10), 1), want: tooLong},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			send := listen(t, newDoor(t, publish(t, tc.policies), enforcesMachines))
			var last answer
			var got authorizationv1.SubjectAccessReview
			for range 10 {
				last, got = send(post(tc.body)), authorizationv1.SubjectAccessReview{}
				if err := json.Unmarshal([]byte(last.body), &got); err != nil {
					t.Fatal(err)
				}
				// A machine that is busy may not read a large body in time.
				if got.Status.Reason != reasonTooLate || !got.Status.Denied {
					break
				}
			}
			want := authorizationv1.SubjectAccessReview{
				TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"}, Status: tc.want,
			}
			if diff := cmp.Diff(want, got); diff != "" || last.code != http.StatusOK || last.header.Get("Content-Type") != "application/json" {
				t.Errorf("got %d, %v (-want +got):\n%s", last.code, last.header, diff)
			}
		})
	}
}

// TestBadRequests asks for an error that says what is wrong, and never for a decision.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	request := func(method, path, contentType, body string) *http.Request {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		return r
	}
	for _, tc := range []struct {
		name    string
		request *http.Request
		want    int
		message string
	}{
		{"GET", request("GET", frontdoor.AuthorizePath, "application/json", ""), 405, "by POST"},
		{"PUT", request("PUT", frontdoor.AuthorizePath, "application/json", reviewJSON), 405, "by POST"},
		{"no content type", request("POST", frontdoor.AuthorizePath, "", reviewJSON), 415, "application/json"},
		{"another content type", request("POST", frontdoor.AuthorizePath, "application/yaml", reviewJSON), 415, "application/json"},
		{"nothing", post(""), 400, "not valid JSON"},
		{"no object", post(`[]`), 400, "not valid JSON"},
		{"null", post(`null`), 400, "the body is not a SubjectAccessReview"},
		{"half an object", post(reviewJSON[:40]), 400, "not valid JSON"},
		{"two objects", post(reviewJSON + reviewJSON), 400, "not valid JSON"},
		{"a field of another type", post(strings.Replace(reviewJSON, `"alice"`, "1", 1)), 400, "not valid JSON"},
		{"depth", post(strings.Repeat("[", 100000)), 400, "not valid JSON"},
		{"no kind", post(strings.Replace(reviewJSON, `"kind": "SubjectAccessReview", `, "", 1)), 400, "the body is not a SubjectAccessReview"},
		{"another kind", post(strings.Replace(reviewJSON, "SubjectAccessReview", "SelfSubjectAccessReview", 1)), 400, "the body is not a SubjectAccessReview"},
		{"another version", post(strings.Replace(reviewJSON, "k8s.io/v1", "k8s.io/v1beta1", 1)), 400, "the body is not a SubjectAccessReview of authorization.k8s.io/v1"},
		{"a field name in another case", post(strings.Replace(reviewJSON, "resourceAttributes", "ResourceAttributes", 1)), 400, "exactly one"},
		{"no attributes", post(`{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "alice"}}`), 400, "exactly one"},
		{"attributes of both kinds", post(strings.Replace(reviewJSON, `"user"`, `"nonResourceAttributes": {"verb": "get", "path": "/"}, "user"`, 1)), 400, "exactly one"},
		{"another path", request("POST", "/webhooks/authorizex", "application/json", reviewJSON), 404, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := listen(t, newDoor(t, publish(t, always), enforcesMachines))(tc.request)
			if got.code != tc.want || !strings.Contains(got.body, tc.message) || strings.Contains(got.body, "allowed") || strings.Contains(got.body, "alice") {
				t.Errorf("got %d: %s\nwant %d: %s", got.code, got.body, tc.want, tc.message)
			}
			var status metav1.Status
			if err := json.Unmarshal([]byte(got.body), &status); tc.message != "" && (err != nil || status.Kind != "Status" || int(status.Code) != tc.want || status.Reason == "") {
				t.Errorf("got %s, %v, want a Status", got.body, err)
			}
		})
	}
}

// TestBrokenBody asks that a body which ends early is not taken for a review.
func TestBrokenBody(t *testing.T) {
	t.Parallel()
	recorder, request := httptest.NewRecorder(), post("")
	request.Body = io.NopCloser(io.MultiReader(strings.NewReader(reviewJSON), errReader{}))
	s := newListener(t, newDoor(t, publish(t, always), enforcesMachines))
	request.TLS = s.state(t, "kube-apiserver")
	s.handler.ServeHTTP(recorder, request)
	if recorder.Code != http.StatusBadRequest {
		t.Errorf("got %d %s", recorder.Code, recorder.Body)
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// TestUnavailable asks that what nobody can tell is an error that is not repeated.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	if got := listen(t, newDoor(t, publish(t, nil), enforcesMachines))(httptest.NewRequest(http.MethodGet, frontdoor.ReadyPath, nil)); got.code != http.StatusOK {
		t.Errorf("ready, with policies: got %+v", got)
	}
	ask := listen(t, newDoor(t, emptySource(), enforcesMachines))
	for _, request := range []*http.Request{post(reviewJSON), httptest.NewRequest(http.MethodGet, frontdoor.ReadyPath, nil)} {
		got := ask(request)
		if got.code != http.StatusServiceUnavailable || !strings.Contains(got.body, "policies have not been loaded yet") || got.header.Get("Retry-After") != "" {
			t.Errorf("%s: got %+v", request.URL.Path, got)
		}
	}
}

// TestPanic asks that a review whose decision panics is denied, because an error would be a matter of the failure
// policy, and that the next is answered.
func TestPanic(t *testing.T) {
	t.Parallel()
	panics := true
	ask := listen(t, newDoor(t, publish(t, onCondition), func(authorizer.Attributes) bool {
		if panics {
			panic("secret")
		}
		return true
	}))
	got := ask(post(reviewJSON))
	var review authorizationv1.SubjectAccessReview
	if err := json.Unmarshal([]byte(got.body), &review); err != nil {
		t.Fatal(err)
	}
	want := authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: reasonPanic}
	if diff := cmp.Diff(want, review.Status); diff != "" || got.code != http.StatusOK {
		t.Errorf("got %+v (-want +got):\n%s", got, diff)
	}
	panics = false
	if got := ask(post(reviewJSON)); got.code != http.StatusOK {
		t.Errorf("the next: got %+v", got)
	}
}

// TestMetrics counts what is answered. It must not be parallel: others are answered too.
func TestMetrics(t *testing.T) {
	frontdoor.RegisterMetrics()
	legacyregistry.Reset()
	allowing, denying := listen(t, newDoor(t, publish(t, always), enforcesMachines)), listen(t, newDoor(t, publish(t, never), enforcesMachines))
	allowing(post(reviewJSON))
	allowing(post(reviewJSON))
	denying(post(reviewJSON))
	allowing(post(""))
	allowing(post(strings.Repeat(" ", 256<<10) + reviewJSON))
	const want = `
# HELP proviso_webhook_authorize_refusals_total [ALPHA] Number of requests that the front door did not answer with a decision, by HTTP status code. kube-apiserver then applies its failure policy.
# TYPE proviso_webhook_authorize_refusals_total counter
proviso_webhook_authorize_refusals_total{code="400"} 1
# HELP proviso_webhook_authorize_requests_total [ALPHA] Number of reviews that the front door answered, by decision: allowed, denied, no_opinion or conditional (the answer has the conditions).
# TYPE proviso_webhook_authorize_requests_total counter
proviso_webhook_authorize_requests_total{decision="allowed"} 2
proviso_webhook_authorize_requests_total{decision="denied"} 2
# HELP proviso_webhook_authorize_undecided_total [ALPHA] Number of reviews that the front door denied without a decision of the policies, by cause: too_long, no_slot (too many reviews at the same time), too_late, or panic (a mistake in Proviso, which its log shows).
# TYPE proviso_webhook_authorize_undecided_total counter
proviso_webhook_authorize_undecided_total{cause="too_long"} 1
`
	if err := testutil.GatherAndCompare(legacyregistry.DefaultGatherer, strings.NewReader(want),
		"proviso_webhook_authorize_requests_total", "proviso_webhook_authorize_refusals_total", "proviso_webhook_authorize_undecided_total"); err != nil {
		t.Error(err)
	}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "proviso_webhook_authorize_duration_seconds" && len(family.GetMetric()) == 2 {
			return
		}
	}
	t.Error("durations by decision are not measured")
}
