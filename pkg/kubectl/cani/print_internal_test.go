/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cani

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
)

// celCondition returns a condition in CEL.
func celCondition(id string, effect authorizationv1alpha1.ConditionEffect, text string) authorizationv1alpha1.SubjectAccessReviewCondition {
	return authorizationv1alpha1.SubjectAccessReviewCondition{ID: id, Effect: effect, Type: authorization.ConditionTypeCEL, Condition: text}
}

// TestReadsStored finds conditions that read the stored object, also in nested sets. A text that does not compile could read it.
func TestReadsStored(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		condition string
		want      bool
	}{
		{`object.x == "a"`, false}, {`oldObject.x == "a"`, true}, {`object.x ==`, true}, {`object.y == "oldObject"`, false}, {`authorizer.requestResource.check("get").allowed()`, false},
	} {
		chain := []authorizationv1alpha1.SubjectAccessReviewConditionSet{{ConditionsChain: []authorizationv1alpha1.SubjectAccessReviewConditionSet{
			{Conditions: []authorizationv1alpha1.SubjectAccessReviewCondition{celCondition("cluster.policy.proviso.dev/c", "Allow", tc.condition)}},
		}}}
		if got := readsStored(chain); got != tc.want {
			t.Errorf("%s: got %t, want %t", tc.condition, got, tc.want)
		}
	}
}

// TestRules prints a row for each resource, name and URL, with the verbs of all rules.
func TestRules(t *testing.T) {
	t.Parallel()
	status := &authorizationv1.SubjectRulesReviewStatus{
		ResourceRules: []authorizationv1.ResourceRule{
			{Verbs: []string{"get", "list"}, APIGroups: []string{"", "apps"}, Resources: []string{"pods", "deployments/scale"}},
			{Verbs: []string{"list", "watch"}, APIGroups: []string{""}, Resources: []string{"pods"}},
			{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"b", "a"}},
			{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
		},
		NonResourceRules: []authorizationv1.NonResourceRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz"}}},
	}
	var out bytes.Buffer
	if err := printRules(&out, rulesOf(status), true); err != nil {
		t.Fatal(err)
	}
	want := `Resources                Non-Resource URLs   Resource Names   Verbs
                         [/healthz]          []               [get]
*.*                      []                  []               [*]
deployments.apps/scale   []                  []               [get list]
deployments/scale        []                  []               [get list]
pods                     []                  []               [get list watch]
pods                     []                  [a]              [get]
pods                     []                  [b]              [get]
pods.apps                []                  []               [get list]
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
