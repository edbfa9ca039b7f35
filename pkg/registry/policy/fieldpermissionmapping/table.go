/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package fieldpermissionmapping

import (
	"context"
	"fmt"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proviso-authz/proviso/apis/policy"
)

// shownEntries is how many resources, permissions or fields a table shows.
const shownEntries = 3

// tableConvertor renders mappings as kubectl prints them.
type tableConvertor struct{}

var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "Name of the mapping"},
	{Name: "Resources", Type: "string", Description: "Whose fields are mapped"},
	{Name: "Permissions", Type: "string", Description: "The permissions that the fields need"},
	{Name: "Excluded", Type: "string", Description: "Fields that permission on the whole object does not include"},
	{Name: "Ready", Type: "string", Description: "Whether all of the mapping is in force"},
	{Name: "Age", Type: "string", Description: "Time since the mapping was created"},
	{Name: "Description", Type: "string", Priority: 1, Description: "What the mapping is for"},
}

func (tableConvertor) ConvertToTable(_ context.Context, object, tableOptions runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{}
	if options, ok := tableOptions.(*metav1.TableOptions); !ok || !options.NoHeaders {
		table.ColumnDefinitions = columns
	}
	if list, err := apimeta.ListAccessor(object); err == nil {
		table.ResourceVersion, table.Continue, table.RemainingItemCount = list.GetResourceVersion(), list.GetContinue(), list.GetRemainingItemCount()
	} else if single, err := apimeta.Accessor(object); err == nil {
		table.ResourceVersion = single.GetResourceVersion()
	}
	add := func(obj runtime.Object) error {
		m, ok := obj.(*policy.FieldPermissionMapping)
		if !ok {
			return fmt.Errorf("not a mapping: %T", obj)
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cellsOf(m), Object: runtime.RawExtension{Object: obj}})
		return nil
	}
	if apimeta.IsListType(object) {
		return table, apimeta.EachListItem(object, add)
	}
	return table, add(object)
}

func cellsOf(m *policy.FieldPermissionMapping) []any {
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
		m.Name, some(resources), some(permissions), some(excluded), readyOf(m),
		metatable.ConvertToHumanReadableDateType(m.CreationTimestamp), strings.Join(strings.Fields(m.Spec.Description), " "),
	}
}

func readyOf(m *policy.FieldPermissionMapping) string {
	if found := apimeta.FindStatusCondition(m.Status.Conditions, policy.PolicyReady); found != nil {
		return string(found.Status)
	}
	return string(metav1.ConditionUnknown)
}

func some(entries []string) string {
	switch n := len(entries) - shownEntries; {
	case len(entries) == 0:
		return "<none>"
	case n > 0:
		return fmt.Sprintf("%s + %d more...", strings.Join(entries[:shownEntries], ","), n)
	}
	return strings.Join(entries, ",")
}
