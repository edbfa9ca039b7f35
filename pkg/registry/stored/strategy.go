/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored

import (
	"context"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// strategy decides how objects of a kind are created and changed. Clients cannot set status and generation by a write to the
// object: the status of a new object is empty and an update keeps it, and the generation counts changes of the specification.
type strategy[Spec, Status any] struct {
	runtime.ObjectTyper
	names.NameGenerator
	kind Kind[Spec, Status]
}

var (
	_ rest.RESTCreateStrategy              = strategy[any, any]{}
	_ rest.RESTUpdateStrategy              = strategy[any, any]{}
	_ rest.RESTDeleteStrategy              = strategy[any, any]{}
	_ rest.ResetFieldsStrategy             = strategy[any, any]{}
	_ rest.GarbageCollectionDeleteStrategy = strategy[any, any]{}
	_ rest.RESTUpdateStrategy              = statusStrategy[any, any]{}
	_ rest.ResetFieldsStrategy             = statusStrategy[any, any]{}
)

func (s strategy[Spec, Status]) NamespaceScoped() bool { return s.kind.Namespaced }

func (s strategy[Spec, Status]) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	parts := s.kind.Parts(obj)
	*parts.Status = *new(Status)
	parts.Meta.Generation = 1
	//guard:finalizers-own-at-creation
	s.dropFinalizers(ctx, parts.Meta, nil)
}

// dropFinalizers removes the finalizers that a user has added although only this server may.
func (s strategy[Spec, Status]) dropFinalizers(ctx context.Context, meta *metav1.ObjectMeta, before []string) {
	if who, ok := genericapirequest.UserFrom(ctx); ok && who.GetName() == user.APIServerUser {
		return
	}
	meta.Finalizers = slices.DeleteFunc(meta.Finalizers, func(finalizer string) bool {
		return slices.Contains(s.kind.OwnFinalizers, finalizer) && !slices.Contains(before, finalizer)
	})
}

func (s strategy[Spec, Status]) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	parts, before := s.kind.Parts(obj), s.kind.Parts(old.DeepCopyObject())
	//guard:finalizers-own-at-update
	s.dropFinalizers(ctx, parts.Meta, before.Meta.Finalizers)
	*parts.Status = *before.Status
	parts.Meta.Generation = before.Meta.Generation
	if !s.sameSpec(obj, old) {
		parts.Meta.Generation++
	}
}

func (s strategy[Spec, Status]) sameSpec(a, b runtime.Object) bool {
	return apiequality.Semantic.DeepEqual(s.kind.Parts(a).Spec, s.kind.Parts(b).Spec)
}

func (s strategy[Spec, Status]) check(obj runtime.Object) (warnings []string, errs field.ErrorList) {
	if s.kind.Check == nil {
		return nil, nil
	}
	return s.kind.Check(obj)
}

func (s strategy[Spec, Status]) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	errs := s.kind.Validate(obj)
	if len(errs) == 0 {
		_, errs = s.check(obj)
	}
	if len(errs) == 0 && s.kind.CheckChange != nil {
		//guard:errors-changes-creation
		errs = s.kind.CheckChange(obj, nil)
	}
	return errs
}

// ValidateUpdate does not check an unchanged specification of an object that is being deleted. If such a
// specification has become invalid, its last finalizer can still be removed.
func (s strategy[Spec, Status]) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	errs := s.kind.ValidateUpdate(obj, old)
	if len(errs) == 0 && (s.kind.Parts(old).Meta.DeletionTimestamp == nil || !s.sameSpec(obj, old)) {
		_, errs = s.check(obj)
	}
	if len(errs) == 0 && s.kind.CheckChange != nil && !s.sameSpec(obj, old) {
		//guard:errors-changes-update
		errs = s.kind.CheckChange(obj, old)
	}
	return errs
}

// AllowCreateOnUpdate reports whether a PUT creates an object that does not exist. Server-side apply does not ask.
func (s strategy[Spec, Status]) AllowCreateOnUpdate(context.Context) bool {
	return s.kind.CreateOnUpdate
}

// AllowUnconditionalUpdate lets a PUT without resourceVersion replace an object, as for roles in RBAC.
func (strategy[Spec, Status]) AllowUnconditionalUpdate(context.Context) bool { return true }

func (strategy[Spec, Status]) Canonicalize(runtime.Object) {}

// WarningsOnCreate returns the warnings of Warn, and then the warnings of Check.
func (s strategy[Spec, Status]) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	warnings, _ := s.check(obj)
	if s.kind.Warn != nil {
		warnings = append(s.kind.Warn(ctx, obj), warnings...)
	}
	return boundedWarnings(warnings)
}

// WarningsOnUpdate returns warnings only if the specification changes, because they are about the
// specification.
func (s strategy[Spec, Status]) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string {
	if s.sameSpec(obj, old) {
		return nil
	}
	return s.WarningsOnCreate(ctx, obj)
}

func (strategy[Spec, Status]) DefaultGarbageCollectionPolicy(context.Context) rest.GarbageCollectionPolicy {
	return rest.DeleteDependents
}

func (s strategy[Spec, Status]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.resetFields("status")
}

func (s strategy[Spec, Status]) resetFields(fields ...string) map[fieldpath.APIVersion]*fieldpath.Set {
	set := fieldpath.NewSet()
	for _, name := range fields {
		set.Insert(fieldpath.MakePathOrDie(name))
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(s.kind.Version.String()): set}
}

// statusStrategy decides how the status of an object is changed. Other parts of the object stay
// unchanged.
type statusStrategy[Spec, Status any] struct {
	strategy[Spec, Status]
}

// AllowCreateOnUpdate returns false: a write to the status of a missing object does not create the
// object.
func (statusStrategy[Spec, Status]) AllowCreateOnUpdate(context.Context) bool { return false }

func (s statusStrategy[Spec, Status]) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	parts, before := s.kind.Parts(obj), s.kind.Parts(old.DeepCopyObject())
	managed := parts.Meta.ManagedFields
	*parts.Meta, *parts.Spec = *before.Meta, *before.Spec
	parts.Meta.ManagedFields = managed
}

func (s statusStrategy[Spec, Status]) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return s.kind.ValidateStatusUpdate(obj, old)
}

func (statusStrategy[Spec, Status]) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

func (s statusStrategy[Spec, Status]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.resetFields("spec", "metadata")
}
