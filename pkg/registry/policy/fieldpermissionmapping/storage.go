/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package fieldpermissionmapping stores FieldPermissionMapping of policy.proviso.dev, and serves its status.
//
// Invariants:
//
//   - Every write is validated, updates as strictly as creations, and an invalid mapping is not stored.
//   - Few mappings are written at the same time, since each is compiled: see stored.NewWrites.
//   - The status is written through /status only, and /status writes nothing else.
//   - A mapping decides which verbs fields need, and a change can remove a restriction. Its author needs the verb restrict on it,
//     in addition to the permission for the request itself.
//
// It checks paths, permissions and expressions through Checker only.
package fieldpermissionmapping

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/apis/policy/validation"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
)

const (
	resource = "fieldpermissionmappings"
	singular = "fieldpermissionmapping"
	// verbRestrict lets a user write mappings. It is the same verb as for Deny policies.
	verbRestrict = "restrict"
)

// Checker checks the content of mappings. It is called with specifications that are valid in
// structure, possibly more than once for one write, and must be safe for concurrent use.
type Checker func(name string, spec *policy.FieldPermissionMappingSpec) (warnings []string, errs field.ErrorList)

// Warner returns more warnings about a mapping that is valid. It may be nil.
type Warner func(ctx context.Context, m *policy.FieldPermissionMapping) []string

var errIncomplete = errors.New("a store of mappings needs a checker and an authorizer of their authors")

// NewStorage returns the endpoints of fieldpermissionmappings. authors decides which users may
// write them, without conditions.
func NewStorage(scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter, checker Checker, warner Warner, authors authorizer.UnconditionalAuthorizer) (*stored.Storage, error) {
	if checker == nil || authors == nil {
		return nil, errIncomplete
	}
	//guard:mappings-many-writes
	return stored.New(stored.Kind[*policy.FieldPermissionMapping, policy.FieldPermissionMappingSpec, policy.FieldPermissionMappingStatus]{
		Resource:   policy.Resource(resource),
		Singular:   policy.Resource(singular),
		Version:    v1alpha1.SchemeGroupVersion,
		ShortNames: []string{"fpm"},
		Categories: []string{"authorization"},
		New:        func() runtime.Object { return &policy.FieldPermissionMapping{} },
		NewList:    func() runtime.Object { return &policy.FieldPermissionMappingList{} },
		Parts: func(m *policy.FieldPermissionMapping) parts {
			return parts{Meta: &m.ObjectMeta, Spec: &m.Spec, Status: &m.Status}
		},
		Validate:             validation.ValidateFieldPermissionMapping,
		ValidateUpdate:       validation.ValidateFieldPermissionMappingUpdate,
		ValidateStatusUpdate: validation.ValidateFieldPermissionMappingStatusUpdate,
		Check:                func(p parts) ([]string, field.ErrorList) { return checker(p.Meta.Name, p.Spec) },
		Warn:                 warner,
		OwnFinalizers:        []string{v1alpha1.BarrierFinalizer},
		Begin:                stored.NewWrites("mappings", false),
		Guard: &stored.VerbGuard{
			Authors: authors, Verb: verbRestrict, Resource: policy.Resource(resource), Version: v1alpha1.SchemeGroupVersion.Version,
			Writes: "create, change or delete a mapping, which decides which verbs fields need",
			Spec:   func(obj runtime.Object) any { return obj.(*policy.FieldPermissionMapping).Spec },
		},
		Columns: columns,
		Cells:   cells,
	}, scheme, optsGetter)
}

// parts are the parts of a mapping.
type parts = stored.Parts[policy.FieldPermissionMappingSpec, policy.FieldPermissionMappingStatus]

// columns are the columns of the table of mappings.
var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "Name of the mapping"},
	{Name: "Resources", Type: "string", Description: "Resources with these fields"},
	{Name: "Permissions", Type: "string", Description: "The permissions that the fields need"},
	{Name: "Excluded", Type: "string", Description: "Fields that permission on the object does not include"},
	{Name: "Ready", Type: "string", Description: "Whether the current version of the mapping is applied completely"},
	{Name: "Age", Type: "string", Description: "Time since the mapping was created"},
	{Name: "Description", Type: "string", Priority: 1, Description: "Purpose of the mapping"},
}

func cells(p parts, name, age string) []any {
	var resources, permissions, excluded []string
	for _, r := range p.Spec.Resources {
		resources = append(resources, schema.GroupResource{Group: r.APIGroup, Resource: r.Resource}.String())
	}
	for _, f := range p.Spec.Fields {
		permissions = append(permissions, f.Permission)
		if f.Exclusion != nil {
			excluded = append(excluded, f.Path)
		}
	}
	return []any{
		name, stored.ListCell(resources), stored.ListCell(permissions), stored.ListCell(excluded),
		stored.ConditionCell(p.Status.Conditions, policy.PolicyReady), age, stored.LineCell(p.Spec.Description),
	}
}
