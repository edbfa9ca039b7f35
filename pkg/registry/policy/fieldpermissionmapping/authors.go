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
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// verbRestrict lets its holder write mappings, as it lets them write Deny policies.
const verbRestrict = "restrict"

// Create creates a mapping if its author may.
func (r *REST) Create(ctx context.Context, obj runtime.Object, createValidation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	return r.Store.Create(ctx, obj, r.guard(createValidation), options)
}

// Update changes a mapping, or creates one by server-side apply, if its author may. Who
// leaves the specification as it is needs nothing more.
func (r *REST) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc, updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	guarded := func(ctx context.Context, obj, old runtime.Object) error {
		if !isSame(obj, old) {
			if err := r.mayWrite(ctx, name); err != nil {
				return err
			}
		}
		if updateValidation == nil {
			return nil
		}
		return updateValidation(ctx, obj, old)
	}
	return r.Store.Update(ctx, name, objInfo, r.guard(createValidation), guarded, forceAllowCreate, options)
}

// Delete deletes a mapping if who asks for it may.
func (r *REST) Delete(ctx context.Context, name string, deleteValidation rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	return r.Store.Delete(ctx, name, r.guard(deleteValidation), options)
}

// DeleteCollection deletes mappings as Delete does each of them.
func (r *REST) DeleteCollection(ctx context.Context, deleteValidation rest.ValidateObjectFunc, options *metav1.DeleteOptions, listOptions *metainternalversion.ListOptions) (runtime.Object, error) {
	return r.Store.DeleteCollection(ctx, r.guard(deleteValidation), options, listOptions)
}

// GetCorruptObjDeleter returns what deletes mappings that the store cannot read: the handler
// calls it instead of Delete.
func (r *REST) GetCorruptObjDeleter() rest.GracefulDeleter {
	deleter := r.Store.GetCorruptObjDeleter()
	if deleter == nil {
		return nil
	}
	return &unreadDeleter{rest: r, deleter: deleter}
}

// unreadDeleter deletes mappings that cannot be read.
type unreadDeleter struct {
	rest    *REST
	deleter rest.GracefulDeleter
}

func (d *unreadDeleter) Delete(ctx context.Context, name string, deleteValidation rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if err := d.rest.mayWrite(ctx, name); err != nil {
		return nil, false, err
	}
	return d.deleter.Delete(ctx, name, deleteValidation, options)
}

// guard asks for the permission before it goes on.
func (r *REST) guard(next rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		metadata, err := meta.Accessor(obj)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		if err := r.mayWrite(ctx, metadata.GetName()); err != nil || next == nil {
			return err
		}
		return next(ctx, obj)
	}
}

// mayWrite refuses unless the author has the verb restrict. An error is a refusal; it goes to
// the log, since it may say what the author must not know.
func (r *REST) mayWrite(ctx context.Context, name string) error {
	author, ok := genericapirequest.UserFrom(ctx)
	if !ok || author == nil {
		return forbidden(name, "nobody is known to ask for it")
	}
	decision, reason, err := r.authors.Authorize(ctx, authorizer.AttributesRecord{
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

// isSame reports whether two mappings specify the same.
func isSame(a, b runtime.Object) bool {
	x, ok := a.(*policy.FieldPermissionMapping)
	y, also := b.(*policy.FieldPermissionMapping)
	return ok && also && sameSpec(x, y)
}
