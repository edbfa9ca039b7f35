/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package impersonationreview serves ImpersonationReview, which answers whether a user may make a
// request as another user, and why (KEP-5284). It is a resource, for `kubectl create`, and a
// subresource of authorizationconditionsreviews with the user to impersonate in the path.
//
// Callers may ask about themselves. To ask about another requester, a caller needs the permission to create
// subjectaccessreviews.
package impersonationreview

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/apis/authorization/validation"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/impersonation"
	"github.com/proviso-authz/proviso/pkg/registry/virtual"
)

// REST answers reviews.
type REST struct {
	virtual.Resource
	reviews        *virtual.Reviewer
	impersonations *impersonation.Reviewer
}

var _ rest.Creater = &REST{}

// NewREST returns the storage. The chain of reviews, which impersonations uses for its checks, must give the same
// answers as the chain that authorizes requests.
func NewREST(reviews *virtual.Reviewer, impersonations *impersonation.Reviewer) *REST {
	return &REST{
		Resource: virtual.Resource{
			Singular: "impersonationreview",
			NewFunc:  func() runtime.Object { return &authorizationapi.ImpersonationReview{} },
		},
		reviews:        reviews,
		impersonations: impersonations,
	}
}

// RunsValidatingAdmission marks a storage that runs admission before it answers.
func (r *REST) RunsValidatingAdmission() {}

// Create decides whether the requester may make the request of the review as another user, and
// returns the review with its status.
func (r *REST) Create(ctx context.Context, obj runtime.Object, createValidation rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	review, ok := obj.(*authorizationapi.ImpersonationReview)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not an ImpersonationReview: %T", obj))
	}
	return r.answer(ctx, review, nil, createValidation)
}

// answer answers a review. errs are the errors that the caller has found in it.
func (r *REST) answer(ctx context.Context, review *authorizationapi.ImpersonationReview, errs field.ErrorList, createValidation rest.ValidateObjectFunc) (runtime.Object, error) {
	caller, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	errs = append(errs, validation.ValidateImpersonationReview(review)...)
	if err := virtual.Admit(ctx, "ImpersonationReview", review, errs, createValidation); err != nil {
		return nil, err
	}
	// All decisions of the review use one snapshot of the policies.
	ctx = r.reviews.Chain.Pin(ctx)
	requester := caller
	if review.Spec.User != "" {
		if err := r.permitOthers(ctx, caller); err != nil {
			return nil, err
		}
		requester = requesterOf(&review.Spec)
	}
	review.Status = r.review(ctx, requester, &review.Spec)
	return review, nil
}

var errOthers = errors.New("a review that names its requester needs permission to create subjectaccessreviews")

// permitOthers returns an error for callers who must not learn the permissions of other users.
func (r *REST) permitOthers(ctx context.Context, caller user.Info) error {
	decision, _, err := r.reviews.Chain.Authorize(ctx, virtual.CreateReviews(caller))
	if decision == authorizer.DecisionAllow {
		return nil
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", errOthers, err)
	} else {
		err = errOthers
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: virtual.GroupOf(ctx), Resource: "impersonationreviews"}, "", err)
}

func (r *REST) review(ctx context.Context, requester user.Info, spec *authorizationapi.ImpersonationReviewSpec) authorizationapi.ImpersonationReviewStatus {
	attributes := authorization.AttributesOf(requester, spec.ResourceAttributes, spec.NonResourceAttributes)
	answer, err := r.impersonations.Review(ctx, attributes, authorization.UserOf(&spec.Impersonate))
	status := statusOf(answer, err, spec)
	if message := authorization.SelectorErrors(attributes); message != "" && err == nil {
		status.EvaluationError = message
	}
	if len(status.ConditionsChain) > 0 {
		virtual.Warn(ctx, r.reviews.WarningsOfImpersonation(attributes)...)
	}
	if !status.Denied {
		attributes.User = answer.User
		decision := virtual.Review(ctx, r.reviews, attributes, spec.ConditionalAuthorization)
		status.RequestDecision = &decision
	}
	return status
}

// AsInBody is the name in the path if only the body names the user to impersonate. It is needed
// for user names with a slash, which cannot be a path segment.
const AsInBody = "-"

// Subresource answers the same reviews, with the user to impersonate in the path.
type Subresource struct {
	virtual.Resource
	reviews *REST
}

var _ rest.NamedCreater = &Subresource{}

// NewSubresource returns the storage of the subresource.
func NewSubresource(reviews *REST) *Subresource {
	return &Subresource{Resource: reviews.Resource, reviews: reviews}
}

// RunsValidatingAdmission marks a storage that runs admission before it answers.
func (s *Subresource) RunsValidatingAdmission() {}

// Create answers a review. The name in the path is the user to impersonate. If the body has a user
// as well, both must be equal, unless the name is AsInBody.
func (s *Subresource) Create(ctx context.Context, name string, obj runtime.Object, createValidation rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	review, ok := obj.(*authorizationapi.ImpersonationReview)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not an ImpersonationReview: %T", obj))
	}
	var errs field.ErrorList
	switch username := &review.Spec.Impersonate.Username; {
	case name == AsInBody || *username == name:
	case *username == "":
		*username = name
	default:
		errs = append(errs, field.Invalid(field.NewPath("spec", "impersonate", "username"), *username,
			fmt.Sprintf("must equal the name in the path, %q, which may be %q instead", name, AsInBody)))
	}
	return s.reviews.answer(ctx, review, errs, createValidation)
}
