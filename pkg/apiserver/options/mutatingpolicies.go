/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"context"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// unservedInterval is the time after which kube-apiserver is asked again for a resource that it does not serve.
const unservedInterval = 30 * time.Second

// addMutatingPolicies makes the informers of MutatingAdmissionPolicies and their bindings that all users of the factory share. It must be
// called before others make them. Kubernetes serves them in version v1 since 1.36. On an older kube-apiserver the informers of client-go
// never sync, so that the admission plugin, and with it the server, would never be ready. These informers are empty as long as kube-apiserver
// answers 404, and have the objects soon after an upgrade.
func addMutatingPolicies(factory informers.SharedInformerFactory) {
	addOptional(factory, &admissionregistrationv1.MutatingAdmissionPolicy{}, func(client kubernetes.Interface) optionalListWatch {
		policies := client.AdmissionregistrationV1().MutatingAdmissionPolicies()
		return optionalListWatch{
			list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return policies.List(ctx, options)
			},
			watch: policies.Watch, empty: &admissionregistrationv1.MutatingAdmissionPolicyList{},
		}
	})
	addOptional(factory, &admissionregistrationv1.MutatingAdmissionPolicyBinding{}, func(client kubernetes.Interface) optionalListWatch {
		bindings := client.AdmissionregistrationV1().MutatingAdmissionPolicyBindings()
		return optionalListWatch{
			list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return bindings.List(ctx, options)
			},
			watch: bindings.Watch, empty: &admissionregistrationv1.MutatingAdmissionPolicyBindingList{},
		}
	})
}

func addOptional(factory informers.SharedInformerFactory, object runtime.Object, newListWatch func(kubernetes.Interface) optionalListWatch) {
	factory.InformerFor(object, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(newListWatch(client).listWatch(), client), object, resync,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	})
}

// optionalListWatch lists and watches a cluster-scoped resource that kube-apiserver may not serve.
type optionalListWatch struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	empty runtime.Object
}

func (o optionalListWatch) listWatch() *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := o.list(ctx, options)
			if apierrors.IsNotFound(err) {
				return o.empty.DeepCopyObject(), nil
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := o.watch(ctx, options)
			if apierrors.IsNotFound(err) && !ptr.Deref(options.SendInitialEvents, false) { // otherwise the error leads to a list
				return watchNothing(unservedInterval), nil
			}
			return events, err
		},
	}
}

// watchNothing returns a watch without events, which expires after some time, so that the informer lists again.
func watchNothing(duration time.Duration) watch.Interface {
	events := make(chan watch.Event, 1)
	time.AfterFunc(duration, func() {
		expired := apierrors.NewResourceExpired("kube-apiserver did not serve the resource")
		events <- watch.Event{Type: watch.Error, Object: &expired.ErrStatus}
		close(events)
	})
	return watch.NewProxyWatcher(events)
}
