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

// MappingRow is a mapping in a table in YAML.
type MappingRow struct {
	Name     string // m if it is not given
	Resource string // such as deployments.apps; machines.example.com if it is not given
	Nowhere  bool   // without resources
	Versions []string
	Fields   []policy.FieldPermission
}

// Mapping returns the mapping.
func (r MappingRow) Mapping() *policy.FieldPermissionMapping {
	name := r.Name
	if name == "" {
		name = "m"
	}
	m := Mapping(name, Spec(r.Fields...), r.Versions...)
	if r.Resource != "" {
		resource := schema.ParseGroupResource(r.Resource)
		m.Spec.Resources[0].APIGroup, m.Spec.Resources[0].Resource = resource.Group, resource.Resource
	}
	if r.Nowhere {
		m.Spec.Resources = nil
	}
	return m
}

// Mappings returns the mappings of rows.
func Mappings(rows []MappingRow) (mappings []*policy.FieldPermissionMapping) {
	for _, row := range rows {
		mappings = append(mappings, row.Mapping())
	}
	return mappings
}
