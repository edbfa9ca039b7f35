/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package authorizationpolicy stores ClusterAuthorizationPolicy and AuthorizationPolicy of policy.proviso.dev, and
// serves their status. The two differ in their scope only, so that there is one implementation.
//
// Invariants:
//
//   - Every write is validated, updates as strictly as creations, and a policy that does not compile is not stored.
//   - An author cannot write a policy that grants more than the author could grant, cannot create, change or
//     remove a restriction without permission, and cannot learn from a condition what others may do: see Authors. This holds for every way of writing, dry runs included,
//     and for the object after mutating admission.
//   - Few policies are written at the same time, since each is compiled: see stored.Writes.
//   - The status is written through /status only, and /status writes nothing else.
//
// It uses CEL through Checker only, and must not import pkg/policy.
package authorizationpolicy

import (
	"context"
	"errors"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
)

// Checker compiles policies. It is called with specifications that are valid in structure,
// possibly more than once for one write, and must be safe for concurrent use.
type Checker interface {
	// Check returns the errors in the expressions of a specification, and in its rules as far as
	// its condition causes them, and warnings for the author. The conditions of namespaced policies
	// have tighter limits.
	Check(key engine.Key, spec *policy.AuthorizationPolicySpec) (warnings []string, errs field.ErrorList)
	// CheckChange returns errors about a creation, or about a change of the specification before, which Check accepts.
	CheckChange(key engine.Key, spec, before *policy.AuthorizationPolicySpec) field.ErrorList
	// Warn returns other warnings about the policy with a key and a specification without errors. It must bound the time that it takes.
	Warn(ctx context.Context, key engine.Key, spec *policy.AuthorizationPolicySpec) []string
	// ChecksForOthers reports whether the condition of a specification may make checks for a service account outside a namespace. If the namespace is
	// empty, every service account is outside.
	ChecksForOthers(spec *policy.AuthorizationPolicySpec, namespace string) bool
}

// Storage holds the endpoints of one kind of policies.
type Storage struct {
	// Policy serves the policies themselves.
	Policy *stored.REST
	// Status serves their status.
	Status *stored.StatusREST
}

// NewClusterStorage returns the endpoints of clusterauthorizationpolicies.
func NewClusterStorage(scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter, checker Checker, authors *Authors) (*Storage, error) {
	return newStorage(clusterKind, scheme, optsGetter, checker, authors)
}

// NewStorage returns the endpoints of authorizationpolicies.
func NewStorage(scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter, checker Checker, authors *Authors) (*Storage, error) {
	return newStorage(namespacedKind, scheme, optsGetter, checker, authors)
}

var errIncomplete = errors.New("a store of policies needs a checker and a guard over its authors")

func newStorage(k kind, scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter, checker Checker, authors *Authors) (*Storage, error) {
	if checker == nil || authors == nil {
		return nil, errIncomplete
	}
	policies, status, err := stored.New(stored.Kind[policy.AuthorizationPolicySpec, policy.AuthorizationPolicyStatus]{
		Resource:             policy.Resource(k.resource),
		Singular:             policy.Resource(k.singular),
		Version:              v1alpha1.SchemeGroupVersion,
		ShortNames:           []string{k.shortName},
		Categories:           []string{"authorization"},
		Namespaced:           k.namespaced,
		New:                  k.newObject,
		NewList:              k.newList,
		Parts:                mustParts,
		Validate:             validate,
		ValidateUpdate:       validateUpdate,
		ValidateStatusUpdate: validateStatusUpdate,
		Check: func(obj runtime.Object) ([]string, field.ErrorList) {
			parts := mustParts(obj)
			return checker.Check(keyOf(parts), parts.Spec)
		},
		CheckChange: func(obj, old runtime.Object) field.ErrorList {
			parts := mustParts(obj)
			var before *policy.AuthorizationPolicySpec
			if old != nil {
				before = mustParts(old).Spec
			}
			return checker.CheckChange(keyOf(parts), parts.Spec, before)
		},
		Warn: func(ctx context.Context, obj runtime.Object) []string {
			parts := mustParts(obj)
			return checker.Warn(ctx, keyOf(parts), parts.Spec)
		},
		OwnFinalizers: []string{v1alpha1.BarrierFinalizer},
		Begin:         stored.NewWrites("policies", k.namespaced).Begin,
		Guard:         &guard{authors: authors, kind: k, checksForOthers: checker.ChecksForOthers},
		Table:         table,
	}, scheme, optsGetter)
	if err != nil {
		return nil, err
	}
	return &Storage{Policy: policies, Status: status}, nil
}

// keyOf returns the key of a policy.
func keyOf(p parts) engine.Key { return engine.Key{Namespace: p.Meta.Namespace, Name: p.Meta.Name} }

// sameSpec reports whether two policies have equal specifications.
func sameSpec(a, b parts) bool { return apiequality.Semantic.DeepEqual(a.Spec, b.Spec) }
