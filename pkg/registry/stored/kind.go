/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage/names"
)

// Parts are the parts of an object of a stored kind. They point into the object.
type Parts[Spec, Status any] struct {
	Meta   *metav1.ObjectMeta
	Spec   *Spec
	Status *Status
}

// Kind describes a kind of stored objects of type T. All functions are required unless stated otherwise.
type Kind[T runtime.Object, Spec, Status any] struct {
	// Resource and Singular are the plural and singular names of the resource.
	Resource, Singular schema.GroupResource
	// Version is the version in which the kind is served.
	Version schema.GroupVersion
	// ShortNames and Categories are other names that kubectl accepts.
	ShortNames, Categories []string
	Namespaced             bool
	// New and NewList return an empty object and an empty list, in the internal version.
	New, NewList func() runtime.Object
	// Parts returns the parts of an object.
	Parts func(obj T) Parts[Spec, Status]
	// Validate, ValidateUpdate and ValidateStatusUpdate return every structural error of a new
	// object, of a changed object, and of an object with a changed status.
	Validate             func(obj T) field.ErrorList
	ValidateUpdate       func(obj, old T) field.ErrorList
	ValidateStatusUpdate func(obj, old T) field.ErrorList
	// Check returns errors and warnings about a specification that is valid in structure. It may
	// be called several times for one write. Nil means that there is nothing else to check.
	Check func(Parts[Spec, Status]) (warnings []string, errs field.ErrorList)
	// CheckChange returns errors about a creation, for which before is nil, or about a change of the specification before, which Check accepts.
	// Nil means that there is nothing else to check.
	CheckChange func(_ Parts[Spec, Status], before *Spec) field.ErrorList
	// Warn returns more warnings about a specification that Check accepts. It may take some time, which it must bound, and it may
	// be called several times for one write. Nil means that there are no others.
	Warn func(ctx context.Context, obj T) []string
	// Begin waits until a creation or an update may begin. The write calls the returned function when it has ended. If Begin returns
	// an error, the write is refused. If the field is nil, no write waits.
	Begin func(ctx context.Context) (end func(), err error)
	// OwnFinalizers are finalizers that no user can add. A write of a user goes on without them: this server adds them itself.
	OwnFinalizers []string
	// CreateOnUpdate lets a PUT create an object. Server-side apply can always create one.
	CreateOnUpdate bool
	// Guard decides which users may write objects.
	Guard Guard
	// Columns are the columns of the table that kubectl prints. Cells returns the cells of one row, in the same order. age is the time since
	// the object was created.
	Columns []metav1.TableColumnDefinition
	Cells   func(_ Parts[Spec, Status], name, age string) []any
}

var errNoGuard = errors.New("without a guard, every author could write every object: use Unguarded if that is intended")

// Storage holds the endpoints of a kind.
type Storage struct {
	// Objects serves the objects themselves.
	Objects *REST
	// Status serves their status.
	Status *StatusREST
}

// New returns the endpoints of a kind.
func New[T runtime.Object, Spec, Status any](k Kind[T, Spec, Status], scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter) (*Storage, error) {
	if k.Guard == nil {
		return nil, fmt.Errorf("%s: %w", k.Resource, errNoGuard)
	}
	objects := strategy[T, Spec, Status]{ObjectTyper: scheme, NameGenerator: names.SimpleNameGenerator, kind: k}
	store := &genericregistry.Store{
		NewFunc:                   k.New,
		NewListFunc:               k.NewList,
		DefaultQualifiedResource:  k.Resource,
		SingularQualifiedResource: k.Singular,

		CreateStrategy:      objects,
		UpdateStrategy:      objects,
		DeleteStrategy:      objects,
		ResetFieldsStrategy: objects,

		TableConvertor: objects,
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: optsGetter}); err != nil {
		return nil, fmt.Errorf("completing the store of %s: %w", k.Resource, err)
	}
	status := *store
	status.UpdateStrategy, status.ResetFieldsStrategy = statusStrategy[T, Spec, Status]{objects}, statusStrategy[T, Spec, Status]{objects}
	return &Storage{
		Objects: &REST{Store: store, guard: k.Guard, begin: k.Begin, shortNames: k.ShortNames, categories: k.Categories}, Status: &StatusREST{store: &status},
	}, nil
}
