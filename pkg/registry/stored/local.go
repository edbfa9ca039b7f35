/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// localTimeout bounds a list. It is as long as the server lets a request take by default.
const localTimeout = time.Minute

// Local reads the objects of a REST in the same process, without encoding and decoding them again. The objects of a list share their memory with the watch cache:
// callers must not change them, except for the fields of the object itself and of its metadata.
type Local struct {
	objects *REST
	scheme  *runtime.Scheme
	version schema.GroupVersion
}

// NewLocal returns a Local that returns objects in a version, to which scheme must be able to convert them.
func NewLocal(objects *REST, scheme *runtime.Scheme, version schema.GroupVersion) *Local {
	return &Local{objects, scheme, version}
}

// Revision returns the current revision of the store. It asks etcd, and no cache.
func (l *Local) Revision(ctx context.Context) (uint64, error) { return l.objects.Revision(ctx) }

// List lists the objects of all namespaces.
func (l *Local) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	internal, err := internalOptions(options)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, localTimeout)
	defer cancel()
	list, err := l.objects.List(ctx, internal)
	if err == nil {
		err = ctx.Err() // the watch cache waits longer than some contexts
	}
	if err != nil {
		return nil, err
	}
	return l.convert(list)
}

// Watch watches the objects of all namespaces, for as long as the options say.
func (l *Local) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	internal, err := internalOptions(options)
	if err != nil {
		return nil, err
	}
	cancel := context.CancelFunc(func() {})
	if seconds := ptr.Deref(options.TimeoutSeconds, 0); seconds > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
	}
	events, err := l.objects.Watch(ctx, internal)
	if err != nil {
		cancel()
		return nil, err
	}
	return cancelled{watch.Filter(events, func(event watch.Event) (watch.Event, bool) {
		if event.Type == watch.Error {
			return event, true
		}
		object, err := l.convert(event.Object)
		if err != nil {
			status := apierrors.NewInternalError(err).Status()
			return watch.Event{Type: watch.Error, Object: &status}, true
		}
		return watch.Event{Type: event.Type, Object: object}, true
	}), cancel}, nil
}

// convert returns an object in the version of l.
func (l *Local) convert(obj runtime.Object) (runtime.Object, error) {
	if cached, ok := obj.(runtime.CacheableObject); ok { // several watchers get it
		obj = cached.GetObject()
	}
	return l.scheme.UnsafeConvertToVersion(obj, l.version)
}

// cancelled is a watch that cancels a context when it is stopped.
type cancelled struct {
	watch.Interface
	cancel context.CancelFunc
}

// Stop stops the watch.
func (c cancelled) Stop() {
	c.Interface.Stop()
	c.cancel()
}

func internalOptions(options metav1.ListOptions) (*metainternalversion.ListOptions, error) {
	internal := &metainternalversion.ListOptions{}
	return internal, metainternalversion.Convert_v1_ListOptions_To_internalversion_ListOptions(&options, internal, nil)
}
