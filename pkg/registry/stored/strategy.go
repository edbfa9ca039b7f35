/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored

import (
	"context"
	"fmt"
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

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/excerpt"
)

// strategy decides how objects of a kind are created and changed. Clients cannot set status and generation by a write to the
// object: the status of a new object is empty and an update keeps it, and the generation counts changes of the specification.
type strategy[T runtime.Object, Spec, Status any] struct {
	runtime.ObjectTyper
	names.NameGenerator
	kind Kind[T, Spec, Status]
}

var (
	_ rest.RESTCreateStrategy              = strategy[runtime.Object, any, any]{}
	_ rest.RESTUpdateStrategy              = strategy[runtime.Object, any, any]{}
	_ rest.RESTDeleteStrategy              = strategy[runtime.Object, any, any]{}
	_ rest.ResetFieldsStrategy             = strategy[runtime.Object, any, any]{}
	_ rest.GarbageCollectionDeleteStrategy = strategy[runtime.Object, any, any]{}
	_ rest.TableConvertor                  = strategy[runtime.Object, any, any]{}
	_ rest.RESTUpdateStrategy              = statusStrategy[runtime.Object, any, any]{}
	_ rest.ResetFieldsStrategy             = statusStrategy[runtime.Object, any, any]{}
)

// parts returns the parts of an object that New or the store has created.
func (s strategy[T, Spec, Status]) parts(obj runtime.Object) Parts[Spec, Status] {
	return s.kind.Parts(obj.(T))
}

func (s strategy[T, Spec, Status]) NamespaceScoped() bool { return s.kind.Namespaced }

func (s strategy[T, Spec, Status]) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	parts := s.parts(obj)
	*parts.Status = *new(Status)
	parts.Meta.Generation = 1
	//guard:finalizers-own-at-creation
	s.dropFinalizers(ctx, parts.Meta, nil)
}

// dropFinalizers removes the finalizers that a user has added although only this server may.
func (s strategy[T, Spec, Status]) dropFinalizers(ctx context.Context, meta *metav1.ObjectMeta, before []string) {
	if who, ok := genericapirequest.UserFrom(ctx); ok && who.GetName() == user.APIServerUser {
		return
	}
	meta.Finalizers = slices.DeleteFunc(meta.Finalizers, func(finalizer string) bool {
		return slices.Contains(s.kind.OwnFinalizers, finalizer) && !slices.Contains(before, finalizer)
	})
}

func (s strategy[T, Spec, Status]) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	parts, before := s.parts(obj), s.parts(old.DeepCopyObject())
	//guard:finalizers-own-at-update
	s.dropFinalizers(ctx, parts.Meta, before.Meta.Finalizers)
	*parts.Status = *before.Status
	parts.Meta.Generation = before.Meta.Generation
	if !s.sameSpec(obj, old) {
		parts.Meta.Generation++
	}
}

func (s strategy[T, Spec, Status]) sameSpec(a, b runtime.Object) bool {
	return apiequality.Semantic.DeepEqual(s.parts(a).Spec, s.parts(b).Spec)
}

func (s strategy[T, Spec, Status]) check(obj runtime.Object) (warnings []string, errs field.ErrorList) {
	if s.kind.Check == nil {
		return nil, nil
	}
	return s.kind.Check(s.parts(obj))
}

func (s strategy[T, Spec, Status]) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	errs := s.kind.Validate(obj.(T))
	if len(errs) == 0 {
		_, errs = s.check(obj)
	}
	if len(errs) == 0 && s.kind.CheckChange != nil {
		//guard:errors-changes-creation
		errs = s.kind.CheckChange(s.parts(obj), nil)
	}
	return errs
}

