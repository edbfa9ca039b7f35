/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package fieldpermissionmapping

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
)

// table prints mappings.
var table = stored.Table{
	Columns: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: "Name of the mapping"},
		{Name: "Resources", Type: "string", Description: "Resources with these fields"},
		{Name: "Permissions", Type: "string", Description: "The permissions that the fields need"},
		{Name: "Excluded", Type: "string", Description: "Fields that permission on the object does not include"},
		{Name: "Ready", Type: "string", Description: "Whether the current version of the mapping is applied completely"},
		{Name: "Age", Type: "string", Description: "Time since the mapping was created"},
		{Name: "Description", Type: "string", Priority: 1, Description: "Purpose of the mapping"},
	},
	Cells: func(obj runtime.Object, name, age string) ([]any, error) {
		m, ok := obj.(*policy.FieldPermissionMapping)
		if !ok {
			return nil, fmt.Errorf("not a mapping: %T", obj)
		}
		var resources, permissions, excluded []string
		for _, r := range m.Spec.Resources {
			resources = append(resources, schema.GroupResource{Group: r.APIGroup, Resource: r.Resource}.String())
		}
		for _, f := range m.Spec.Fields {
			permissions = append(permissions, f.Permission)
			if f.Exclusion != nil {
				excluded = append(excluded, f.Path)
			}
		}
		return []any{
			name, stored.ListCell(resources), stored.ListCell(permissions), stored.ListCell(excluded),
			stored.ConditionCell(m.Status.Conditions, policy.PolicyReady), age, stored.LineCell(m.Spec.Description),
		}, nil
	},
}
