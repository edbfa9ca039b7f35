/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package things

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proviso-authz/proviso/apis/policy"
)

// Machines is the resource of things.
var Machines = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "machines"}

// Spec is the specification of a mapping for fields of machines.
func Spec(fields ...policy.FieldPermission) *policy.FieldPermissionMappingSpec {
	return &policy.FieldPermissionMappingSpec{
		Resources: []policy.FieldPermissionResource{{APIGroup: Machines.Group, Resource: Machines.Resource}}, Fields: fields,
	}
}

// Mapping is a mapping for some versions of the first resource of a specification, for all if there
// are none.
func Mapping(name string, spec *policy.FieldPermissionMappingSpec, versions ...string) *policy.FieldPermissionMapping {
	m := &policy.FieldPermissionMapping{Spec: *spec}
	m.Name = name
	m.Spec.Resources = slices.Clone(m.Spec.Resources)
	m.Spec.Resources[0].APIVersions = versions
	return m
}

// Field is a field with a permission.
func Field(path, permission string) policy.FieldPermission {
	return policy.FieldPermission{Path: path, Permission: permission}
}

// Parameterized is a field with a permission that has a parameter.
func Parameterized(path, permission string, p policy.FieldPermissionParameter) policy.FieldPermission {
	return policy.FieldPermission{Path: path, Permission: permission, Parameter: &p}
}

// Excluded is a field that is excluded from general permission, for some new values or for all if
// newValues is empty.
func Excluded(path, permission, newValues string) policy.FieldPermission {
	return policy.FieldPermission{Path: path, Permission: permission, Exclusion: &policy.FieldExclusion{NewValues: newValues}}
}
