/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/proviso-authz/proviso/test/testutil/kepwebhook"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// TestWebhookOfTheKEP has a webhook decide that was written from the text of KEP-5681 alone, by an author who had not seen Proviso. The rows
// are the author's, too.
func TestWebhookOfTheKEP(t *testing.T) {
	t.Parallel()
	const evaluated = "evaluated"
	var evaluations atomic.Int64
	s := newSeparate(t, "kep", "--enable-demo-api", "--feature-gates=UpstreamConditionalDecisions=true", "--authorization-config="+kepConfiguration(t, &evaluations))
	table, runner := readRequests(t, "webhook-kep.yaml", evaluated), s.runner()
	runner.Run(t, table.Rows["before"])
	runner.DryRun = true
	runner.After = func(row *requests.Row, _ *requests.Answer, _ []*admissionv1.AdmissionRequest) {
		if got := evaluations.Swap(0) > 0; got != row.Is(evaluated) {
			t.Errorf("%s: the webhook has evaluated: %t, want %t", row, got, row.Is(evaluated))
		}
	}
	runner.Run(t, table.Rows["all"])
}

// kepConfiguration serves webhooks, and returns a configuration with them.
func kepConfiguration(t *testing.T, evaluations *atomic.Int64) (file string) {
	t.Helper()
	handler := kepwebhook.NewHandler()
	mux := http.NewServeMux()
	mux.Handle("POST /authorize", handler)
	mux.HandleFunc("POST /conditions", func(w http.ResponseWriter, r *http.Request) {
		evaluations.Add(1)
		handler.ServeHTTP(w, r)
	})
	mux.HandleFunc("POST /later", func(w http.ResponseWriter, r *http.Request) {
		review := authorizationv1.SubjectAccessReview{}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: true}
		_ = json.NewEncoder(w).Encode(review)
	})
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	webhook := func(name, path, match, conditions string) webhookAuthorizer {
		return webhookAuthorizer{name: name, clusters: webhooksOf(server, path, "/conditions"), settings: fmt.Sprintf(`
    subjectAccessReviewVersion: v1
    failurePolicy: Deny
    matchConditionSubjectAccessReviewVersion: v1
    matchConditions: [{expression: %q}]
    %s`, match, conditions)}
	}
	return writeAuthorizationConfig(t,
		webhook("kep.example.com", "/authorize", `!("without" in request.groups)`, "conditionsEndpointKubeConfigContext: conditions\n    authorizationConditionsReviewVersion: v1alpha1"),
		webhook("without.example.com", "/authorize", `"without" in request.groups`, ""),
		webhook("later.example.com", "/later", `"later" in request.groups`, ""))
}
