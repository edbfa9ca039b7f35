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

// verbRestrict lets its holder write mappings, as it lets them write Deny policies.
const verbRestrict = "restrict"

// guard lets those authors write mappings who have the verb restrict on them.
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

// MayUpdate implements stored.Guard. A change that leaves the specification as it is needs nothing more.
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

// mayWrite refuses unless the author has the verb restrict. An error is a refusal; it goes to
// the log, since it may say what the author must not know.
func (g *guard) mayWrite(ctx context.Context, name string) error {
	author, ok := genericapirequest.UserFrom(ctx)
	if !ok || author == nil {
		return forbidden(name, "nobody is known to ask for it")
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
		return forbidden(name, "user %q (groups=%q) is attempting to create, change or delete a mapping, which decides what verbs stand for; that needs the verb restrict on %s: %s",
			author.GetName(), author.GetGroups(), policy.Resource(resource), reason)
	}
	return nil
}

func forbidden(name, format string, args ...any) error {
	return apierrors.NewForbidden(policy.Resource(resource), name, fmt.Errorf(format, args...))
}
