/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package fieldpermissionmapping

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
)

// verbRestrict lets a user write mappings. It is the same verb as for Deny policies.
const verbRestrict = "restrict"

// guard allows users with the verb restrict on mappings to write them.
type guard struct {
	authors authorizer.UnconditionalAuthorizer
}

var _ stored.Guard = &guard{}

// MayCreate implements stored.Guard.
func (g *guard) MayCreate(ctx context.Context, obj runtime.Object) error {
	metadata, err := meta.Accessor(obj)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	return g.mayWrite(ctx, metadata.GetName())
}

// MayUpdate implements stored.Guard. A change that keeps the specification needs no additional
// permission.
func (g *guard) MayUpdate(ctx context.Context, obj, old runtime.Object) error {
	if sameSpec(obj, old) {
		return nil
	}
	return g.MayCreate(ctx, obj)
}

// MayDelete implements stored.Guard.
func (g *guard) MayDelete(ctx context.Context, obj runtime.Object) error {
	return g.MayCreate(ctx, obj)
}

// MayDeleteUnread implements stored.Guard.
func (g *guard) MayDeleteUnread(ctx context.Context, name string) error {
	return g.mayWrite(ctx, name)
}

// mayWrite returns an error unless the author has the verb restrict. An error of the authorizers
// counts as a denial. It is logged and not returned, because its text may contain information that
// the author must not see.
func (g *guard) mayWrite(ctx context.Context, name string) error {
	author, ok := genericapirequest.UserFrom(ctx)
	if !ok || author == nil {
		return forbidden(name, "the request has no user")
	}
	decision, reason, err := g.authors.Authorize(ctx, authorizer.AttributesRecord{
		User: author, Verb: verbRestrict, Name: name, ResourceRequest: true,
		APIGroup: v1alpha1.GroupName, APIVersion: v1alpha1.SchemeGroupVersion.Version, Resource: resource,
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Asking whether an author may write a mapping failed", "mapping", name)
		return forbidden(name, "the authorizers failed to answer")
	}
	if decision != authorizer.DecisionAllow {
		return forbidden(name, "user %q (groups=%q) is attempting to create, change or delete a mapping, which decides which verbs fields need; that needs the verb restrict on %s: %s",
			author.GetName(), author.GetGroups(), policy.Resource(resource), reason)
	}
	return nil
}

func forbidden(name, format string, args ...any) error {
	return apierrors.NewForbidden(policy.Resource(resource), name, fmt.Errorf(format, args...))
}
