/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored

import (
	"context"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Guard decides which users may write an object, in addition to the permission for the request. It
// is called after mutating admission and the validation of the object, and before validating
// admission. An error refuses the write.
type Guard interface {
	MayCreate(ctx context.Context, obj runtime.Object) error
	MayUpdate(ctx context.Context, obj, old runtime.Object) error
	MayDelete(ctx context.Context, obj runtime.Object) error
	// MayDeleteUnread decides about the deletion of an object that the store cannot read. If the
	// name is empty, it decides about all objects of the namespace.
	MayDeleteUnread(ctx context.Context, name string) error
}

// Unguarded is a Guard that refuses nothing.
type Unguarded struct{}

var _ Guard = Unguarded{}

// MayCreate returns nil.
func (Unguarded) MayCreate(context.Context, runtime.Object) error { return nil }

// MayUpdate returns nil.
func (Unguarded) MayUpdate(context.Context, runtime.Object, runtime.Object) error { return nil }

// MayDelete returns nil.
func (Unguarded) MayDelete(context.Context, runtime.Object) error { return nil }

// MayDeleteUnread returns nil.
func (Unguarded) MayDeleteUnread(context.Context, string) error { return nil }

// REST serves the objects of a kind. The Guard must be called before every write of the store, so
// REST overrides every method of the store that writes.
type REST struct {
	*genericregistry.Store
	guard                  Guard
	begin                  func(ctx context.Context) (end func(), err error) // may be nil
	shortNames, categories []string
}

var (
	_ rest.StandardStorage              = &REST{}
	_ rest.ShortNamesProvider           = &REST{}
	_ rest.CategoriesProvider           = &REST{}
	_ rest.CorruptObjectDeleterProvider = &REST{}
)

// ShortNames returns short names of the resource for kubectl.
func (r *REST) ShortNames() []string { return r.shortNames }

// Categories returns the categories of the resource for kubectl.
func (r *REST) Categories() []string { return r.categories }

// Revision returns the current revision of the store. It asks etcd, and no cache.
func (r *REST) Revision(ctx context.Context) (uint64, error) {
	return r.Storage.Storage.GetCurrentResourceVersion(ctx)
}

// RunsValidatingAdmission marks a storage that passes every validation callback on to its store.
func (r *REST) RunsValidatingAdmission() {}

// Create creates an object.
func (r *REST) Create(ctx context.Context, obj runtime.Object, createValidation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	if r.begin != nil {
		end, err := r.begin(ctx)
		if err != nil {
			return nil, err
		}
		defer end()
	}
	created, err := r.Store.Create(ctx, obj, guarded(r.guard.MayCreate, createValidation), options)
	return created, quiet(err)
}

// Update changes an object. It creates the object if the strategy lets a PUT do so, or for server-side apply.
func (r *REST) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc, updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	if r.begin != nil {
		end, err := r.begin(ctx)
		if err != nil {
			return nil, false, err
		}
		defer end()
	}
	mayUpdate := func(ctx context.Context, obj, old runtime.Object) error {
		if err := r.guard.MayUpdate(ctx, obj, old); err != nil || updateValidation == nil {
			return err
		}
		return updateValidation(ctx, obj, old)
	}
	objInfo = redactedUpdate{UpdatedObjectInfo: objInfo, versioner: r.Storage.Versioner()}
	updated, created, err := r.Store.Update(ctx, name, objInfo, guarded(r.guard.MayCreate, createValidation), mayUpdate, forceAllowCreate, options)
	return updated, created, quiet(err)
}

// Delete deletes an object.
func (r *REST) Delete(ctx context.Context, name string, deleteValidation rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if ignoresReadErrors(options) {
		if err := r.guard.MayDeleteUnread(ctx, name); err != nil {
			return nil, false, quiet(err)
		}
	}
	deleted, atOnce, err := r.Store.Delete(ctx, name, guarded(r.guard.MayDelete, deleteValidation), options)
	return deleted, atOnce, quiet(err)
}

// DeleteCollection deletes objects, with the same checks for each as in Delete.
func (r *REST) DeleteCollection(ctx context.Context, deleteValidation rest.ValidateObjectFunc, options *metav1.DeleteOptions, listOptions *metainternalversion.ListOptions) (runtime.Object, error) {
	if ignoresReadErrors(options) {
		if err := r.guard.MayDeleteUnread(ctx, ""); err != nil {
			return nil, quiet(err)
		}
	}
	deleted, err := r.Store.DeleteCollection(ctx, guarded(r.guard.MayDelete, deleteValidation), options, listOptions)
	return deleted, quiet(err)
}

// GetCorruptObjDeleter returns the deleter of objects that the store cannot read, or nil if the
// store has none. If a request ignores read errors, the handler calls this deleter instead of Delete.
func (r *REST) GetCorruptObjDeleter() rest.GracefulDeleter {
	deleter := r.Store.GetCorruptObjDeleter()
	if deleter == nil {
		return nil
	}
	return &corruptDeleter{guard: r.guard, deleter: deleter}
}

// corruptDeleter deletes objects that the store cannot read.
type corruptDeleter struct {
	guard   Guard
	deleter rest.GracefulDeleter
}

func (d *corruptDeleter) Delete(ctx context.Context, name string, deleteValidation rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if err := d.guard.MayDeleteUnread(ctx, name); err != nil {
		return nil, false, quiet(err)
	}
	deleted, atOnce, err := d.deleter.Delete(ctx, name, deleteValidation, options)
	return deleted, atOnce, quiet(err)
}

// guarded returns a validation that calls the guard and then the next validation, which may be
// nil.
func guarded(may, next rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if err := may(ctx, obj); err != nil || next == nil {
			return err
		}
		return next(ctx, obj)
	}
}

func ignoresReadErrors(options *metav1.DeleteOptions) bool {
	return options != nil && ptr.Deref(options.IgnoreStoreReadErrorWithClusterBreakingPotential, false)
}

// StatusREST serves the subresource status of a stored kind.
type StatusREST struct {
	store *genericregistry.Store
}

var (
	_ rest.Getter              = &StatusREST{}
	_ rest.Updater             = &StatusREST{}
	_ rest.Patcher             = &StatusREST{}
	_ rest.ResetFieldsStrategy = &StatusREST{}
)

// New returns an empty object.
func (r *StatusREST) New() runtime.Object { return r.store.New() }

// Destroy releases nothing: the store belongs to the kind.
func (r *StatusREST) Destroy() {}

// Get returns the whole object, because a patch of the status is applied to it.
func (r *StatusREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, options)
}

// Update changes the status of an existing object. It never creates one.
func (r *StatusREST) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc, updateValidation rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	objInfo = redactedUpdate{UpdatedObjectInfo: objInfo, versioner: r.store.Storage.Versioner()}
	updated, created, err := r.store.Update(ctx, name, objInfo, createValidation, updateValidation, false, options)
	return updated, created, quiet(err)
}

// GetResetFields returns the fields that a write to the status does not touch.
func (r *StatusREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.store.GetResetFields()
}

// ConvertToTable renders objects as kubectl prints them.
func (r *StatusREST) ConvertToTable(ctx context.Context, object, tableOptions runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, object, tableOptions)
}

// RunsValidatingAdmission marks a storage that passes every validation callback on to its
// store.
func (r *StatusREST) RunsValidatingAdmission() {}
