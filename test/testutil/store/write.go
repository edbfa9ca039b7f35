/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Updater is an endpoint for updates, of objects or of their status.
type Updater interface {
	Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc, updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error)
}

// Update changes a copy of the stored object.
func Update[Object runtime.Object](ctx context.Context, by Updater, name string, change func(Object)) (updated Object, err error) {
	got, _, err := by.Update(ctx, name, Changing(change), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	if err != nil {
		return updated, err
	}
	return got.(Object), nil
}

// Changing is an update that changes a copy of the stored object.
func Changing[Object runtime.Object](change func(Object)) rest.UpdatedObjectInfo {
	return rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		object := old.DeepCopyObject().(Object)
		change(object)
		return object, nil
	})
}

// Warnings records the warnings of a request.
type Warnings []string

// AddWarning adds a warning.
func (w *Warnings) AddWarning(_, text string) { *w = append(*w, text) }

// MessageOf returns the message that clients get with an error, empty if the error is no Status.
func MessageOf(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return ""
	}
	return status.Status().Message
}

// TableText writes a table: a line of columns with their priorities, and a line for each row.
func TableText(table *metav1.Table) string {
	var b strings.Builder
	for _, column := range table.ColumnDefinitions {
		fmt.Fprintf(&b, "%s (%d) | ", column.Name, column.Priority)
	}
	for _, row := range table.Rows {
		b.WriteString("\n")
		for _, cell := range row.Cells {
			fmt.Fprintf(&b, "%v | ", cell)
		}
	}
	return b.String() + "\n"
}

// Flood sends writes at once: some fit, and the others must be refused with a delay. Those that fit wait: their results
// come from the channel.
func Flood(t *testing.T, sent, fit int, send func(i int) error) <-chan error {
	t.Helper()
	results := make(chan error, sent)
	for i := range sent {
		go func() { results <- send(i) }()
	}
	for range sent - fit {
		err := <-results
		if after, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || !ok || after < 1 {
			t.Fatalf("got %v, want 429 with a delay", err)
		}
	}
	return results
}
