/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// byUser decides by the name of the user.
type byUser struct{}

func (byUser) Decide(ctx context.Context, a authorizer.Attributes) authorization.Decision {
	switch a.GetUser().GetName() {
	case "allowed":
		return authorization.Allow("", nil)
	case "panics":
		panic("s3cr3t")
	case "late":
		<-ctx.Done()
	}
	return authorization.NoOpinion("", nil)
}

// TestInnerDoorWritesAreCounted has one review for each outcome, and compares the metrics. It must not run beside other tests.
func TestInnerDoorWritesAreCounted(t *testing.T) {
	chain, err := authorization.NewChain(authorization.Member{Name: "by-user", Decider: byUser{}})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := NewHandler(HandlerConfig{Decider: &Decider{Chain: chain}, Digest: "d"})
	if err != nil {
		t.Fatal(err)
	}
	if !handler.memory.TryAcquire(maxBytesInFlight - smallReviewBytes) {
		t.Fatal("the memory is taken")
	}
	mux := http.NewServeMux()
	mux.Handle("/{"+DigestWildcard+"}", handler)
	const review = `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1", "operation": "CREATE", "userInfo": {"username": "USER"},
		"kind": {"version": "v1", "kind": "Pod"}, "requestKind": {"version": "v1", "kind": "Pod"},
		"resource": {"version": "v1", "resource": "pods"}, "requestResource": {"version": "v1", "resource": "pods"}, "object": {}}}`
	of := func(user string) string { return strings.Replace(review, "USER", user, 1) }
	for _, tc := range []struct {
		name, path, body string
		counter          *metrics.CounterVec
		label            string
	}{
		{name: "allowed", path: "/d", body: of("allowed"), counter: requests, label: decisionAllowed},
		{name: "denied", path: "/d", body: of("nobody"), counter: requests, label: decisionDenied},
		{name: "another manifest", path: "/e", body: of("allowed"), counter: undecided, label: causeOtherManifest},
		{name: "another write", path: "/d", body: strings.Replace(of("allowed"), "CREATE", "CONNECT", 1), counter: undecided, label: causeOtherWrite},
		{name: "a panic", path: "/d", body: of("panics"), counter: undecided, label: causePanic},
		{name: "late", path: "/d?timeout=10ms", body: of("late"), counter: undecided, label: causeTooLate},
		{name: "no memory", path: "/d?timeout=10ms", body: of("allowed") + strings.Repeat(" ", 2*smallReviewBytes), counter: undecided, label: causeNoMemory},
		{name: "no memory, by the status", path: "/d?timeout=10ms", body: of("allowed") + strings.Repeat(" ", 2*smallReviewBytes), counter: refusals, label: "503"},
		{name: "no review", path: "/d", body: "{}", counter: refusals, label: "400"},
	} {
		before, err := testutil.GetCounterMetricValue(tc.counter.WithLabelValues(tc.label))
		if err != nil {
			t.Fatal(err)
		}
		decided := decisions(t)
		r := httptest.NewRequest(http.MethodPost, tc.path, strings.NewReader(tc.body))
		r.Header.Set("Content-Type", mediaType)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		after, err := testutil.GetCounterMetricValue(tc.counter.WithLabelValues(tc.label))
		if err != nil || after != before+1 {
			t.Errorf("%s: counted %v times: %v; the answer is %d %s", tc.name, after-before, err, w.Code, w.Body)
		}
		if isDecision := tc.counter == requests; (decisions(t) > decided) != isDecision {
			t.Errorf("%s: it counts as a decision: %t, want %t", tc.name, !isDecision, isDecision)
		}
		if strings.Contains(w.Body.String(), `"allowed":true`) != (tc.name == "allowed") {
			t.Errorf("%s: got %s", tc.name, w.Body)
		}
	}
}

// decisions returns the number of decisions that have been counted.
func decisions(t *testing.T) (sum float64) {
	t.Helper()
	for _, label := range []string{decisionAllowed, decisionDenied} {
		count, err := testutil.GetCounterMetricValue(requests.WithLabelValues(label))
		if err != nil {
			t.Fatal(err)
		}
		sum += count
	}
	return sum
}
