/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package integration_test

import (
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/test/testutil/server"
)

// TestDuplicateFieldsOfDecisions sends reviews in the form that is proposed for Kubernetes, some with a Deny that a later field of the same name
// replaces. Without fieldValidation=Strict the server notices only duplicates within a decision or an admissionRequest that is JSON: it warns
// of the others, as for every kind.
func TestDuplicateFieldsOfDecisions(t *testing.T) {
	t.Parallel()
	s := server.New(t, server.Config{Authorizer: rules, Extra: func(e *apiserver.ExtraConfig) { e.UpstreamDecisions = true }})
	const (
		allow   = `{"type":"ConditionsMap","conditionsMap":{"allowConditions":[{"id":"example.com/c","type":"authorizer.kubernetes.io/cel","condition":"true"}]}}`
		deny    = `{"type":"ConditionsMap","conditionsMap":{"denyConditions":[{"id":"example.com/d","type":"authorizer.kubernetes.io/cel","condition":"true"}]}}`
		request = `{"uid":"7","operation":"CREATE","object":{}}`
	)
	inJSON := func(members string) string {
		return `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"AuthorizationConditionsReview","request":{` + members + `}}`
	}
	inYAML := func(lists string) string {
		return "apiVersion: authorization.k8s.io/v1alpha1\nkind: AuthorizationConditionsReview\nrequest:\n  admissionRequest: " + request +
			"\n  decision:\n    type: ConditionsMap\n    conditionsMap:\n" + lists +
			"      allowConditions: [{id: example.com/c, type: authorizer.kubernetes.io/cel, condition: \"true\"}]\n"
	}
	const yamlDeny = "      denyConditions: [{id: example.com/d, type: authorizer.kubernetes.io/cel, condition: \"true\"}]\n"
	for _, tc := range []struct {
		name, mediaType, body string
		want, wantStrict      int
		warns                 bool
	}{
		{name: "JSON, no field twice", mediaType: "application/json", body: inJSON(`"decision":` + allow + `,"admissionRequest":` + request), want: 201, wantStrict: 201},
		{name: "JSON, the decision twice", mediaType: "application/json", body: inJSON(`"decision":` + deny + `,"decision":` + allow + `,"admissionRequest":` + request), want: 201, wantStrict: 400, warns: true},
		{name: "JSON, a field of the decision twice", mediaType: "application/json", body: inJSON(`"decision":` + strings.Replace(allow, `{"allow`, `{"denyConditions":[],"denyConditions":[],"allow`, 1) + `,"admissionRequest":` + request), want: 400, wantStrict: 400},
		{name: "JSON, a field of the admissionRequest twice", mediaType: "application/json", body: inJSON(`"decision":` + allow + `,"admissionRequest":` + strings.Replace(request, `{`, `{"uid":"6",`, 1)), want: 400, wantStrict: 400},
		{name: "YAML, no field twice", mediaType: "application/yaml", body: inYAML(""), want: 201, wantStrict: 201},
		{name: "YAML, a field of the decision twice", mediaType: "application/yaml", body: inYAML(yamlDeny + "      denyConditions: []\n"), want: 201, wantStrict: 400, warns: true},
		{name: "YAML, a field of the decision that is not known", mediaType: "application/yaml", body: inYAML("      requireConditions: []\n"), want: 400, wantStrict: 400},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := postOnce(s, "alice", group+"authorizationconditionsreviews", tc.mediaType, tc.body)
			if got.Code != tc.want {
				t.Errorf("got %d, want %d: %.300s", got.Code, tc.want, got.Body)
			}
			if warning := got.Header().Get("Warning"); (warning != "") != tc.warns {
				t.Errorf("got the warning %q", warning)
			}
			if strict := postOnce(s, "alice", group+"authorizationconditionsreviews?fieldValidation=Strict", tc.mediaType, tc.body); strict.Code != tc.wantStrict {
				t.Errorf("with fieldValidation=Strict: got %d, want %d: %.300s", strict.Code, tc.wantStrict, strict.Body)
			}
		})
	}
}
