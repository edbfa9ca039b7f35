/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/pkg/controller"
	"github.com/proviso-authz/proviso/pkg/freshness"
)

// namespaceStalenessBound is how long namespaces are read from the cache after the last message of kube-apiserver about them.
// kube-apiserver sends a bookmark every minute if no namespace changes.
const namespaceStalenessBound = 5 * time.Minute

// namespaces reads the namespaces of the cluster. The method cached reads from a cache alone. The method read also calls
// kube-apiserver, if the cache does not have the namespace or is not up to date. Both are safe for concurrent use.
type namespaces struct {
	freshness freshness.Tracker
	informer  cache.SharedIndexInformer
	lister    corev1listers.NamespaceLister
	client    kubernetes.Interface
}

// newNamespaces makes the informer of namespaces that all users of the factory share. It must be called before others make it.
func newNamespaces(factory informers.SharedInformerFactory, client kubernetes.Interface) *namespaces {
	n := &namespaces{client: client}
	n.freshness.SetStale("namespaces have not been loaded yet")
	n.informer = informerFor(factory, &corev1.Namespace{}, n.listWatch)
	n.lister = corev1listers.NewNamespaceLister(n.informer.GetIndexer())
	return n
}

// listWatch returns a ListWatch of all namespaces that notes when kube-apiserver has told about them.
func (n *namespaces) listWatch(client kubernetes.Interface) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			started := time.Now()
			list, err := client.CoreV1().Namespaces().List(ctx, options)
			if err == nil {
				n.heardAt(started)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := client.CoreV1().Namespaces().Watch(ctx, options)
			if err != nil {
				return nil, err
			}
			isComplete := !ptr.Deref(options.SendInitialEvents, false)
			return watch.Filter(events, func(event watch.Event) (watch.Event, bool) {
				isComplete = isComplete || controller.EndsInitialEvents(event)
				//guard:namespaces-part-list
				if isComplete && event.Type != watch.Error {
					n.heardAt(time.Now())
				}
				return event, true
			}), nil
		},
	}
}

func (n *namespaces) heardAt(at time.Time) {
	n.freshness.SetFresh(at, namespaceStalenessBound, "kube-apiserver has told nothing about namespaces for more than "+namespaceStalenessBound.String())
}

// cached reads a namespace from the cache alone. It returns false if the cache is not complete, not up to date, or does not have
// the namespace.
func (n *namespaces) cached(name string) (map[string]any, bool) {
	//guard:namespaces-old-cache-front-door
	if !n.informer.HasSynced() || n.freshness.Stale() != "" {
		return nil, false
	}
	namespace, err := n.lister.Get(name)
	if err != nil {
		return nil, false
	}
	// Conditions read the metadata alone, and cannot read managedFields.
	reduced := &corev1.Namespace{ObjectMeta: namespace.ObjectMeta}
	reduced.ManagedFields = nil
	data, err := dataOf(reduced)
	return data, err == nil
}

// read reads a namespace from the cache, or from kube-apiserver if the cache does not have it or is not up to date.
func (n *namespaces) read(name string) (map[string]any, error) {
	namespace, err := n.lister.Get(name)
	//guard:namespaces-old-cache-admission
	if apierrors.IsNotFound(err) || n.freshness.Stale() != "" {
		ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
		defer cancel()
		namespace, err = n.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("namespace %q: %w", name, err)
	}
	return dataOf(namespace)
}

// dataOf returns the JSON form of a namespace.
func dataOf(namespace *corev1.Namespace) (map[string]any, error) {
	namespace = namespace.DeepCopy()
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return runtime.DefaultUnstructuredConverter.ToUnstructured(namespace)
}
