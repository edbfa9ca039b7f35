/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestNamespacesAreNotReadFromAnOldCache lets kube-apiserver fall silent. Namespaces are then read from kube-apiserver at
// admission, and not at all at the front door, until it tells about a namespace again.
func TestNamespacesAreNotReadFromAnOldCache(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"env": "dev"}}}
		client := fake.NewClientset(namespace)
		factory := informers.NewSharedInformerFactory(client, 0)
		n := newNamespaces(factory, client)
		check := func(when string, isCached, isAsked bool) {
			t.Helper()
			client.ClearActions()
			data, ok := n.cached("n")
			if ok != isCached || ok && labelOf(t, data) != "dev" {
				t.Errorf("%s: the cache has %v, %v", when, data, ok)
			}
			if len(client.Actions()) > 0 {
				t.Errorf("%s: the cache alone asked for %v", when, client.Actions())
			}
			if data, err := n.read("n"); err != nil || labelOf(t, data) != "dev" {
				t.Errorf("%s: read %v, %v", when, data, err)
			}
			if asked := len(client.Actions()) > 0; asked != isAsked {
				t.Errorf("%s: asked for %v", when, client.Actions())
			}
		}
		check("before the informer runs", false, true)
		ctx, stop := context.WithCancel(t.Context())
		factory.StartWithContext(ctx)
		defer factory.Shutdown()
		defer stop()
		factory.WaitForCacheSync(t.Context().Done())
		check("after the sync", true, false)
		time.Sleep(namespaceStalenessBound - time.Second)
		check("within the bound", true, false)
		time.Sleep(2 * time.Second)
		check("after the bound", false, true)
		namespace.Annotations = map[string]string{"changed": "true"}
		if _, err := client.CoreV1().Namespaces().Update(t.Context(), namespace, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		check("after an event", true, false)
		if _, ok := n.cached("other"); ok {
			t.Error("there is another namespace")
		}
	})
}

// TestInterruptedListsDoNotCount lets a watch connection break before it has delivered all namespaces, and others that deliver
// an error.
func TestInterruptedListsDoNotCount(t *testing.T) {
	t.Parallel()
	complete := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	for _, tc := range []struct {
		name    string
		initial bool
		events  []watch.Event
		want    bool
	}{
		{"an object of a list", true, []watch.Event{{Type: watch.Added, Object: &corev1.Namespace{}}}, false},
		{"a whole list", true, []watch.Event{{Type: watch.Added, Object: &corev1.Namespace{}}, {Type: watch.Bookmark, Object: complete}}, true},
		{"a change", false, []watch.Event{{Type: watch.Modified, Object: &corev1.Namespace{}}}, true},
		{"a bookmark", false, []watch.Event{{Type: watch.Bookmark, Object: &corev1.Namespace{}}}, true},
		{"an error", false, []watch.Event{{Type: watch.Error, Object: &metav1.Status{}}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			client, events := fake.NewClientset(), watch.NewFakeWithChanSize(len(tc.events), false)
			client.PrependWatchReactor("namespaces", clienttesting.DefaultWatchReactor(events, nil))
			n := newNamespaces(informers.NewSharedInformerFactory(client, 0), client)
			watched, err := n.listWatch(client).WatchFuncWithContext(t.Context(), metav1.ListOptions{SendInitialEvents: &tc.initial})
			if err != nil {
				t.Fatal(err)
			}
			for _, event := range tc.events {
				events.Action(event.Type, event.Object)
				<-watched.ResultChan()
			}
			watched.Stop()
			if got := n.freshness.Stale() == ""; got != tc.want {
				t.Errorf("up to date: %v, want %v", got, tc.want)
			}
		})
	}
}

func labelOf(t *testing.T, data map[string]any) string {
	t.Helper()
	label, _, err := unstructured.NestedString(data, "metadata", "labels", "env")
	if err != nil {
		t.Fatal(err)
	}
	return label
}
