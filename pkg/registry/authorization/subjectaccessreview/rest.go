/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package subjectaccessreview serves SubjectAccessReview: may this user do that, and on what conditions?
package subjectaccessreview

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
			Singular:   "subjectaccessreview",
			Namespaced: false,
			NewFunc:    func() runtime.Object { return &authorizationapi.SubjectAccessReview{} },
		},
		reviewer: reviewer,
	}
}

// RunsValidatingAdmission marks a storage that runs admission before it answers.
func (r *REST) RunsValidatingAdmission() {}

// Create decides about the request that the review describes, and fills in its status.
func (r *REST) Create(ctx context.Context, obj runtime.Object, createValidation rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	review, ok := obj.(*authorizationapi.SubjectAccessReview)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a SubjectAccessReview: %T", obj))
	}
	errs := validation.ValidateSubjectAccessReview(review)
	if err := virtual.Admit(ctx, authorizationapi.Kind("SubjectAccessReview"), review, errs, createValidation); err != nil {
		return nil, err
	}
	attributes := authorization.AttributesOf(authorization.SubjectOf(&review.Spec), review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
	review.Status = virtual.Review(ctx, r.reviewer, attributes, review.Spec.ConditionalAuthorization)
	return review, nil
}
