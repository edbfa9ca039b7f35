/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package virtual has the common parts of virtual resources, which are created, answered in the
// response, and never stored.
package virtual

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
)

// Resource implements the part of rest.Storage that is the same for all virtual resources. Embed
// it.
type Resource struct {
	// Singular is the singular name of the resource.
	Singular string
	// Namespaced is true if the resource is created in a namespace.
	Namespaced bool
	// NewFunc returns an empty object of the resource's internal type.
	NewFunc func() runtime.Object
}

var (
	_ rest.Storage              = Resource{}
	_ rest.Scoper               = Resource{}
	_ rest.SingularNameProvider = Resource{}
)

// New returns an empty object.
func (r Resource) New() runtime.Object { return r.NewFunc() }

// Destroy releases nothing.
func (r Resource) Destroy() {}

// NamespaceScoped reports whether the resource is created in a namespace.
func (r Resource) NamespaceScoped() bool { return r.Namespaced }

// GetSingularName returns the singular name of the resource.
func (r Resource) GetSingularName() string { return r.Singular }

// GroupOf returns the API group of the request, for errors. Reviews are served in two groups.
func GroupOf(ctx context.Context) string {
	if info, ok := genericapirequest.RequestInfoFrom(ctx); ok && info.APIGroup != "" {
		return info.APIGroup
	}
	return authorizationapi.GroupName
}

// CreateReviews returns the permission that users need to learn the permissions of other users: to create subjectaccessreviews of
// authorization.k8s.io. It counts for the reviews of authorization.proviso.dev, too.
func CreateReviews(u user.Info) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: u, Verb: "create", APIGroup: authorizationapi.GroupName, APIVersion: "v1", Resource: "subjectaccessreviews", ResourceRequest: true,
	}
}

// Admit returns an error if there are validation errors. If there are none, it runs validating
// admission on a copy of the object, as a stored resource does before it writes. Call it before the
// review in the object is decided.
func Admit(ctx context.Context, kind string, obj runtime.Object, errs field.ErrorList, createValidation rest.ValidateObjectFunc) error {
	if len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: GroupOf(ctx), Kind: kind}, "", errs)
	}
	if createValidation == nil {
		return nil
	}
	return createValidation(ctx, obj.DeepCopyObject())
}
