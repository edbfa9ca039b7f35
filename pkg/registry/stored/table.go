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
)

// ConvertToTable returns the table of one object or of a list, without the columns if the client has them already. It returns an error for
// objects of another kind.
func (s strategy[T, Spec, Status]) ConvertToTable(_ context.Context, object, tableOptions runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{}
	if options, ok := tableOptions.(*metav1.TableOptions); !ok || !options.NoHeaders {
		table.ColumnDefinitions = s.kind.Columns
	}
	if list, err := apimeta.ListAccessor(object); err == nil {
		table.ResourceVersion, table.Continue, table.RemainingItemCount = list.GetResourceVersion(), list.GetContinue(), list.GetRemainingItemCount()
	} else if single, err := apimeta.Accessor(object); err == nil {
		table.ResourceVersion = single.GetResourceVersion()
	}
	rows, err := metatable.MetaToTableRow(object, func(obj runtime.Object, _ metav1.Object, name, age string) ([]any, error) {
		if of, ok := obj.(T); ok {
			return s.kind.Cells(s.kind.Parts(of), name, age), nil
		}
		return nil, fmt.Errorf("not of %s: %T", s.kind.Resource, obj)
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
