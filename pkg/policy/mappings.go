/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	policyapi "github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/granular"
)

// MappingController keeps a granular.Source up to date with the mappings that are stored.
type MappingController struct {
	source   *granular.Source
	informer cache.SharedIndexInformer
	changed  chan struct{}
}

var errMappingConfig = errors.New("a controller of mappings needs a client and a source")

// NewMappingController makes a MappingController. Run must be called once.
func NewMappingController(client versioned.Interface, source *granular.Source) (*MappingController, error) {
	if client == nil || source == nil {
		return nil, errMappingConfig
	}
	mappings := client.PolicyV1alpha1().FieldPermissionMappings()
	c := &MappingController{source: source, changed: make(chan struct{}, 1)}
	c.informer = cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return mappings.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return mappings.Watch(ctx, options)
		},
	}, client), &policyv1alpha1.FieldPermissionMapping{}, 0, cache.Indexers{})
	if _, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { c.note() }, UpdateFunc: func(any, any) { c.note() }, DeleteFunc: func(any) { c.note() },
	}); err != nil {
		return nil, err
	}
	return c, nil
}

// note says that something has changed.
func (c *MappingController) note() {
	select {
	case c.changed <- struct{}{}:
	default: // it is noted already
	}
}

// Run follows the mappings until the context ends.
func (c *MappingController) Run(ctx context.Context) {
	var group wait.Group
	defer group.Wait()
	group.StartWithContext(ctx, c.informer.RunWithContext)
	if !cache.WaitForCacheSync(ctx.Done(), c.informer.HasSynced) {
		return
	}
	klog.FromContext(ctx).V(2).Info("Mappings of fields are loaded")
	for {
		c.publish()
		select {
		case <-ctx.Done():
			return
		case <-c.changed:
		}
	}
}

func (c *MappingController) publish() {
	var mappings []*policyapi.FieldPermissionMapping
	for _, obj := range c.informer.GetStore().List() {
		stored, ok := obj.(*policyv1alpha1.FieldPermissionMapping)
		if !ok {
			utilruntime.HandleError(fmt.Errorf("not a mapping: %T", obj))
			continue
		}
		// The conversion shares memory with what is stored.
		hub := &policyapi.FieldPermissionMapping{}
		if err := policyv1alpha1.Convert_v1alpha1_FieldPermissionMapping_To_policy_FieldPermissionMapping(stored.DeepCopy(), hub, nil); err != nil {
			utilruntime.HandleError(fmt.Errorf("mapping %q: %w", stored.Name, err))
			return // what is in force stays
		}
		mappings = append(mappings, hub)
	}
	c.source.Store(granular.NewTable(mappings...))
}

// Ready reports whether the mappings have been loaded.
func (c *MappingController) Ready() healthz.HealthChecker {
	return healthz.NamedCheck("field-permission-mappings", func(*http.Request) error {
		if c.source.Table() == nil {
			return errMappingsNotLoaded
		}
		return nil
	})
}

var errMappingsNotLoaded = errors.New("the mappings of fields are not loaded")
