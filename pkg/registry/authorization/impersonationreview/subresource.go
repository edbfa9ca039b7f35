/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonationreview

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/registry/virtual"
)

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
