/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// testTime is a time at which certificates of tests are valid.
var testTime = time.Now()

func managed(name string) *corev1.Namespace {
	return &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"team": "blue"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply}},
		},
		Spec:   corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}},
		Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	}
}

// TestCachedNamespaces reads namespaces as the front door does, which must not wait: what the cache does not have, or
// not yet, is unknown.
func TestCachedNamespaces(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(managed("n"))
	factory := informers.NewSharedInformerFactory(client, 0)
	read := newNamespaces(factory, client).cached
	informer := factory.Core().V1().Namespaces()
	if data, ok := read("n"); ok {
		t.Errorf("before the cache is complete: got %v, want nothing", data)
	}
	if err := informer.Informer().GetStore().Add(managed("early")); err != nil {
		t.Fatal(err)
	}
	if data, ok := read("early"); ok {
		t.Errorf("a cache that is not complete may be out of date: got %v, want nothing", data)
	}
	factory.Start(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), informer.Informer().HasSynced) {
		t.Fatal("the cache does not fill")
	}
	want := map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "spec": map[string]any{}, "status": map[string]any{},
		"metadata": map[string]any{"name": "n", "labels": map[string]any{"team": "blue"}},
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			data, ok := read("n")
			if diff := cmp.Diff(want, data); !ok || diff != "" {
				t.Errorf("got %v (-want +got):\n%s", ok, diff)
				return
			}
			data["metadata"].(map[string]any)["name"] = "changed" // by a caller that may do so
		})
	}
	group.Wait()
	stored, err := informer.Lister().Get("n")
	if err != nil {
		t.Fatal(err)
	}
	if len(stored.ManagedFields) != 1 || stored.Kind != "" || stored.Name != "n" {
		t.Errorf("reading has changed the cache: %+v", stored)
	}
	if data, ok := read("missing"); ok {
		t.Errorf("missing: got %v, want nothing", data)
	}
	if n := len(client.Actions()); n > 2 {
		t.Errorf("got %d requests, want at most the two of the informer: %v", n, client.Actions())
	}
}

// TestNamespacesThatAreNotCached reads namespaces as enforcement does, which may call kube-apiserver.
func TestNamespacesThatAreNotCached(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		cached    *corev1.Namespace
		fail      error
		wantErr   string
		wantCalls int
	}{
		{name: "cached", cached: managed("n")},
		{name: "cached, with kube-apiserver down", cached: managed("n"), fail: errors.New("down")},
		{name: "only kube-apiserver has it", wantCalls: 1},
		{name: "kube-apiserver is down", fail: errors.New("down"), wantErr: `namespace "n": down`, wantCalls: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(managed("n"))
			if tc.fail != nil {
				client.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.fail })
			}
			factory := informers.NewSharedInformerFactory(client, 0)
			n := newNamespaces(factory, client)
			if tc.cached != nil {
				n.heardAt(time.Now())
				if err := factory.Core().V1().Namespaces().Informer().GetStore().Add(tc.cached); err != nil {
					t.Fatal(err)
				}
			}
			data, err := n.read("n")
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("got %v, want %q", err, tc.wantErr)
			}
			if err == nil && (data["kind"] != "Namespace" || data["status"].(map[string]any)["phase"] != "Active") {
				t.Errorf("got %v, want the whole namespace", data)
			}
			if got := len(client.Actions()); got != tc.wantCalls {
				t.Errorf("got %d calls, want %d: %v", got, tc.wantCalls, client.Actions())
			}
		})
	}
	client := fake.NewClientset()
	n := newNamespaces(informers.NewSharedInformerFactory(client, 0), client)
	if data, err := n.read("missing"); err == nil || !strings.Contains(err.Error(), `namespaces "missing" not found`) {
		t.Errorf("a namespace that does not exist: got %v, %v", data, err)
	}
}

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
