/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package integration_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/util/cert"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// reviewers lets all users create reviews, and one create SubjectAccessReviews.
var reviewers = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if strings.HasSuffix(a.GetResource(), "reviews") && (a.GetResource() != "subjectaccessreviews" || a.GetUser().GetName() == "reviewer") {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
})

// TestFailuresOfWebhooksShowNoServer has every answer about a webhook that fails: it names the webhook or says that conditions have no value, and has neither
// the address of the webhook nor what the webhook answered.
func TestFailuresOfWebhooksShowNoServer(t *testing.T) {
	t.Parallel()
	body := func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "failed at https://"+r.Host+r.URL.Path, http.StatusInternalServerError)
	}
	stops := func(t *testing.T, s *httptest.Server) place {
		t.Helper()
		s.Close()
		return placeOf(s)
	}
	otherCA := func(t *testing.T, s *httptest.Server) place {
		t.Helper()
		ca, _, err := cert.GenerateSelfSignedCertKey("other.example.com", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return place{s.URL, ca}
	}
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		at     func(*testing.T, *httptest.Server) place
		want   string
	}{
		{name: "a closed port", answer: body, at: stops, want: "it cannot be reached"},
		{name: "500 with a body", answer: body, want: "it answered 500 Internal Server Error"},
		{name: "a certificate of another CA", answer: body, at: otherCA, want: "a TLS connection with it cannot be made"},
		{name: "a timeout", answer: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, want: "it did not answer in time"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // the server notices only then that the client has gone
				tc.answer(w, r)
			}))
			t.Cleanup(s.Close)
			opaque := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `{"status":{"conditionsChain":[{"authorizerName":"opaque","conditions":[{"id":"example.com/c","effect":"Allow","type":"example.com/opaque"}]}]}}`)
			}))
			t.Cleanup(opaque.Close)
			at := placeOf(s)
			if tc.at != nil {
				at = tc.at(t, s)
			}
			allows := authorization.Member{Name: "reviewers", Decider: authorization.DeciderOf(reviewers)}
			decides := serverOf(t, allows, memberAt(t, "broken", "500ms", at, at))
			evaluates := serverOf(t, allows, memberAt(t, "broken", "500ms", placeOf(opaque), at))
			const request = `"resourceAttributes":{"verb":"create","group":"demo.proviso.dev","version":"v1alpha1","resource":"virtualmachines","namespace":"n"}`
			const machine = `{"apiVersion":"demo.proviso.dev/v1alpha1","kind":"VirtualMachine","metadata":{"name":"m"},"spec":{"image":"debian-12"}}`
			const sets = `[{"authorizerName":"broken","failureMode":"Deny","conditions":[{"id":"example.com/c","effect":"Allow","type":"example.com/opaque"}]}]`
			review := func(kind, spec string) string {
				return fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1alpha1","kind":%q,"spec":{%s}}`, kind, spec)
			}
			named := `webhook "broken": ` + tc.want
			for what, got := range map[string]struct {
				answer *httptest.ResponseRecorder
				want   string
			}{
				"a review of one's own": {post(decides, "alice", group+"selfsubjectaccessreviews", "application/json", review("SelfSubjectAccessReview", request)), named},
				"a review with conditions": {post(decides, "alice", group+"selfsubjectaccessreviews", "application/json",
					review("SelfSubjectAccessReview", request+`,"conditionalAuthorization":{"mode":"HumanReadable"}`)), named},
				"a review of a namespace": {post(decides, "alice", group+"namespaces/n/localsubjectaccessreviews", "application/json",
					fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"LocalSubjectAccessReview","metadata":{"namespace":"n"},"spec":{"user":"bob",%s}}`, request)), named},
				"an impersonation": {post(decides, "alice", group+"impersonationreviews", "application/json", impersonation(`"impersonate":{"username":"bob"},`+request)), named},
				"a read":           {send(decides, "alice", http.MethodGet, virtualMachines, "application/json", ""), named},
				"a path":           {send(decides, "alice", http.MethodGet, "/metrics", "application/json", ""), named},
				"a write":          {send(decides, "alice", http.MethodPost, virtualMachines+"?dryRun=All", "application/json", machine), named},
				"an evaluation": {post(evaluates, "reviewer", group+"authorizationconditionsreviews", "application/json",
					acr(sets, `,"operation":"CREATE","userInfo":{"username":"alice"},"object":`+machine)), named},
				"a write on conditions": {send(evaluates, "alice", http.MethodPost, virtualMachines+"?dryRun=All", "application/json", machine), "its condition could not be evaluated"},
			} {
				text := fmt.Sprint(got.answer.Header(), strings.ReplaceAll(got.answer.Body.String(), `\"`, `"`))
				if !strings.Contains(text, got.want) {
					t.Errorf("%s: got %d %s, want %s", what, got.answer.Code, text, got.want)
				}
				for _, secret := range []string{"127.0.0.1", "https:", strings.TrimPrefix(s.URL, "https://"), "dial tcp", "x509", "failed at"} {
					if strings.Contains(text, secret) {
						t.Errorf("%s: the answer has %q: %s", what, secret, text)
					}
				}
			}
		})
	}
}
