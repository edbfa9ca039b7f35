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
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
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

const digest = "0123456789abcdef0123456789abcdef"

// handlerOf returns a handler behind the pattern under which it is served.
func handlerOf(tb testing.TB, decider *innerdoor.Decider) http.Handler {
	tb.Helper()
	handler, err := innerdoor.NewHandler(innerdoor.HandlerConfig{Decider: decider, Digest: digest})
	if err != nil {
		tb.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/webhooks/admit/{"+innerdoor.DigestWildcard+"}", handler)
	return mux
}

func post(handler http.Handler, body io.Reader, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/webhooks/admit/"+digest, body)
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
	handler := handlerOf(t, deciderOf(t, sourceOf(t, []policy{{effect: allow, verbs: []string{"create"}, condition: isDev}})))
	if got := responseOf(t, post(handler, strings.NewReader(reviewOf(t, create(devClaim))), nil)); !got.Allowed || got.UID != "1" || got.Result != nil || got.AuditAnnotations["decision"] != "allow" || got.AuditAnnotations["condition"] != "cluster.policy.proviso.dev/p0" {
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
		causes := []metav1.StatusCause{{Type: "NotMet", Message: "policy=p0: failed part: " + isDev}, {Type: innerdoor.CauseManifest, Message: digest}}
		if name == "the condition is false" && !slices.Equal(got.Result.Details.Causes, causes) {
			t.Errorf("got the causes %+v, want %+v", got.Result.Details.Causes, causes)
		}
		if name == "the condition is false" && (got.AuditAnnotations["decision"] != "deny" || got.AuditAnnotations["reason"] != got.Result.Message) {
			t.Errorf("got the annotations %v", got.AuditAnnotations)
		}
	}
}

// TestHandlerRefuses has bodies that are no reviews: no answer allows, and none quotes the body.
func TestHandlerRefuses(t *testing.T) {
	t.Parallel()
	handler := handlerOf(t, deciderOf(t, sourceOf(t, []policy{{effect: allow, verbs: []string{"*"}}})))
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
		handler := handlerOf(t, &innerdoor.Decider{Chain: chain})
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

// TestCanaries: canaries are refused by every manifest, with the digest in the URL, and policies are not asked.
func TestCanaries(t *testing.T) {
	t.Parallel()
	handler := handlerOf(t, deciderOf(t, sourceOf(t, []policy{{effect: allow, verbs: []string{"*"}, resource: "*"}})))
	nonce := innerdoor.NewNonce()
	request := of(create(devClaim), func(r *admissionv1.AdmissionRequest) {
		r.UserInfo = authenticationv1.UserInfo{Username: innerdoor.CanaryUser, Extra: map[string]authenticationv1.ExtraValue{innerdoor.CanaryExtra: {nonce}}}
	})
	for _, manifest := range []string{digest, strings.Repeat("f", len(digest))} {
		got := responseOf(t, post(handler, strings.NewReader(reviewOf(t, request)), func(r *http.Request) { r.URL.Path = "/webhooks/admit/" + manifest }))
		if known, ok := innerdoor.CanaryDigestOf(got.Result, nonce); got.Allowed || !ok || known != manifest {
			t.Errorf("%s: got %+v %+v with the digest %q, want a refusal with the digest of the URL", manifest, got, got.Result, known)
		}
	}
}

// TestOtherManifests has reviews that come by another manifest, or by a URL without a digest. A policy allows all of them.
func TestOtherManifests(t *testing.T) {
	t.Parallel()
	handler := handlerOf(t, deciderOf(t, sourceOf(t, []policy{{effect: allow, verbs: []string{"create"}}})))
	review := reviewOf(t, create(devClaim))
	other := strings.Repeat("f", len(digest))
	for path, want := range map[string]string{other: other, strings.ToUpper(digest): strings.ToUpper(digest), digest[:31]: digest[:31], digest + "0": digest, digest + "%0A": digest, strings.Repeat("f", 5000): other} {
		got := responseOf(t, post(handler, strings.NewReader(review), func(r *http.Request) {
			r.URL.Path = "/webhooks/admit/" + strings.ReplaceAll(path, "%0A", "\n")
		}))
		causes := []metav1.StatusCause{{Type: innerdoor.CauseOtherManifest, Message: want}}
		if got.Allowed || got.UID != "1" || got.Result.Code != http.StatusForbidden || !strings.Contains(got.Result.Message, digest) || !slices.Equal(got.Result.Details.Causes, causes) {
			t.Errorf("%.40s: got %+v %+v, want 403 that has both digests", path, got, got.Result)
		}
	}
	for _, path := range []string{"/webhooks/admit/", "/webhooks/admit", "/webhooks/admit/" + digest + "/a", "/webhooks/admit//" + digest} {
		if got := post(handler, strings.NewReader(review), func(r *http.Request) { r.URL.Path = path }); got.Code < 300 {
			t.Errorf("%s: got %d %s, want no answer", path, got.Code, got.Body)
		}
	}
}

// TestLongReviewsAreBounded holds long reviews in memory: when there are too many, the next one is refused before it is read, a
// short one is not, and memory is free again when they have been decided.
func TestLongReviewsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		handler := handlerOf(t, deciderOf(t, sourceOf(t, []policy{{effect: allow, verbs: []string{"create"}}})))
		var senders sync.WaitGroup
		writers := make([]*io.PipeWriter, 4)
		for i := range writers { // their length is unknown
			var body *io.PipeReader
			body, writers[i] = io.Pipe()
			senders.Go(func() {
				if got := post(handler, body, nil); got.Code != http.StatusOK || !responseOf(t, got).Allowed {
					t.Errorf("a long review: got %d %s", got.Code, got.Body)
				}
			})
		}
		synctest.Wait()
		long := strings.Replace(devClaim, `"c"`, `"c", "annotations": {"a": "`+strings.Repeat("x", 70<<10)+`"}`, 1)
		body := &countingReader{Reader: strings.NewReader(reviewOf(t, create(long)))}
		if got := post(handler, body, func(r *http.Request) { r.ContentLength = int64(body.Len()) }); got.Code != http.StatusServiceUnavailable || body.read > 0 {
			t.Errorf("a long review too many: got %d after %d bytes, want 503 before it is read", got.Code, body.read)
		}
		if got := post(handler, strings.NewReader(reviewOf(t, create(devClaim))), nil); got.Code != http.StatusOK || !responseOf(t, got).Allowed {
			t.Errorf("a short review: got %d %s", got.Code, got.Body)
		}
		for _, w := range writers {
			_, _ = io.WriteString(w, reviewOf(t, create(devClaim)))
			_ = w.Close()
		}
		senders.Wait()
		if got := post(handler, strings.NewReader(reviewOf(t, create(long))), nil); got.Code != http.StatusOK || !responseOf(t, got).Allowed {
			t.Errorf("a long review afterwards: got %d %s", got.Code, got.Body)
		}
	})
}

