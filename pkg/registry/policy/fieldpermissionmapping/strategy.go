/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package fieldpermissionmapping

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/apis/policy/validation"
)

// strategy is how mappings are created and changed. It owns status and generation: a write
// to the mapping itself touches neither.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	checker Checker
}

var (
	_ rest.RESTCreateStrategy              = strategy{}
	_ rest.RESTUpdateStrategy              = strategy{}
	_ rest.RESTDeleteStrategy              = strategy{}
	_ rest.ResetFieldsStrategy             = strategy{}
	_ rest.GarbageCollectionDeleteStrategy = strategy{}
	_ rest.RESTUpdateStrategy              = statusStrategy{}
	_ rest.ResetFieldsStrategy             = statusStrategy{}
)

func newStrategy(typer runtime.ObjectTyper, checker Checker) strategy {
	return strategy{ObjectTyper: typer, NameGenerator: names.SimpleNameGenerator, checker: checker}
}

func (strategy) NamespaceScoped() bool { return false }

func (strategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	m := obj.(*policy.FieldPermissionMapping)
	m.Status = policy.FieldPermissionMappingStatus{}
	m.Generation = 1
}

func (strategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	m, before := obj.(*policy.FieldPermissionMapping), old.(*policy.FieldPermissionMapping)
	m.Status = *before.Status.DeepCopy()
	m.Generation = before.Generation
	if !sameSpec(m, before) {
		m.Generation++
	}
}

func sameSpec(a, b *policy.FieldPermissionMapping) bool {
	return apiequality.Semantic.DeepEqual(a.Spec, b.Spec)
}

func (s strategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	m := obj.(*policy.FieldPermissionMapping)
	errs := validation.ValidateFieldPermissionMapping(m)
	if len(errs) == 0 {
		_, errs = s.checker(m.Name, &m.Spec)
	}
	return errs
}

// ValidateUpdate does not check what was stored before and is being deleted: should it have
// become invalid, nobody could remove its last finalizer.
func (s strategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	m, before := obj.(*policy.FieldPermissionMapping), old.(*policy.FieldPermissionMapping)
	errs := validation.ValidateFieldPermissionMappingUpdate(m, before)
	if len(errs) == 0 && (before.DeletionTimestamp == nil || !sameSpec(m, before)) {
		_, errs = s.checker(m.Name, &m.Spec)
	}
	return errs
}

// AllowCreateOnUpdate keeps a PUT from creating mappings. Server-side apply does so whatever
// this says.
func (strategy) AllowCreateOnUpdate(context.Context) bool { return false }

// AllowUnconditionalUpdate lets a PUT without resourceVersion replace a mapping, as it does
// a policy.
func (strategy) AllowUnconditionalUpdate(context.Context) bool { return true }

func (strategy) Canonicalize(runtime.Object) {}

func (s strategy) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	m := obj.(*policy.FieldPermissionMapping)
	warnings, _ := s.checker(m.Name, &m.Spec)
	return warnings
}

// WarningsOnUpdate does not repeat itself to those who change something else.
func (s strategy) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string {
	if sameSpec(obj.(*policy.FieldPermissionMapping), old.(*policy.FieldPermissionMapping)) {
		return nil
	}
	return s.WarningsOnCreate(ctx, obj)
}

func (strategy) DefaultGarbageCollectionPolicy(context.Context) rest.GarbageCollectionPolicy {
	return rest.DeleteDependents
}

func (strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return resetFields("status")
}

// statusStrategy is how the status of mappings is changed: nothing but the status.
type statusStrategy struct {
	strategy
}

func (statusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	m, before := obj.(*policy.FieldPermissionMapping), old.(*policy.FieldPermissionMapping)
	managed := m.ManagedFields
	before.ObjectMeta.DeepCopyInto(&m.ObjectMeta)
	before.Spec.DeepCopyInto(&m.Spec)
	m.ManagedFields = managed
}

func (statusStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return validation.ValidateFieldPermissionMappingStatusUpdate(obj.(*policy.FieldPermissionMapping), old.(*policy.FieldPermissionMapping))
}

func (statusStrategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

func (statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return resetFields("spec", "metadata")
}

func resetFields(names ...string) map[fieldpath.APIVersion]*fieldpath.Set {
	set := fieldpath.NewSet()
	for _, name := range names {
		set.Insert(fieldpath.MakePathOrDie(name))
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(v1alpha1.SchemeGroupVersion.String()): set}
}
