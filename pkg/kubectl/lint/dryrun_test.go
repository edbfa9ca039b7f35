/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package lint_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proviso-authz/proviso/test/testutil/standin"
)

// TestDryRun prints what the server warns of when a policy is created, beside what lint finds itself, and nothing twice.
func TestDryRun(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: "policy.proviso.dev", Resource: "authorizationpolicies"}
	input := policy("team/q", "Allow", join(alice, strings.Replace(pods, "create, update, patch", "udpate", 1)))
	for _, tc := range []struct {
		name     string
		warnings []string
		err      error
		want     []string // further findings
		stderr   string
		code     int
	}{
		{name: "nothing"},
		{name: "another one", warnings: []string{"spec: said by the server"}, want: []string{"spec: said by the server"}},
		{name: "the policy exists", warnings: []string{"spec: said by the server"}, err: apierrors.NewAlreadyExists(resource, "q"), want: []string{"spec: said by the server"}},
		{name: "not permitted", err: apierrors.NewForbidden(resource, "", nil), stderr: "Warning: what the server warns of is not known: "},
		{name: "no such namespace", err: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "team"), stderr: `Warning: what the server warns of is not known: namespaces "team" not found`},
		{name: "refused", err: apierrors.NewInvalid(schema.GroupKind{Kind: "AuthorizationPolicy"}, "q", nil), stderr: `error: standard input, document 1: AuthorizationPolicy "team/q": the server refuses the policy: `, code: 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			lint := func(warnings []string) (messages []string, errOut string, code int) {
				server := standin.New(t, standin.Discovery(metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod", Namespaced: true, Verbs: []string{"create"}}}}), standin.Answers{
					"GET /openapi/v3": json.RawMessage(`{"paths": {}}`),
					"POST /apis/policy.proviso.dev/v1alpha1/namespaces/team/authorizationpolicies": standin.Handler(func(r *http.Request, body []byte) any {
						if r.URL.Query().Get("dryRun") != "All" {
							t.Error("the request is not a dry run")
						}
						var answer any = json.RawMessage(body)
						if tc.err != nil {
							answer = tc.err
						}
						return standin.Warned{Warnings: warnings, Answer: answer}
					}),
				})
				out, errOut, code := run(t, input, "-f", "-", "--cluster", "-o", "json", "--kubeconfig=/dev/null", "--server="+server.URL)
				var findings []struct{ Message string }
				if err := json.Unmarshal([]byte(out), &findings); err != nil && code != 2 {
					t.Fatalf("%v: %s%s", err, out, errOut)
				}
				for _, f := range findings {
					messages = append(messages, f.Message)
				}
				return messages, errOut, code
			}
			found, errOut, code := lint(tc.warnings)
			if tc.code == 2 {
				if code != 2 || !strings.HasPrefix(errOut, tc.stderr) {
					t.Errorf("got %d %s", code, errOut)
				}
				return
			}
			if code != 1 || len(found) != 1+len(tc.want) || !strings.HasPrefix(errOut, tc.stderr) || strings.Join(found[1:], "\n") != strings.Join(tc.want, "\n") {
				t.Fatalf("got %d %q %s, want one and then %q", code, found, errOut, tc.want)
			}
			// The server finds what lint has found, in the same words or cut.
			for _, again := range []string{found[0], found[0][:len(found[0])-5] + "…"} {
				if repeated, _, _ := lint(append([]string{again}, tc.warnings...)); strings.Join(repeated, "\n") != strings.Join(found, "\n") {
					t.Errorf("got %q, want %q", repeated, found)
				}
			}
		})
	}
}

// TestNotAsked ends with 1 if the server has Proviso and the namespace, and was not asked, so that a pipeline does not take silence for consent.
func TestNotAsked(t *testing.T) {
	t.Parallel()
	unknown := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Details: &metav1.StatusDetails{
		Causes: []metav1.StatusCause{{Type: metav1.CauseTypeUnexpectedServerResponse}},
	}}}
	for _, tc := range []struct {
		name    string
		err     error
		code    int
		warning string
	}{
		{name: "asked"},
		{name: "not permitted", err: apierrors.NewForbidden(schema.GroupResource{}, "", nil), code: 1, warning: "Warning: what the server warns of is not known: "},
		{name: "no such namespace", err: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "team"), warning: `Warning: what the server warns of is not known: namespaces "team" not found`},
		{name: "a cluster without Proviso", err: unknown, warning: "Warning: what the server warns of is not known: the cluster does not serve policy.proviso.dev/v1alpha1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := standin.New(t, standin.Discovery(metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod", Namespaced: true, Verbs: []string{"create", "update", "patch"}}}}), standin.Answers{
				"GET /openapi/v3": json.RawMessage(`{"paths": {}}`),
				"POST /apis/policy.proviso.dev/v1alpha1/namespaces/team/authorizationpolicies": standin.Handler(func(_ *http.Request, body []byte) any {
					if tc.err != nil {
						return tc.err
					}
					return json.RawMessage(body)
				}),
			})
			out, errOut, code := run(t, policy("team/q", "Allow", join(alice, pods)), "-f", "-", "--cluster", "--kubeconfig=/dev/null", "--server="+server.URL)
			if code != tc.code || out != "" || !strings.HasPrefix(errOut, tc.warning) || tc.warning == "" && errOut != "" {
				t.Errorf("got %d %q %q", code, out, errOut)
			}
		})
	}
}
