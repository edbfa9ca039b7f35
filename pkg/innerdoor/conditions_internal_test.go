/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/component-base/metrics/testutil"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// TestConditionsAreCounted counts the answers to conditions that kube-apiserver sends back.
func TestConditionsAreCounted(t *testing.T) {
	chain, err := authorization.NewChain()
	if err != nil {
		t.Fatal(err)
	}
	handler, err := NewConditionsHandler(HandlerConfig{Decider: &Decider{Chain: chain}})
	if err != nil {
		t.Fatal(err)
	}
	count := func(answer string) float64 {
		t.Helper()
		value, err := testutil.GetCounterMetricValue(conditionsAnswers.WithLabelValues(answer))
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	const kind = `{"group": "", "version": "v1", "kind": "ConfigMap"}, "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"}`
	const resource = `{"group": "", "version": "v1", "resource": "configmaps"}`
	for answer, body := range map[string]string{
		answerRefused: `{}`,
		decisionDenied: `{"apiVersion": "authorization.k8s.io/v1alpha1", "kind": "AuthorizationConditionsReview", "request": {
			"decision": {"type": "ConditionsMap", "conditionsMap": {"allowConditions": [{"id": "example.com/c", "type": "example.com/opaque"}]}},
			"admissionRequest": {"uid": "1", "kind": ` + kind + `, "resource": ` + resource + `, "requestResource": ` + resource + `, "operation": "CREATE", "object": {}}}}`,
	} {
		before := count(answer)
		r := httptest.NewRequest(http.MethodPost, ConditionsPath, strings.NewReader(body))
		r.Header.Set("Content-Type", mediaType)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if after := count(answer); after != before+1 {
			t.Errorf("%s: counted %v answers, after %v, to %d %s", answer, after, before, w.Code, w.Body)
		}
	}
}
