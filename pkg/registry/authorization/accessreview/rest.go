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
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/registry/rest"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/upstreamform"
	"github.com/proviso-authz/proviso/pkg/registry/virtual"
)

// kind is one of the three kinds of reviews.
type kind struct {
	name       string
	namespaced bool
	newFunc    func() runtime.Object
	// read reads a review, which may be invalid. It returns a BadRequest error if the review does not fit the request that
	// creates it.
	read func(ctx context.Context, obj runtime.Object) (*review, error)
}

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
	kind     kind
	reviewer *virtual.Reviewer
}

var _ rest.Creater = &REST{}

func newREST(reviewer *virtual.Reviewer, k kind) *REST {
	return &REST{
		Resource: virtual.Resource{Singular: strings.ToLower(k.name), Namespaced: k.namespaced, NewFunc: k.newFunc},
		kind:     k,
		reviewer: reviewer,
	}
}

// RunsValidatingAdmission marks a storage that runs admission before it answers.
func (r *REST) RunsValidatingAdmission() {}

// Create decides about the request that the review describes, and returns the review with its status. A review that does
// not fit the request that creates it, or that requests conditions in two forms, is answered 400, an invalid one 422.
func (r *REST) Create(ctx context.Context, obj runtime.Object, createValidation rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	read, err := r.kind.read(ctx, obj)
	if err != nil {
		return nil, err
	}
	//guard:reviews-two-forms
	if read.conditional != nil && read.options != nil {
		return nil, apierrors.NewBadRequest("spec.conditionalAuthorization and spec.authorizationOptions request conditions in different forms: set one of them")
	}
	if err := virtual.Admit(ctx, r.kind.name, obj, read.invalid, createValidation); err != nil {
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
