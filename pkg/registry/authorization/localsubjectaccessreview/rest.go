/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package localsubjectaccessreview serves LocalSubjectAccessReview: may this user do that in this namespace, and on what
// conditions?
package localsubjectaccessreview

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
			Singular:   "localsubjectaccessreview",
			Namespaced: true,
			NewFunc:    func() runtime.Object { return &authorizationapi.LocalSubjectAccessReview{} },
		},
		reviewer: reviewer,
	}
}

// RunsValidatingAdmission marks a storage that runs admission before it answers.
func (r *REST) RunsValidatingAdmission() {}

// Create decides about the request that the review describes, and fills in its status.
// The request must be in the namespace in which the review is created: permission to
// create local reviews says nothing about other namespaces.
func (r *REST) Create(ctx context.Context, obj runtime.Object, createValidation rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	review, ok := obj.(*authorizationapi.LocalSubjectAccessReview)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a LocalSubjectAccessReview: %T", obj))
	}
	namespace := genericapirequest.NamespaceValue(ctx)
	if namespace == "" || namespace != review.Namespace {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the review is created in namespace %q but is for %q", namespace, review.Namespace))
	}
	errs := validation.ValidateLocalSubjectAccessReview(review)
	if err := virtual.Admit(ctx, authorizationapi.Kind("LocalSubjectAccessReview"), review, errs, createValidation); err != nil {
		return nil, err
	}
	attributes := authorization.AttributesOf(authorization.SubjectOf(&review.Spec), review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
	review.Status = virtual.Review(ctx, r.reviewer, attributes, review.Spec.ConditionalAuthorization)
	return review, nil
}
