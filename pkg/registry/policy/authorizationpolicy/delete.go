/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationpolicy

import (
	"context"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"
)

// Delete deletes a policy if who asks for it may. What the store cannot read might be a
// restriction; it is asked about before anything else.
func (r *REST) Delete(ctx context.Context, name string, deleteValidation rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if ignoresReadErrors(options) {
		if err := r.authors.mayDeleteUnread(ctx, r.kind, name); err != nil {
			return nil, false, err
		}
	}
	return r.Store.Delete(ctx, name, r.guardDelete(deleteValidation), options)
}

// DeleteCollection deletes policies as Delete does each of them.
func (r *REST) DeleteCollection(ctx context.Context, deleteValidation rest.ValidateObjectFunc, options *metav1.DeleteOptions, listOptions *metainternalversion.ListOptions) (runtime.Object, error) {
	if ignoresReadErrors(options) {
		if err := r.authors.mayDeleteUnread(ctx, r.kind, ""); err != nil {
			return nil, err
		}
	}
	return r.Store.DeleteCollection(ctx, r.guardDelete(deleteValidation), options, listOptions)
}

// GetCorruptObjDeleter returns what deletes policies that the store cannot read: the
// handler calls it instead of Delete.
func (r *REST) GetCorruptObjDeleter() rest.GracefulDeleter {
	deleter := r.Store.GetCorruptObjDeleter()
	if deleter == nil {
		return nil
	}
	return &unreadDeleter{rest: r, deleter: deleter}
}

// unreadDeleter deletes policies that cannot be read, which may be restrictions.
type unreadDeleter struct {
	rest    *REST
	deleter rest.GracefulDeleter
}

func (d *unreadDeleter) Delete(ctx context.Context, name string, deleteValidation rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if err := d.rest.authors.mayDeleteUnread(ctx, d.rest.kind, name); err != nil {
		return nil, false, err
	}
	return d.deleter.Delete(ctx, name, deleteValidation, options)
}

func (r *REST) guardDelete(next rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if err := r.authors.mayDelete(ctx, r.kind, obj); err != nil || next == nil {
			return err
		}
		return next(ctx, obj)
	}
}

func ignoresReadErrors(options *metav1.DeleteOptions) bool {
	return options != nil && ptr.Deref(options.IgnoreStoreReadErrorWithClusterBreakingPotential, false)
}
