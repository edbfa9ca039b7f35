/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package selfsubjectaccessreview serves SelfSubjectAccessReview: may I do that, and on what conditions?
package selfsubjectaccessreview

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/apis/authorization/validation"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/registry/virtual"
)

// REST answers reviews.
type REST struct {
	virtual.Resource
	reviewer *authorization.Reviewer
}

var _ rest.Creater = &REST{}

// NewREST makes the storage. The reviewer's chain must decide as that of requests does.
func NewREST(reviewer *authorization.Reviewer) *REST {
	return &REST{
		Resource: virtual.Resource{
			Singular:   "selfsubjectaccessreview",
			Namespaced: false,
			NewFunc:    func() runtime.Object { return &authorizationapi.SelfSubjectAccessReview{} },
		},
		reviewer: reviewer,
	}
}

// RunsValidatingAdmission marks a storage that runs admission before it answers.
func (r *REST) RunsValidatingAdmission() {}

// Create decides about a request of the caller's own, and fills in the status.
func (r *REST) Create(ctx context.Context, obj runtime.Object, createValidation rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	review, ok := obj.(*authorizationapi.SelfSubjectAccessReview)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a SelfSubjectAccessReview: %T", obj))
	}
	caller, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	errs := validation.ValidateSelfSubjectAccessReview(review)
	if err := virtual.Admit(ctx, authorizationapi.Kind("SelfSubjectAccessReview"), review, errs, createValidation); err != nil {
		return nil, err
	}
	attributes := authorization.AttributesOf(caller, review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
	review.Status = virtual.Review(ctx, r.reviewer, attributes, review.Spec.ConditionalAuthorization)
	return review, nil
}
