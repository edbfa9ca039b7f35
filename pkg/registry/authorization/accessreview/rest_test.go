/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package accessreview_test

import (
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/registry/authorization/accessreview"
	"github.com/proviso-authz/proviso/pkg/registry/virtual"
)

// TestNamespaces calls the storage as the generic server does not: without having made
// sure that the namespaces agree.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	chain, err := authorization.NewChain()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, request, review string
		wantBad               bool
	}{
		{"the same", "n", "n", false},
		{"another", "n", "other", true},
		{"none", "", "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ctx := genericapirequest.WithNamespace(t.Context(), tc.request)
			review := &authorizationapi.LocalSubjectAccessReview{
				ObjectMeta: metav1.ObjectMeta{Namespace: tc.review},
				Spec:       authorizationapi.SubjectAccessReviewSpec{User: "u", ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: tc.review}},
			}
			if _, err := accessreview.NewLocalREST(&virtual.Reviewer{Chain: chain}).Create(ctx, review, nil, nil); apierrors.IsBadRequest(err) != tc.wantBad {
				t.Errorf("got %v, want a bad request: %v", err, tc.wantBad)
			}
		})
	}
}
