/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationpolicy

import (
	"context"
	"fmt"

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

// strategy is how policies are created and changed. It owns status and generation: a
// write to the policy itself touches neither.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	kind    kind
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

func newStrategy(k kind, typer runtime.ObjectTyper, checker Checker) strategy {
	return strategy{ObjectTyper: typer, NameGenerator: names.SimpleNameGenerator, kind: k, checker: checker}
}

func (s strategy) NamespaceScoped() bool { return s.kind.namespaced }

func (strategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	p := mustParts(obj)
	*p.status = policy.AuthorizationPolicyStatus{}
	p.meta.Generation = 1
}

func (strategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	p, before := mustParts(obj), mustParts(old)
	*p.status = *before.status.DeepCopy()
	p.meta.Generation = before.meta.Generation
	if !sameSpec(p, before) {
		p.meta.Generation++
	}
}

// sameSpec reports whether two policies say the same.
func sameSpec(a, b parts) bool { return apiequality.Semantic.DeepEqual(a.spec, b.spec) }

func (s strategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	errs := validate(obj)
	if len(errs) == 0 {
		_, errs = s.checker.Check(mustParts(obj).spec)
	}
	return errs
}

// ValidateUpdate does not compile what was stored before and is being deleted: should it
// have stopped compiling, nobody could remove its last finalizer.
func (s strategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	p, before := mustParts(obj), mustParts(old)
	errs := validateUpdate(obj, old)
	if len(errs) == 0 && (before.meta.DeletionTimestamp == nil || !sameSpec(p, before)) {
		_, errs = s.checker.Check(p.spec)
	}
	return errs
}

// AllowCreateOnUpdate keeps a PUT from creating policies. Server-side apply does so whatever
// this says.
func (strategy) AllowCreateOnUpdate(context.Context) bool { return false }

// AllowUnconditionalUpdate lets a PUT without resourceVersion replace a policy, as RBAC does
// with roles: who writes it has said all that it is to say.
func (strategy) AllowUnconditionalUpdate(context.Context) bool { return true }

func (strategy) Canonicalize(runtime.Object) {}

func (s strategy) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	return s.warnings(mustParts(obj).spec)
}

// WarningsOnUpdate does not repeat itself to those who change something else.
func (s strategy) WarningsOnUpdate(_ context.Context, obj, old runtime.Object) []string {
	p, before := mustParts(obj), mustParts(old)
	if sameSpec(p, before) {
		return nil
	}
	return s.warnings(p.spec)
}

func (s strategy) warnings(spec *policy.AuthorizationPolicySpec) []string {
	warnings, _ := s.checker.Check(spec)
	for i := range spec.Rules {
		// With the other effects it is an error.
		if spec.Effect == policy.PolicyEffectAllow && validation.NamelessVerb(&spec.Rules[i]) {
			warnings = append(warnings, fmt.Sprintf("spec.rules[%d].resourceNames: a POST has no name at authorization, nor has a deletecollection, so that none is allowed: write object.metadata.name, or oldObject.metadata.name, in the condition", i))
		}
	}
	return warnings
}

func (strategy) DefaultGarbageCollectionPolicy(context.Context) rest.GarbageCollectionPolicy {
	return rest.DeleteDependents
}

func (strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return resetFields("status")
}

// statusStrategy is how the status of policies is changed: nothing but the status.
type statusStrategy struct {
	strategy
}

func (statusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	p, before := mustParts(obj), mustParts(old)
	managed := p.meta.ManagedFields
	before.meta.DeepCopyInto(p.meta)
	before.spec.DeepCopyInto(p.spec)
	p.meta.ManagedFields = managed
}

func (statusStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return validateStatusUpdate(obj, old)
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
