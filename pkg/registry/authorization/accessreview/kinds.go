/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package accessreview

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/apis/authorization/validation"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/registry/virtual"
)

// NewSubjectREST returns the storage of SubjectAccessReview. The reviewer's chain must give the same answers as the chain
// that authorizes requests.
func NewSubjectREST(reviewer *virtual.Reviewer) *REST {
	return newREST(reviewer, kind{
		name:    "SubjectAccessReview",
		newFunc: func() runtime.Object { return &authorizationapi.SubjectAccessReview{} },
		read: func(_ context.Context, obj runtime.Object) (*review, error) {
			r, ok := obj.(*authorizationapi.SubjectAccessReview)
			if !ok {
				return nil, wrongType("SubjectAccessReview", obj)
			}
			read := readSpec(&r.Spec, &r.Status)
			read.invalid = validation.ValidateSubjectAccessReview(r)
			return read, nil
		},
	})
}

// NewSelfREST returns the storage of SelfSubjectAccessReview, which is about the caller. See NewSubjectREST.
func NewSelfREST(reviewer *virtual.Reviewer) *REST {
	return newREST(reviewer, kind{
		name:    "SelfSubjectAccessReview",
		newFunc: func() runtime.Object { return &authorizationapi.SelfSubjectAccessReview{} },
		read: func(ctx context.Context, obj runtime.Object) (*review, error) {
			r, ok := obj.(*authorizationapi.SelfSubjectAccessReview)
			if !ok {
				return nil, wrongType("SelfSubjectAccessReview", obj)
			}
			caller, ok := genericapirequest.UserFrom(ctx)
			if !ok {
				return nil, apierrors.NewBadRequest("no user present on request")
			}
			return &review{
				invalid: validation.ValidateSelfSubjectAccessReview(r), subject: caller, status: &r.Status,
				resource: r.Spec.ResourceAttributes, nonResource: r.Spec.NonResourceAttributes, conditional: r.Spec.ConditionalAuthorization,
				options: r.Spec.AuthorizationOptions,
			}, nil
		},
	})
}

// NewLocalREST returns the storage of LocalSubjectAccessReview. A review must be about the
// namespace in which it is created, because permission to create local reviews in one namespace
// gives no access to others. See NewSubjectREST.
func NewLocalREST(reviewer *virtual.Reviewer) *REST {
	return newREST(reviewer, kind{
		name:       "LocalSubjectAccessReview",
		namespaced: true,
		newFunc:    func() runtime.Object { return &authorizationapi.LocalSubjectAccessReview{} },
		read: func(ctx context.Context, obj runtime.Object) (*review, error) {
			r, ok := obj.(*authorizationapi.LocalSubjectAccessReview)
			if !ok {
				return nil, wrongType("LocalSubjectAccessReview", obj)
			}
			if namespace := genericapirequest.NamespaceValue(ctx); namespace == "" || namespace != r.Namespace {
				return nil, apierrors.NewBadRequest(fmt.Sprintf("the review is created in namespace %q but is for %q", namespace, r.Namespace))
			}
			read := readSpec(&r.Spec, &r.Status)
			read.invalid = validation.ValidateLocalSubjectAccessReview(r)
			return read, nil
		},
	})
}

func readSpec(spec *authorizationapi.SubjectAccessReviewSpec, status *authorizationapi.SubjectAccessReviewStatus) *review {
	return &review{
		subject: authorization.SubjectOf(spec), resource: spec.ResourceAttributes, nonResource: spec.NonResourceAttributes,
		conditional: spec.ConditionalAuthorization, options: spec.AuthorizationOptions, status: status,
	}
}

func wrongType(kind string, obj runtime.Object) error {
	return apierrors.NewBadRequest(fmt.Sprintf("not a %s: %T", kind, obj))
}
