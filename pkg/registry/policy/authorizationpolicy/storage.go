/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package authorizationpolicy stores ClusterAuthorizationPolicy and AuthorizationPolicy of
// policy.proviso.dev, and serves their status. The two differ in their scope only, so that
// there is one implementation.
//
// What holds in it:
//
//   - Every write is validated, updates as strictly as creations, and what does not compile
//     is not stored.
//   - Nobody writes a policy that grants more than its author could grant, and nobody makes,
//     changes or lifts a restriction without the permission to: see Authors. This holds for
//     every way of writing, dry runs included, and on the object as mutating admission left it.
//   - The status is written through /status only, and /status writes nothing else.
//
// It knows CEL through Checker only, and must not import pkg/policy.
package authorizationpolicy

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
)

// Checker compiles policies. It is called with specifications that are valid in structure,
// possibly more than once for one write, and must be safe for concurrent use.
type Checker interface {
	// Check returns what is wrong with the expressions of a specification, under
	// spec.condition and spec.variables, and what its author should know about it.
	Check(spec *policy.AuthorizationPolicySpec) (warnings []string, errs field.ErrorList)
}

// Storage holds the endpoints of one kind of policies.
type Storage struct {
	// Policy serves the policies themselves.
	Policy *REST
	// Status serves their status.
	Status *stored.StatusREST
}

// NewClusterStorage makes the endpoints of clusterauthorizationpolicies.
func NewClusterStorage(scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter, checker Checker, authors *Authors) (*Storage, error) {
	return newStorage(clusterKind, scheme, optsGetter, checker, authors)
}

// NewStorage makes the endpoints of authorizationpolicies.
func NewStorage(scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter, checker Checker, authors *Authors) (*Storage, error) {
	return newStorage(namespacedKind, scheme, optsGetter, checker, authors)
}

var errIncomplete = errors.New("a store of policies needs a checker and a guard over its authors")

func newStorage(k kind, scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter, checker Checker, authors *Authors) (*Storage, error) {
	if checker == nil || authors == nil {
		return nil, errIncomplete
	}
	policies := newStrategy(k, scheme, checker)
	store := &genericregistry.Store{
		NewFunc:                   k.newObject,
		NewListFunc:               k.newList,
		PredicateFunc:             match,
		DefaultQualifiedResource:  policy.Resource(k.resource),
		SingularQualifiedResource: policy.Resource(k.singular),

		CreateStrategy:      policies,
		UpdateStrategy:      policies,
		DeleteStrategy:      policies,
		ResetFieldsStrategy: policies,

		TableConvertor: tableConvertor{},
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: optsGetter, AttrFunc: attributesOf}); err != nil {
		return nil, fmt.Errorf("completing the store of %s: %w", k.resource, err)
	}
	statusStore := *store
	statusStore.UpdateStrategy = statusStrategy{policies}
	statusStore.ResetFieldsStrategy = statusStrategy{policies}
	return &Storage{
		Policy: &REST{Store: store, kind: k, authors: authors},
		Status: stored.NewStatusREST(&statusStore),
	}, nil
}

// REST serves policies. It puts Authors in front of every write of the store: a method of
// the store that writes must be here, too.
type REST struct {
	*genericregistry.Store
	kind    kind
	authors *Authors
}

var (
	_ rest.StandardStorage              = &REST{}
	_ rest.ShortNamesProvider           = &REST{}
	_ rest.CategoriesProvider           = &REST{}
	_ rest.CorruptObjectDeleterProvider = &REST{}
)

// ShortNames lets kubectl call policies cap or ap.
func (r *REST) ShortNames() []string { return []string{r.kind.shortName} }

// Categories lets kubectl show both kinds at once.
func (r *REST) Categories() []string { return []string{"authorization"} }

// RunsValidatingAdmission marks a storage that passes every validation callback on to its
// store.
func (r *REST) RunsValidatingAdmission() {}

// Create creates a policy that its author may write.
func (r *REST) Create(ctx context.Context, obj runtime.Object, createValidation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	return r.Store.Create(ctx, obj, r.guardCreate(createValidation), options)
}

// Update changes a policy, or creates one by server-side apply, if its author may.
func (r *REST) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc, updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	guarded := func(ctx context.Context, obj, old runtime.Object) error {
		if err := r.authors.mayUpdate(ctx, r.kind, obj, old); err != nil || updateValidation == nil {
			return err
		}
		return updateValidation(ctx, obj, old)
	}
	return r.Store.Update(ctx, name, objInfo, r.guardCreate(createValidation), guarded, forceAllowCreate, options)
}

func (r *REST) guardCreate(next rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if err := r.authors.mayCreate(ctx, r.kind, obj); err != nil || next == nil {
			return err
		}
		return next(ctx, obj)
	}
}