// ValidateUpdate does not check an unchanged specification of an object that is being deleted. If such a
// specification has become invalid, its last finalizer can still be removed.
func (s strategy[T, Spec, Status]) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	errs := s.kind.ValidateUpdate(obj.(T), old.(T))
	if len(errs) == 0 && (s.parts(old).Meta.DeletionTimestamp == nil || !s.sameSpec(obj, old)) {
		_, errs = s.check(obj)
	}
	if len(errs) == 0 && s.kind.CheckChange != nil && !s.sameSpec(obj, old) {
		//guard:errors-changes-update
		errs = s.kind.CheckChange(s.parts(obj), s.parts(old).Spec)
	}
	return errs
}

// AllowCreateOnUpdate reports whether a PUT creates an object that does not exist. Server-side apply does not ask.
func (s strategy[T, Spec, Status]) AllowCreateOnUpdate(context.Context) bool {
	return s.kind.CreateOnUpdate
}

// AllowUnconditionalUpdate lets a PUT without resourceVersion replace an object, as for roles in RBAC.
func (strategy[T, Spec, Status]) AllowUnconditionalUpdate(context.Context) bool { return true }

func (strategy[T, Spec, Status]) Canonicalize(runtime.Object) {}

// WarningsOnCreate returns the warnings of Warn, and then the warnings of Check.
func (s strategy[T, Spec, Status]) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	warnings, _ := s.check(obj)
	if s.kind.Warn != nil {
		warnings = append(s.kind.Warn(ctx, obj.(T)), warnings...)
	}
	return boundedWarnings(warnings)
}

// WarningsOnUpdate returns warnings only if the specification changes, because they are about the
// specification.
func (s strategy[T, Spec, Status]) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string {
	if s.sameSpec(obj, old) {
		return nil
	}
	return s.WarningsOnCreate(ctx, obj)
}

func (strategy[T, Spec, Status]) DefaultGarbageCollectionPolicy(context.Context) rest.GarbageCollectionPolicy {
	return rest.DeleteDependents
}

func (s strategy[T, Spec, Status]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.resetFields(fieldpath.MakePathOrDie("status"))
}

func (s strategy[T, Spec, Status]) resetFields(fields ...fieldpath.Path) map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(s.kind.Version.String()): fieldpath.NewSet(fields...)}
}

// statusStrategy decides how the status of an object is changed. Other parts of the object stay
// unchanged.
type statusStrategy[T runtime.Object, Spec, Status any] struct {
	strategy[T, Spec, Status]
}

// AllowCreateOnUpdate returns false: a write to the status of a missing object does not create the
// object.
func (statusStrategy[T, Spec, Status]) AllowCreateOnUpdate(context.Context) bool { return false }

func (s statusStrategy[T, Spec, Status]) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	parts, before := s.parts(obj), s.parts(old.DeepCopyObject())
	managed := parts.Meta.ManagedFields
	*parts.Meta, *parts.Spec = *before.Meta, *before.Spec
	parts.Meta.ManagedFields = managed
}

func (s statusStrategy[T, Spec, Status]) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return s.kind.ValidateStatusUpdate(obj.(T), old.(T))
}

func (statusStrategy[T, Spec, Status]) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

func (s statusStrategy[T, Spec, Status]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.resetFields(fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("metadata"))
}

const (
	// maxWarningBytes bounds all warnings about one write. The generic server cuts every warning to 256 characters if there
	// are more than 4096, and then omits the last ones without a word. The rest is for its own warnings.
	maxWarningBytes = 3 << 10
	// maxOneWarningBytes bounds one warning, so that a long one leaves room for others.
	maxOneWarningBytes = 768
	// maxRestBytes is the room for the last warning, which says how many others there are.
	maxRestBytes = 64
)

// boundedWarnings returns warnings as the generic server can send them: in one line each, since it drops warnings with control
// characters, and not more than it sends. The first ones are kept, and the last one says how many others there are.
func boundedWarnings(warnings []string) []string {
	var result []string
	left := maxWarningBytes - maxRestBytes
	for i, warning := range warnings {
		line := excerpt.Of(authorization.OneLine(warning), maxOneWarningBytes)
		if len(line) > left {
			return append(result, fmt.Sprintf("there are %d more warnings", len(warnings)-i))
		}
		result = append(result, line)
		left -= len(line)
	}
	return result
}
