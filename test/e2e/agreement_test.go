/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
)

// agreementTable is the table of TestAgreement: each of the subjects about each of the reviews.
type agreementTable struct {
	Subjects, Reviews map[string]authorizationv1.SubjectAccessReviewSpec
}

// TestAgreement sends Proviso and kube-apiserver the same reviews. With no policy in the
// way the answers must be the same.
func TestAgreement(t *testing.T) {
	t.Parallel()
	apply(t, readText(t, "testdata/agreement-rbac.yaml"))
	table := &agreementTable{}
	readYAML(t, "testdata/agreement.yaml", table)
	kube, proviso := clients(t, "admin")
	var (
		mu      sync.Mutex
		group   sync.WaitGroup
		answers = map[string]int{}
		limit   = make(chan struct{}, 16)
	)
	for who, subject := range table.Subjects {
		for what, asked := range table.Reviews {
			spec := subject
			spec.ResourceAttributes, spec.NonResourceAttributes = asked.ResourceAttributes, asked.NonResourceAttributes
			group.Go(func() {
				limit <- struct{}{}
				defer func() { <-limit }()
				want, err := kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
				if err != nil {
					t.Errorf("%s, %s: kube-apiserver: %v", who, what, err)
					return
				}
				got, err := proviso.AuthorizationV1alpha1().SubjectAccessReviews().Create(t.Context(), &authorizationv1alpha1.SubjectAccessReview{Spec: authorizationv1alpha1.SubjectAccessReviewSpec{
					User: spec.User, Groups: spec.Groups, UID: spec.UID, Extra: spec.Extra,
					ResourceAttributes: spec.ResourceAttributes, NonResourceAttributes: spec.NonResourceAttributes,
				}}, metav1.CreateOptions{})
				if err != nil {
					t.Errorf("%s, %s: Proviso: %v", who, what, err)
					return
				}
				// Which of several bindings allows is a matter of chance in RBAC itself.
				sameReason := want.Status.Allowed || strings.Contains(got.Status.Reason, want.Status.Reason)
				if got.Status.Allowed != want.Status.Allowed || got.Status.Denied != want.Status.Denied || !sameReason {
					t.Errorf("%s, %s: Proviso says %+v, kube-apiserver %+v", who, what, got.Status, want.Status)
				}
				mu.Lock()
				answers[fmt.Sprintf("allowed %v", want.Status.Allowed)]++
				mu.Unlock()
			})
		}
	}
	group.Wait()
	t.Logf("compared: %v", answers)
	if answers["allowed true"] < 50 || answers["allowed false"] < 50 || answers["allowed true"]+answers["allowed false"] < 200 {
		t.Errorf("the table is too small or one-sided: %v", answers)
	}
}
