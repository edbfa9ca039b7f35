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
//   - Few policies are written at the same time, since each is compiled: see stored.NewWrites.
//   - The status is written through /status only, and /status writes nothing else.
//
// It uses CEL through Checker only, and must not import pkg/policy.
package authorizationpolicy

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/apis/policy/validation"
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

// NewClusterStorage returns the endpoints of clusterauthorizationpolicies.
func NewClusterStorage(scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter, checker Checker, authors *Authors) (*stored.Storage, error) {
	return newStorage(clusterKind, typed[*policy.ClusterAuthorizationPolicy]{
		Validate: validation.ValidateClusterAuthorizationPolicy, ValidateUpdate: validation.ValidateClusterAuthorizationPolicyUpdate,
		ValidateStatusUpdate: validation.ValidateClusterAuthorizationPolicyStatusUpdate,
	}, scheme, optsGetter, checker, authors)
}

// NewStorage returns the endpoints of authorizationpolicies.
func NewStorage(scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter, checker Checker, authors *Authors) (*stored.Storage, error) {
	return newStorage(namespacedKind, typed[*policy.AuthorizationPolicy]{
		Validate: validation.ValidateAuthorizationPolicy, ValidateUpdate: validation.ValidateAuthorizationPolicyUpdate,
		ValidateStatusUpdate: validation.ValidateAuthorizationPolicyStatusUpdate,
	}, scheme, optsGetter, checker, authors)
}

// typed is a kind of policies of type T.
type typed[T runtime.Object] = stored.Kind[T, policy.AuthorizationPolicySpec, policy.AuthorizationPolicyStatus]

var errIncomplete = errors.New("a store of policies needs a checker and a guard over its authors")

// newStorage returns the endpoints of a kind, which of validates.
func newStorage[T runtime.Object](k kind, of typed[T], scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter, checker Checker, authors *Authors) (*stored.Storage, error) {
	if checker == nil || authors == nil {
		return nil, errIncomplete
	}
	of.Resource, of.Singular, of.Version = policy.Resource(k.resource), policy.Resource(k.singular), v1alpha1.SchemeGroupVersion
	of.ShortNames, of.Categories, of.Namespaced = []string{k.shortName}, []string{"authorization"}, k.namespaced
	of.New, of.NewList = k.newObject, k.newList
	of.Parts = func(obj T) parts { return mustParts(obj) }
	of.Check = func(p parts) ([]string, field.ErrorList) { return checker.Check(keyOf(p), p.Spec) }
	of.CheckChange = func(p parts, before *policy.AuthorizationPolicySpec) field.ErrorList {
		return checker.CheckChange(keyOf(p), p.Spec, before)
	}
	of.Warn = func(ctx context.Context, obj T) []string {
		p := mustParts(obj)
		return checker.Warn(ctx, keyOf(p), p.Spec)
	}
	of.OwnFinalizers = []string{v1alpha1.BarrierFinalizer}
	of.Begin = stored.NewWrites("policies", k.namespaced)
	of.Guard = &guard{Authors: authors, kind: k, checksForOthers: checker.ChecksForOthers}
	of.Columns, of.Cells = columns, cells
	return stored.New(of, scheme, optsGetter)
}

// keyOf returns the key of a policy.
func keyOf(p parts) engine.Key { return engine.Key{Namespace: p.Meta.Namespace, Name: p.Meta.Name} }

// kind has the differences between the two kinds of policies.
type kind struct {
	resource, singular, shortName string
	namespaced                    bool
	newObject, newList            func() runtime.Object
}

var (
	clusterKind = kind{
		resource: "clusterauthorizationpolicies", singular: "clusterauthorizationpolicy", shortName: "cap",
		newObject: func() runtime.Object { return &policy.ClusterAuthorizationPolicy{} },
		newList:   func() runtime.Object { return &policy.ClusterAuthorizationPolicyList{} },
	}
	namespacedKind = kind{
		resource: "authorizationpolicies", singular: "authorizationpolicy", shortName: "ap", namespaced: true,
		newObject: func() runtime.Object { return &policy.AuthorizationPolicy{} },
		newList:   func() runtime.Object { return &policy.AuthorizationPolicyList{} },
	}
)

// parts are the parts of a policy of either kind.
type parts = stored.Parts[policy.AuthorizationPolicySpec, policy.AuthorizationPolicyStatus]

func partsOf(obj runtime.Object) (parts, error) {
	switch p := obj.(type) {
	case *policy.ClusterAuthorizationPolicy:
		return parts{Meta: &p.ObjectMeta, Spec: &p.Spec, Status: &p.Status}, nil
	case *policy.AuthorizationPolicy:
		return parts{Meta: &p.ObjectMeta, Spec: &p.Spec, Status: &p.Status}, nil
	default:
		return parts{}, fmt.Errorf("not a policy: %T", obj)
	}
}

// mustParts is partsOf for an object of one of the two kinds.
func mustParts(obj runtime.Object) parts {
	p, err := partsOf(obj)
	if err != nil {
		panic(err)
	}
	return p
}
