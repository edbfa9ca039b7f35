/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
)

func reviewOf(tb testing.TB, request *admissionv1.AdmissionRequest) string {
	tb.Helper()
	text, err := json.Marshal(&admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request})
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

func post(handler http.Handler, body io.Reader, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/webhooks/admit/0", body)
	r.Header.Set("Content-Type", "application/json")
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

func responseOf(tb testing.TB, w *httptest.ResponseRecorder) *admissionv1.AdmissionResponse {
	tb.Helper()
	review := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(w.Body.Bytes(), review); err != nil || w.Code != http.StatusOK || review.Response == nil || review.Kind != "AdmissionReview" || review.APIVersion != "admission.k8s.io/v1" {
		tb.Fatalf("got %d %s: %v", w.Code, w.Body, err)
	}
	return review.Response
}

// TestHandler has reviews that are decided: the answer has their uid, and a refusal its reason.
func TestHandler(t *testing.T) {
	t.Parallel()
	handler := innerdoor.NewHandler(deciderOf(t, sourceOf(t, []policy{{effect: allow, verbs: []string{"create"}, condition: isDev}})), nil)
	if got := responseOf(t, post(handler, strings.NewReader(reviewOf(t, create(devClaim))), nil)); !got.Allowed || got.UID != "1" || got.Result != nil {
		t.Errorf("got %+v, want it allowed", got)
	}
	for name, request := range map[string]*admissionv1.AdmissionRequest{
		"the condition is false": create(prodClaim), "another verb": update(devClaim, devClaim), "a connection": claim(admissionv1.Connect, devClaim, ""),
	} {
		got := responseOf(t, post(handler, strings.NewReader(reviewOf(t, request)), nil))
		if got.Allowed || got.UID != "1" || got.Result == nil || got.Result.Code != http.StatusForbidden || got.Result.Reason != metav1.StatusReasonForbidden {
			t.Errorf("%s: got %+v, want 403", name, got)
		}
		if name == "the condition is false" && got.Result.Message != "policy=p0 reason=NotMet: failed part: "+isDev {
			t.Errorf("got the message %q", got.Result.Message)
		}
	}
}

// TestHandlerRefuses has bodies that are no reviews: no answer allows, and none quotes the body.
func TestHandlerRefuses(t *testing.T) {
	t.Parallel()
	handler := innerdoor.NewHandler(deciderOf(t, sourceOf(t, []policy{{effect: allow, verbs: []string{"*"}}})), nil)
	good := reviewOf(t, create(devClaim))
	replaced := func(old, with string) string { return strings.Replace(good, old, with, 1) }
	for _, tc := range []struct {
		name, body string
		change     func(*http.Request)
		want       int
	}{
		{name: "no body", want: http.StatusBadRequest},
		{name: "null", body: "null", want: http.StatusBadRequest},
		{name: "not JSON", body: `{"s3cr3t`, want: http.StatusBadRequest},
		{name: "a list", body: `["s3cr3t"]`, want: http.StatusBadRequest},
		{name: "two reviews", body: good + good, want: http.StatusBadRequest},
		{name: "v1beta1", body: replaced("admission.k8s.io/v1", "admission.k8s.io/v1beta1"), want: http.StatusBadRequest},
		{name: "another kind", body: replaced("AdmissionReview", "SubjectAccessReview"), want: http.StatusBadRequest},
		{name: "no request", body: `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}`, want: http.StatusBadRequest},
		{name: "no uid", body: replaced(`"uid":"1"`, `"uid":""`), want: http.StatusBadRequest},
		{name: "a response", body: `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "1", "allowed": true}}`, want: http.StatusBadRequest},
		{name: "too long", body: `{"a": "` + strings.Repeat("s3cr3t", 3<<20) + `"}`, want: http.StatusRequestEntityTooLarge},
		{name: "GET", body: good, change: func(r *http.Request) { r.Method = http.MethodGet }, want: http.StatusMethodNotAllowed},
		{name: "YAML", body: good, change: func(r *http.Request) { r.Header.Set("Content-Type", "application/yaml") }, want: http.StatusUnsupportedMediaType},
		{name: "no type", body: good, change: func(r *http.Request) { r.Header.Del("Content-Type") }, want: http.StatusUnsupportedMediaType},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := post(handler, strings.NewReader(tc.body), tc.change)
			if got.Code != tc.want || strings.Contains(got.Body.String(), "s3cr3t") || strings.Contains(got.Body.String(), "allowed") {
				t.Errorf("got %d %s, want %d", got.Code, got.Body, tc.want)
			}
		})
	}
}

// TestHandlerIsBounded lets one user send writes that take long: after a while they are refused, others are decided, and a write
// that is not decided in time is refused.
func TestHandlerIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := deciderFunc(func(ctx context.Context, a authorizer.Attributes) authorization.Decision {
			if a.GetUser().GetName() == "alice" {
				<-ctx.Done()
			}
			return authorization.Allow("", nil)
		})
		chain, err := authorization.NewChain(authorization.Member{Name: "slow", Decider: slow})
		if err != nil {
			t.Fatal(err)
		}
		handler := innerdoor.NewHandler(&innerdoor.Decider{Chain: chain}, nil)
		codes := make(chan int32, 100)
		var senders sync.WaitGroup
		review := reviewOf(t, create(devClaim))
		for range cap(codes) {
			senders.Go(func() {
				response := responseOf(t, post(handler, strings.NewReader(review), nil))
				if response.Allowed {
					t.Error("a write that was not decided in time is allowed")
					return
				}
				codes <- response.Result.Code
			})
		}
		synctest.Wait()
		started := time.Now()
		if got := responseOf(t, post(handler, strings.NewReader(reviewOf(t, of(create(devClaim), func(r *admissionv1.AdmissionRequest) { r.UserInfo.Username = "bob" }))), nil)); !got.Allowed || time.Since(started) > 0 {
			t.Errorf("bob waits for alice: got %+v after %s", got, time.Since(started))
		}
		senders.Wait()
		close(codes)
		counts := map[int32]int{}
		for code := range codes {
			counts[code]++
		}
		if counts[http.StatusGatewayTimeout] == 0 || counts[http.StatusTooManyRequests] == 0 || counts[http.StatusGatewayTimeout]+counts[http.StatusTooManyRequests] != cap(codes) {
			t.Errorf("got %v, want some 504 and 429 alone", counts)
		}
	})
}

// FuzzHandler has any body: never an answer that allows, because no policy does, and no 500.
func FuzzHandler(f *testing.F) {
	for _, request := range []*admissionv1.AdmissionRequest{create(devClaim), update(devClaim, prodClaim), remove(devClaim), nil} {
		f.Add([]byte(reviewOf(f, request)))
	}
	handler := innerdoor.NewHandler(deciderOf(f, sourceOf(f, nil)), nil)
	f.Fuzz(func(t *testing.T, body []byte) {
		got := post(handler, strings.NewReader(string(body)), nil)
		if got.Code >= http.StatusInternalServerError {
			t.Errorf("got %d %s", got.Code, got.Body)
		}
		if got.Code == http.StatusOK && responseOf(t, got).Allowed {
			t.Errorf("got %s, want no answer that allows", got.Body)
		}
	})
}
