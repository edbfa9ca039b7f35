/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package conflicts has clients of tests refuse old objects.
package conflicts

import (
	"errors"
	"reflect"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

var errChanged = errors.New("the object has been modified")

// Client is a client of tests, such as fake.Clientset.
type Client interface {
	PrependReactor(verb, resource string, reaction clienttesting.ReactionFunc)
	Tracker() clienttesting.ObjectTracker
}

// Refuse has a client refuse the status of an object that has changed otherwise since it was read, as a server does by resource versions. Without this a
// controller that is behind takes the change back, because the client stores the whole object. It must be called before the client is used.
func Refuse(t *testing.T, client Client) {
	t.Helper()
	client.PrependReactor("update", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		object := action.(clienttesting.UpdateAction).GetObject()
		m, err := meta.Accessor(object)
		if err != nil || action.GetSubresource() != "status" {
			return false, nil, err
		}
		stored, err := client.Tracker().Get(action.GetResource(), m.GetNamespace(), m.GetName())
		if err != nil || reflect.DeepEqual(withoutStatus(t, stored), withoutStatus(t, object)) {
			return err != nil, nil, err
		}
		return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), m.GetName(), errChanged)
	})
}

func withoutStatus(t *testing.T, object runtime.Object) map[string]any {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Error(err)
	}
	delete(fields, "status")
	return fields
}
