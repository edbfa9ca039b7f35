/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
)

func TestFailureModeDefaults(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	utilruntime.Must(v1alpha1.AddToScheme(scheme))

	conditions := []v1alpha1.SubjectAccessReviewCondition{{ID: "example.com/a"}}
	review := &v1alpha1.AuthorizationConditionsReview{Request: &v1alpha1.AuthorizationConditionsRequest{
		ConditionSets: []v1alpha1.SubjectAccessReviewConditionSet{
			{AuthorizerName: "unset", Conditions: conditions},
			{AuthorizerName: "set", FailureMode: v1alpha1.FailureModeNoOpinion, Conditions: conditions},
			{AuthorizerName: "unconditional", Allowed: true},
			{AuthorizerName: "outer", ConditionsChain: []v1alpha1.SubjectAccessReviewConditionSet{{AuthorizerName: "inner", Conditions: conditions}}},
		},
	}}
	scheme.Default(review)
	got := map[string]v1alpha1.FailureMode{}
	for _, set := range review.Request.ConditionSets {
		got[set.AuthorizerName] = set.FailureMode
	}
	got["inner"] = review.Request.ConditionSets[3].ConditionsChain[0].FailureMode
	want := map[string]v1alpha1.FailureMode{"unset": "Deny", "set": "NoOpinion", "unconditional": "", "outer": "", "inner": "Deny"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("failure modes (-want +got):\n%s", diff)
	}
}
