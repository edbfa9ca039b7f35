/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored

import (
	"context"
	"fmt"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Table prints objects, single or in a list, as the table that kubectl shows.
type Table struct {
	// Columns are the columns of the table.
	Columns []metav1.TableColumnDefinition
	// Cells returns the cells of one row, in the order of the columns. age is the time since the
	// object was created. It returns an error for an object of another kind.
	Cells func(obj runtime.Object, name, age string) ([]any, error)
}

var _ rest.TableConvertor = Table{}

// ConvertToTable returns the table, without the columns if the client has them already.
func (t Table) ConvertToTable(_ context.Context, object, tableOptions runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{}
	if options, ok := tableOptions.(*metav1.TableOptions); !ok || !options.NoHeaders {
		table.ColumnDefinitions = t.Columns
	}
	if list, err := apimeta.ListAccessor(object); err == nil {
		table.ResourceVersion, table.Continue, table.RemainingItemCount = list.GetResourceVersion(), list.GetContinue(), list.GetRemainingItemCount()
	} else if single, err := apimeta.Accessor(object); err == nil {
		table.ResourceVersion = single.GetResourceVersion()
	}
	rows, err := metatable.MetaToTableRow(object, func(obj runtime.Object, _ metav1.Object, name, age string) ([]any, error) {
		return t.Cells(obj, name, age)
	})
	table.Rows = rows
	return table, err
}

// shownEntries is the number of list entries that a cell shows.
const shownEntries = 3

// ListCell returns a cell with the first entries of a list and the number of the others.
func ListCell(entries []string) string {
	switch n := len(entries) - shownEntries; {
	case len(entries) == 0:
		return "<none>"
	case n > 0:
		return fmt.Sprintf("%s + %d more...", strings.Join(entries[:shownEntries], ","), n)
	}
	return strings.Join(entries, ",")
}

// ConditionCell returns the status of a condition, or Unknown if the condition is missing.
func ConditionCell(conditions []metav1.Condition, conditionType string) string {
	if found := apimeta.FindStatusCondition(conditions, conditionType); found != nil {
		return string(found.Status)
	}
	return string(metav1.ConditionUnknown)
}

// LineCell returns a text as one line.
func LineCell(text string) string { return strings.Join(strings.Fields(text), " ") }
