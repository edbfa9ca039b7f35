/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package answer_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	utilexec "k8s.io/utils/exec"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
)

// celCondition returns a condition in CEL.
func celCondition(id string, effect authorizationv1alpha1.ConditionEffect, text string) authorizationv1alpha1.SubjectAccessReviewCondition {
	return authorizationv1alpha1.SubjectAccessReviewCondition{ID: id, Effect: effect, Type: authorization.ConditionTypeCEL, Condition: text}
}

// TestPrintConditions prints the conditions of a set in the order in which they decide, and shows what could control a terminal.
func TestPrintConditions(t *testing.T) {
	t.Parallel()
	foreign := authorizationv1alpha1.SubjectAccessReviewCondition{ID: "example.com/c", Effect: "Allow", Type: "example.com/rego", Condition: `object.x == "a"`, Description: "a\x1b[2J\nb"}
	chain := []authorizationv1alpha1.SubjectAccessReviewConditionSet{
		{AuthorizerName: "policy.proviso.dev", Conditions: []authorizationv1alpha1.SubjectAccessReviewCondition{
			celCondition("cluster.policy.proviso.dev/allows", "Allow", `object.x == "a"`),
			celCondition("n.namespace.policy.proviso.dev/skips", "NoOpinion", `object.x == "b"`),
			celCondition("cluster.policy.proviso.dev/denies", "Deny", `object.x == object.y`),
		}},
		{AuthorizerName: "nested", ConditionsChain: []authorizationv1alpha1.SubjectAccessReviewConditionSet{
			{AuthorizerName: "inner", Conditions: []authorizationv1alpha1.SubjectAccessReviewCondition{foreign}},
			{AuthorizerName: "denier", Denied: true},
		}},
		{AuthorizerName: "kube-apiserver", Allowed: true},
	}
	var out bytes.Buffer
	if exit, ok := errors.AsType[utilexec.CodeExitError](answer.If(chain).Print(&out, nil)); !ok || exit.Code != 3 {
		t.Fatal(exit)
	}
	want := `yes, if
EFFECT      CONDITION              POLICY           DESCRIPTION
Deny        object.x == object.y   denies           -
NoOpinion   x is b                 n/skips          -
Allow       x is a                 allows           -
Allow       object.x == "a"        example.com/c    a\x1b[2J\nb
Deny        always                 denier           -
Allow       always                 kube-apiserver   -
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