type countingReader struct {
	*strings.Reader
	read int
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	return n, err
}

// TestTimeoutOfTheClient has a kube-apiserver that waits for a shorter time.
func TestTimeoutOfTheClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		waits := deciderFunc(func(ctx context.Context, _ authorizer.Attributes) authorization.Decision {
			<-ctx.Done()
			return authorization.Allow("", nil)
		})
		chain, err := authorization.NewChain(authorization.Member{Name: "waits", Decider: waits})
		if err != nil {
			t.Fatal(err)
		}
		handler := handlerOf(t, &innerdoor.Decider{Chain: chain})
		for query, want := range map[string]time.Duration{"timeout=1s": 800 * time.Millisecond, "timeout=30s": 4 * time.Second, "timeout=-1s": 4 * time.Second, "timeout=a": 4 * time.Second} {
			started := time.Now()
			got := responseOf(t, post(handler, strings.NewReader(reviewOf(t, create(devClaim))), func(r *http.Request) { r.URL.RawQuery = query }))
			if took := time.Since(started); got.Allowed || got.Result.Code != http.StatusGatewayTimeout || took != want {
				t.Errorf("%s: got %+v after %s, want 504 after %s", query, got.Result, took, want)
			}
		}
	})
}

// FuzzHandler has any body: never an answer that allows, because no policy does, and no 500.
func FuzzHandler(f *testing.F) {
	for _, request := range []*admissionv1.AdmissionRequest{create(devClaim), update(devClaim, prodClaim), remove(devClaim), nil} {
		f.Add([]byte(reviewOf(f, request)))
	}
	for _, review := range recorded(f) {
		f.Add(review)
	}
	isDana := func(body []byte) bool {
		review := &admissionv1.AdmissionReview{}
		return json.Unmarshal(body, review) == nil && review.Request != nil && review.Request.UserInfo.Username == "dana"
	}
	handler, closed := handlerOf(f, deciderOf(f, recordedSource(f))), handlerOf(f, deciderOf(f, sourceOf(f, nil)))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, h := range []http.Handler{handler, closed} {
			got := post(h, strings.NewReader(string(body)), nil)
			if got.Code >= http.StatusInternalServerError {
				t.Errorf("got %d %s", got.Code, got.Body)
			}
			if got.Code == http.StatusOK && responseOf(t, got).Allowed && (h == closed || !isDana(body)) {
				t.Errorf("got %s, want no answer that allows", got.Body)
			}
		}
	})
}
