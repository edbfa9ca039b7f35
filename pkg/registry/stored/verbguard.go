/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored

import (
	"context"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"
)

// VerbGuard allows users with a certain verb on an object, without conditions, to write it. All fields are required but FreeDeletes.
type VerbGuard struct {
	// Authors decides who has the verb.
	Authors authorizer.UnconditionalAuthorizer
	Verb    string
	// Resource and Version are the resource and the version that the check names.
	Resource schema.GroupResource
	Version  string
	// Writes says in a refusal what needs the verb, such as "change a mapping, which …".
	Writes string
	// Spec returns the specification of an object. A change that keeps the specification needs no verb.
	Spec func(obj runtime.Object) any
	// FreeDeletes says that a deletion does not need the verb.
	FreeDeletes bool
}

var _ Guard = &VerbGuard{}

// MayCreate implements Guard.
func (g *VerbGuard) MayCreate(ctx context.Context, obj runtime.Object) error {
	metadata, err := meta.Accessor(obj)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	return g.mayWrite(ctx, metadata.GetName())
}

// MayUpdate implements Guard.
func (g *VerbGuard) MayUpdate(ctx context.Context, obj, old runtime.Object) error {
	if apiequality.Semantic.DeepEqual(g.Spec(obj), g.Spec(old)) {
		return nil
	}
	return g.MayCreate(ctx, obj)
}

// MayDelete implements Guard.
func (g *VerbGuard) MayDelete(ctx context.Context, obj runtime.Object) error {
	if g.FreeDeletes {
		return nil
	}
	return g.MayCreate(ctx, obj)
}

// MayDeleteUnread implements Guard.
func (g *VerbGuard) MayDeleteUnread(ctx context.Context, name string) error {
	if g.FreeDeletes {
		return nil
	}
	return g.mayWrite(ctx, name)
}

// mayWrite returns an error unless the author has the verb. An error of the authorizers counts as a denial. It is logged and
// not returned, because its text may contain information that the author must not see.
func (g *VerbGuard) mayWrite(ctx context.Context, name string) error {
	author, ok := genericapirequest.UserFrom(ctx)
	if !ok || author == nil {
		return g.forbidden(name, "the request has no user")
	}
	decision, reason, err := g.Authors.Authorize(ctx, authorizer.AttributesRecord{
		User: author, Verb: g.Verb, Name: name, ResourceRequest: true,
		APIGroup: g.Resource.Group, APIVersion: g.Version, Resource: g.Resource.Resource,
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Asking whether an author may write an object failed", "resource", g.Resource, "name", name)
		return g.forbidden(name, "the authorizers failed to answer")
	}
	if decision != authorizer.DecisionAllow {
		return g.forbidden(name, "user %q (groups=%q) is attempting to %s; that needs the verb %s on %s: %s",
			author.GetName(), author.GetGroups(), g.Writes, g.Verb, g.Resource, reason)
	}
	return nil
}

func (g *VerbGuard) forbidden(name, format string, args ...any) error {
	return apierrors.NewForbidden(g.Resource, name, fmt.Errorf(format, args...))
}
