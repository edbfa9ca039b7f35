/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package fieldpermissionmapping stores FieldPermissionMapping of policy.proviso.dev, and
// serves its status.
//
// What holds in it:
//
//   - Every write is validated, updates as strictly as creations, and what cannot be used is
//     not stored.
//   - The status is written through /status only, and /status writes nothing else.
//   - A mapping decides what verbs stand for, and can lift a restriction. It is written by those
//     who have the verb restrict on it, besides the permission for the request itself.
//
// It knows paths, permissions and expressions through Checker only.
package fieldpermissionmapping

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
)

const (
	resource = "fieldpermissionmappings"
	singular = "fieldpermissionmapping"
)

// Checker checks what mappings say. It is called with specifications that are valid in
// structure, possibly more than once for one write, and must be safe for concurrent use.
type Checker func(name string, spec *policy.FieldPermissionMappingSpec) (warnings []string, errs field.ErrorList)

// Storage holds the endpoints of mappings.
type Storage struct {
	// Mapping serves the mappings themselves.
	Mapping *REST
	// Status serves their status.
	Status *stored.StatusREST
}

var errIncomplete = errors.New("a store of mappings needs a checker and an authorizer of their authors")

// NewStorage makes the endpoints of fieldpermissionmappings. The authorizer, whose answers
// are unconditional, says who may write them.
func NewStorage(scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter, checker Checker, authors authorizer.UnconditionalAuthorizer) (*Storage, error) {
	if checker == nil || authors == nil {
		return nil, errIncomplete
	}
	mappings := newStrategy(scheme, checker)
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return &policy.FieldPermissionMapping{} },
		NewListFunc:               func() runtime.Object { return &policy.FieldPermissionMappingList{} },
		PredicateFunc:             match,
		DefaultQualifiedResource:  policy.Resource(resource),
		SingularQualifiedResource: policy.Resource(singular),

		CreateStrategy:      mappings,
		UpdateStrategy:      mappings,
		DeleteStrategy:      mappings,
		ResetFieldsStrategy: mappings,

		TableConvertor: tableConvertor{},
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: optsGetter, AttrFunc: attributesOf}); err != nil {
		return nil, fmt.Errorf("completing the store of %s: %w", resource, err)
	}
	statusStore := *store
	statusStore.UpdateStrategy = statusStrategy{mappings}
	statusStore.ResetFieldsStrategy = statusStrategy{mappings}
	return &Storage{Mapping: &REST{Store: store, authors: authors}, Status: stored.NewStatusREST(&statusStore)}, nil
}

func attributesOf(obj runtime.Object) (labels.Set, fields.Set, error) {
	m, ok := obj.(*policy.FieldPermissionMapping)
	if !ok {
		return nil, nil, fmt.Errorf("not a mapping: %T", obj)
	}
	return m.Labels, generic.AddObjectMetaFieldsSet(fields.Set{}, &m.ObjectMeta, false), nil
}

func match(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
	return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: attributesOf}
}

// REST serves mappings. A method of the store that writes must be here, too.
type REST struct {
	*genericregistry.Store
	authors authorizer.UnconditionalAuthorizer
}

var (
	_ rest.StandardStorage              = &REST{}
	_ rest.ShortNamesProvider           = &REST{}
	_ rest.CategoriesProvider           = &REST{}
	_ rest.CorruptObjectDeleterProvider = &REST{}
)

// ShortNames lets kubectl call mappings fpm.
func (r *REST) ShortNames() []string { return []string{"fpm"} }

// Categories lets kubectl show them together with policies.
func (r *REST) Categories() []string { return []string{"authorization"} }

// RunsValidatingAdmission marks a storage that passes every validation callback on to its
// store.
func (r *REST) RunsValidatingAdmission() {}
