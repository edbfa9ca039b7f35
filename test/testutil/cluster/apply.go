/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/utils/ptr"
)

// readyTimeout bounds how long applied objects may take to be ready, and their kinds to be served.
const readyTimeout = time.Minute

// readiness is the condition that says that an object is ready, by kind. Other kinds are ready when they are stored.
var readiness = map[string]string{
	"APIService": "Available", "CustomResourceDefinition": "Established",
	"AuthorizationPolicy": "Ready", "ClusterAuthorizationPolicy": "Ready", "FieldPermissionMapping": "Ready",
}

// applier applies manifests. It is made when it is needed first, because a cluster may not run before.
type applier struct {
	mu     sync.Mutex
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

// Apply applies the objects of a manifest as the admin, by server-side apply that takes over fields of others, and waits until they are ready. Unknown fields are errors. It is safe for
// concurrent use, and much faster than kubectl.
func (c *Cluster) Apply(ctx context.Context, manifest string) error {
	applied, err := c.apply(ctx, manifest)
	if err != nil {
		return err
	}
	for _, object := range applied {
		if condition := readiness[object.GetKind()]; condition != "" {
			if err := c.awaitReady(ctx, object, condition); err != nil {
				return err
			}
		}
	}
	return nil
}

// apply is Apply without waiting. It returns the stored objects.
func (c *Cluster) apply(ctx context.Context, manifest string) (applied []*unstructured.Unstructured, err error) {
	err = c.each(ctx, manifest, func(ctx context.Context, client dynamic.ResourceInterface, object *unstructured.Unstructured) error {
		text, err := object.MarshalJSON()
		if err != nil {
			return err
		}
		stored, err := client.Patch(ctx, object.GetName(), types.ApplyPatchType, text, metav1.PatchOptions{FieldManager: "kubectl", Force: ptr.To(true), FieldValidation: metav1.FieldValidationStrict})
		if err == nil {
			applied = append(applied, stored)
		}
		return err
	})
	return applied, err
}

// Delete deletes the objects of a manifest; some may be gone. It does not wait until they are.
func (c *Cluster) Delete(ctx context.Context, manifest string) error {
	return c.each(ctx, manifest, func(ctx context.Context, client dynamic.ResourceInterface, object *unstructured.Unstructured) error {
		if err := client.Delete(ctx, object.GetName(), metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	})
}

// each calls do for the objects of a manifest, in order.
func (c *Cluster) each(ctx context.Context, manifest string, do func(context.Context, dynamic.ResourceInterface, *unstructured.Unstructured) error) error {
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if len(object.Object) == 0 { // a document of comments
			continue
		}
		client, err := c.clientOf(ctx, object)
		if err == nil {
			err = do(ctx, client, object)
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
}

// clientOf returns the client of an object, and waits until its kind is served.
func (c *Cluster) clientOf(ctx context.Context, object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	a := &c.applier
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.connect(c); err != nil {
		return nil, err
	}
	kind := object.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	for deadline := time.Now().Add(readyTimeout); err != nil && time.Now().Before(deadline) && ctx.Err() == nil; {
		time.Sleep(pollInterval)
		a.mapper.Reset()
		mapping, err = a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if err != nil {
		return nil, err
	}
	resource := a.client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return resource, nil
	}
	if object.GetNamespace() == "" {
		object.SetNamespace(metav1.NamespaceDefault)
	}
	return resource.Namespace(object.GetNamespace()), nil
}

// get returns an object without a namespace.
func (c *Cluster) get(ctx context.Context, apiVersion, kind, name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	client, err := c.clientOf(ctx, object)
	if err != nil {
		return nil, err
	}
	return client.Get(ctx, name, metav1.GetOptions{})
}

// connect makes the clients. The caller has the lock.
func (a *applier) connect(c *Cluster) error {
	if a.client != nil {
		return nil
	}
	config, err := c.Client(Admin)
	if err != nil {
		return err
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	a.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(found))
	a.client, err = dynamic.NewForConfig(config)
	return err
}

// awaitReady waits until an object has a condition for its generation.
func (c *Cluster) awaitReady(ctx context.Context, object *unstructured.Unstructured, condition string) error {
	client, err := c.clientOf(ctx, object)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		stored, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		conditions, _, _ := unstructured.NestedSlice(stored.Object, "status", "conditions")
		for _, entry := range conditions {
			fields, _ := entry.(map[string]any)
			generation, hasGeneration := fields["observedGeneration"].(int64)
			if fields["type"] == condition && fields["status"] == "True" && (!hasGeneration || generation >= object.GetGeneration()) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s %s is not ready: %v", object.GetKind(), object.GetName(), conditions)
		case <-time.After(pollInterval):
		}
	}
}
