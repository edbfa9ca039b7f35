/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package accessreview serves SubjectAccessReview, SelfSubjectAccessReview and LocalSubjectAccessReview: virtual resources
// that answer whether a user may make a request, and on what conditions.
//
// Invariants:
//
//   - One implementation answers all three kinds. They differ in the user and the namespace that a review may be about.
//   - A review is validated, and admission runs, before the review is decided.
//   - The answer is the decision that the request itself would get, from the same authorizers.
//
// It must not import policies or storage: package authorization decides.
package accessreview

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/apis/authorization/validation"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/upstreamform"
	"github.com/proviso-authz/proviso/pkg/registry/virtual"
)

// review is a review of any of the three kinds.
type review struct {
	// invalid holds the validation errors. If there are any, the other fields may be nil.
	invalid     field.ErrorList
	subject     user.Info
	resource    *authorizationv1.ResourceAttributes
	nonResource *authorizationv1.NonResourceAttributes
	conditional *authorizationapi.ConditionalAuthorizationConfiguration
	options     *authorizationapi.AuthorizationOptions
	// status is the place for the answer in the object.
	status *authorizationapi.SubjectAccessReviewStatus
}

// REST answers reviews of one kind.
type REST struct {
	virtual.Resource
	name string
	// read reads a review, which may be invalid. It returns a BadRequest error if the review does not fit the request that
	// creates it.
	read     func(ctx context.Context, obj runtime.Object) (*review, error)
	reviewer *virtual.Reviewer
}

var _ rest.Creater = &REST{}

// newREST returns the storage of the kind of reviews with a name, which are of type T.
func newREST[T runtime.Object](reviewer *virtual.Reviewer, name string, namespaced bool, newFunc func() runtime.Object, read func(context.Context, T) (*review, error)) *REST {
	return &REST{
		Resource: virtual.Resource{Singular: strings.ToLower(name), Namespaced: namespaced, NewFunc: newFunc}, name: name, reviewer: reviewer,
		read: func(ctx context.Context, obj runtime.Object) (*review, error) {
			r, ok := obj.(T)
			if !ok {
				return nil, apierrors.NewBadRequest(fmt.Sprintf("not a %s: %T", name, obj))
			}
			return read(ctx, r)
		},
	}
}

// RunsValidatingAdmission marks a storage that runs admission before it answers.
func (r *REST) RunsValidatingAdmission() {}

// Create decides about the request that the review describes, and returns the review with its status. A review that does
// not fit the request that creates it, or that requests conditions in two forms, is answered 400, an invalid one 422.
func (r *REST) Create(ctx context.Context, obj runtime.Object, createValidation rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	read, err := r.read(ctx, obj)
	if err != nil {
		return nil, err
	}
	//guard:reviews-two-forms
	if read.conditional != nil && read.options != nil {
		return nil, apierrors.NewBadRequest("spec.conditionalAuthorization and spec.authorizationOptions request conditions in different forms: set one of them")
	}
	if err := virtual.Admit(ctx, r.name, obj, read.invalid, createValidation); err != nil {
		return nil, err
	}
	attributes := authorization.AttributesOf(read.subject, read.resource, read.nonResource)
	//guard:reviews-upstreams-form-without-gate
	if r.reviewer.Upstream && read.options != nil && upstreamform.Handles(read.options.HandledDecisionTypes) {
		*read.status, err = virtual.ReviewUpstream(ctx, r.reviewer, attributes)
		return obj, err
	}
	*read.status = virtual.Review(ctx, r.reviewer, attributes, read.conditional)
	return obj, nil
}

// NewSubjectREST returns the storage of SubjectAccessReview. The reviewer's chain must give the same answers as the chain
// that authorizes requests.
func NewSubjectREST(reviewer *virtual.Reviewer) *REST {
	return newREST(reviewer, "SubjectAccessReview", false, func() runtime.Object { return &authorizationapi.SubjectAccessReview{} },
		func(_ context.Context, r *authorizationapi.SubjectAccessReview) (*review, error) {
			read := readSpec(&r.Spec, &r.Status)
			read.invalid = validation.ValidateSubjectAccessReview(r)
			return read, nil
		})
}

// NewSelfREST returns the storage of SelfSubjectAccessReview, which is about the caller. See NewSubjectREST.
func NewSelfREST(reviewer *virtual.Reviewer) *REST {
	return newREST(reviewer, "SelfSubjectAccessReview", false, func() runtime.Object { return &authorizationapi.SelfSubjectAccessReview{} },
		func(ctx context.Context, r *authorizationapi.SelfSubjectAccessReview) (*review, error) {
			caller, ok := genericapirequest.UserFrom(ctx)
			if !ok {
				return nil, apierrors.NewBadRequest("no user present on request")
			}
			return &review{
				invalid: validation.ValidateSelfSubjectAccessReview(r), subject: caller, status: &r.Status,
				resource: r.Spec.ResourceAttributes, nonResource: r.Spec.NonResourceAttributes, conditional: r.Spec.ConditionalAuthorization,
				options: r.Spec.AuthorizationOptions,
			}, nil
		})
}

// NewLocalREST returns the storage of LocalSubjectAccessReview. A review must be about the
// namespace in which it is created, because permission to create local reviews in one namespace
// gives no access to others. See NewSubjectREST.
func NewLocalREST(reviewer *virtual.Reviewer) *REST {
	return newREST(reviewer, "LocalSubjectAccessReview", true, func() runtime.Object { return &authorizationapi.LocalSubjectAccessReview{} },
		func(ctx context.Context, r *authorizationapi.LocalSubjectAccessReview) (*review, error) {
			if namespace := genericapirequest.NamespaceValue(ctx); namespace == "" || namespace != r.Namespace {
				return nil, apierrors.NewBadRequest(fmt.Sprintf("the review is created in namespace %q but is for %q", namespace, r.Namespace))
			}
			read := readSpec(&r.Spec, &r.Status)
			read.invalid = validation.ValidateLocalSubjectAccessReview(r)
			return read, nil
		})
}

func readSpec(spec *authorizationapi.SubjectAccessReviewSpec, status *authorizationapi.SubjectAccessReviewStatus) *review {
	return &review{
		subject: authorization.SubjectOf(spec), resource: spec.ResourceAttributes, nonResource: spec.NonResourceAttributes,
		conditional: spec.ConditionalAuthorization, options: spec.AuthorizationOptions, status: status,
	}
}
