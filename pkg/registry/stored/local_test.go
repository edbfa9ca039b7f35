/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored_test

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
)

// newLocal returns a fixture with a watch cache, and a Local of its objects.
func newLocal(t *testing.T) (*fixture, *stored.Local) {
	t.Helper()
	f := newFixtureWith(t, nil, genericregistry.StorageWithCacher())
	local := stored.NewLocal(f.REST, f.scheme, v1alpha1.SchemeGroupVersion)
	for { // until the watch cache is ready
		events, err := local.Watch(t.Context(), metav1.ListOptions{})
		if err == nil {
			events.Stop()
			return f, local
		}
		if !apierrors.IsTooManyRequests(err) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func mustList(t *testing.T, local *stored.Local, options metav1.ListOptions) *v1alpha1.VirtualMachineList {
	t.Helper()
	list, err := local.List(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	return list.(*v1alpha1.VirtualMachineList)
}

// TestLocalLists lists objects of all namespaces, in a version of the API.
func TestLocalLists(t *testing.T) {
	t.Parallel()
	f, local := newLocal(t)
	f.mustCreate(t, machine("a", "debian"), machine("b", "alpine"))
	if _, err := f.Create(genericapirequest.WithNamespace(t.Context(), "other"), machine("c", "debian"), nil, &metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	list := mustList(t, local, metav1.ListOptions{})
	if n := len(list.Items); n != 3 || list.Items[1].Spec.Image != "alpine" || list.Items[2].Namespace != "other" || list.ResourceVersion == "" {
		t.Errorf("got %+v", list)
	}
	list.Items[0].Name, list.Items[0].ManagedFields = "mine", []metav1.ManagedFieldsEntry{{Manager: "me"}}
	if item := mustList(t, local, metav1.ListOptions{}).Items[0]; item.Name != "a" || item.ManagedFields != nil {
		t.Errorf("after a change of another list: got %+v", item)
	}
	if n := len(mustList(t, local, metav1.ListOptions{LabelSelector: "probe,!probe"}).Items); n != 0 {
		t.Errorf("got %d objects that a selector matches, want none", n)
	}
	if _, err := local.List(t.Context(), metav1.ListOptions{LabelSelector: "in in in"}); err == nil {
		t.Error("a selector is malformed: got no error")
	}
	if _, err := local.Watch(t.Context(), metav1.ListOptions{LabelSelector: "in in in"}); err == nil {
		t.Error("a selector is malformed: got no error for a watch")
	}
	revision, err := local.Revision(t.Context())
	if err != nil || revision < 3 {
		t.Errorf("got the revision %d and %v", revision, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := local.List(ended, metav1.ListOptions{}); err == nil {
		t.Error("the context has ended: got no error")
	}
}

// next returns the next event that is no bookmark.
func next(t *testing.T, events watch.Interface) watch.Event {
	t.Helper()
	for {
		select {
		case event := <-events.ResultChan():
			if event.Type != watch.Bookmark {
				return event
			}
		case <-time.After(30 * time.Second):
			t.Fatal("no event")
		}
	}
}

// TestLocalWatches has several watchers, which share what the watch cache makes for them. A change of the metadata that one of them got does not show to the others, nor in a list.
func TestLocalWatches(t *testing.T) {
	t.Parallel()
	f, local := newLocal(t)
	options := metav1.ListOptions{ResourceVersion: mustList(t, local, metav1.ListOptions{}).ResourceVersion}
	var watchers [4]watch.Interface
	for i := range watchers {
		var err error
		if watchers[i], err = local.Watch(t.Context(), options); err != nil {
			t.Fatal(err)
		}
		defer watchers[i].Stop()
	}
	f.mustCreate(t, machine("a", "debian"))
	for i, w := range watchers {
		event := next(t, w)
		added, ok := event.Object.(*v1alpha1.VirtualMachine)
		if event.Type != watch.Added || !ok || added.Name != "a" || added.Spec.Image != "debian" {
			t.Fatalf("watcher %d: got %s of %+v", i, event.Type, event.Object)
		}
		added.Name, added.ManagedFields = "mine", []metav1.ManagedFieldsEntry{{Manager: "me"}}
	}
	if item := mustList(t, local, metav1.ListOptions{}).Items[0]; item.Name != "a" || item.ManagedFields != nil {
		t.Errorf("got %+v, want the stored object", item)
	}
	if _, _, err := f.Delete(f.ctx(t), "a", nil, &metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if event := next(t, watchers[0]); event.Type != watch.Deleted || event.Object.(*v1alpha1.VirtualMachine).Name != "a" {
		t.Errorf("got %s of %+v", event.Type, event.Object)
	}
}

// TestLocalWatchEnds ends watches: when they are stopped, and after the time that the options say.
func TestLocalWatchEnds(t *testing.T) {
	t.Parallel()
	_, local := newLocal(t)
	for name, options := range map[string]metav1.ListOptions{"stopped": {}, "after a second": {TimeoutSeconds: ptr.To[int64](1)}} {
		events, err := local.Watch(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		if name == "stopped" {
			events.Stop()
		}
		for range events.ResultChan() {
			t.Logf("%s: got an event", name)
		}
		events.Stop()
	}
}

// TestLocalWatchHasTheInitialObjects delivers the stored objects first, and a bookmark after them, as an informer asks for.
func TestLocalWatchHasTheInitialObjects(t *testing.T) {
	t.Parallel()
	f, local := newLocal(t)
	f.mustCreate(t, machine("a", "debian"))
	events, err := local.Watch(t.Context(), metav1.ListOptions{
		SendInitialEvents: ptr.To(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	if event := <-events.ResultChan(); event.Type != watch.Added || event.Object.(*v1alpha1.VirtualMachine).Name != "a" {
		t.Errorf("got %s of %+v", event.Type, event.Object)
	}
	if event := <-events.ResultChan(); event.Type != watch.Bookmark || event.Object.(*v1alpha1.VirtualMachine).Annotations[metav1.InitialEventsAnnotationKey] != "true" {
		t.Errorf("got %s of %+v, want the bookmark after the initial objects", event.Type, event.Object)
	}
}
