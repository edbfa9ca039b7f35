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
	"sync"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	policyapi "github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/granular"
)

// MappingConfig is what a MappingController needs.
type MappingConfig struct {
	// Client reaches the mappings of this server.
	Client versioned.Interface
	// Source is where the tables go.
	Source *granular.Source
	// StalenessBound is how long the store may be out of reach before permission on fields
	// gives nothing. It must be positive.
	StalenessBound time.Duration
}

// MappingController keeps a granular.Source up to date with the mappings that are stored, and
// writes what became of them into their status.
type MappingController struct {
	config   MappingConfig
	watchdog *watchdog
	informer cache.SharedIndexInformer
	queue    workqueue.TypedRateLimitingInterface[string]
	changed  chan struct{}

	mu      sync.Mutex
	results map[string]mappingResult // by name
}

// mappingResult is what became of a mapping.
type mappingResult struct {
	// uid tells the mapping from another one that had its name before.
	uid     types.UID
	spec    *policyv1alpha1.FieldPermissionMappingSpec
	problem granular.Problem
}

// isOf reports whether the result is that of a mapping as it is now.
func (r mappingResult) isOf(m *policyv1alpha1.FieldPermissionMapping) bool {
	return r.spec != nil && r.uid == m.UID && apiequality.Semantic.DeepEqual(r.spec, &m.Spec)
}

var errMappingConfig = errors.New("a controller of mappings needs a client, a source and a bound of staleness")

// NewMappingController makes a MappingController. Run must be called once.
func NewMappingController(config MappingConfig) (*MappingController, error) {
	if config.Client == nil || config.Source == nil || config.StalenessBound <= 0 {
		return nil, errMappingConfig
	}
	c := &MappingController{
		config: config, watchdog: newWatchdog("mappings of fields", config.StalenessBound), changed: make(chan struct{}, 1),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[string](),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "field_permission_mapping_status"}),
	}
	stored := config.Client.PolicyV1alpha1().FieldPermissionMappings()
	c.informer = newWatchedInformer(config.Client, c.watchdog.newContact(), &policyv1alpha1.FieldPermissionMapping{},
		func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return stored.List(ctx, options)
		}, stored.Watch)
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
	defer c.queue.ShutDown()
	group.StartWithContext(ctx, c.informer.RunWithContext)
	if !cache.WaitForCacheSync(ctx.Done(), c.informer.HasSynced) {
		return
	}
	klog.FromContext(ctx).V(2).Info("Mappings of fields are loaded")
	group.StartWithContext(ctx, c.watch)
	group.StartWithContext(ctx, c.writeStatus)
	for {
		c.publish()
		select {
		case <-ctx.Done():
			return
		case <-c.changed:
		}
	}
}

// publish puts the mappings in force, if one of them says something else than before: a
// change of their status does not. Then it has every status written that is not as it should
// be, which may be that of another mapping than the one that has changed.
func (c *MappingController) publish() {
	current := c.stored()
	if c.config.Source.Table() == nil || !c.isPublished(current) {
		mappings := make([]*policyapi.FieldPermissionMapping, 0, len(current))
		for _, stored := range current {
			// The conversion shares memory with what is stored.
			hub := &policyapi.FieldPermissionMapping{}
			if err := policyv1alpha1.Convert_v1alpha1_FieldPermissionMapping_To_policy_FieldPermissionMapping(stored.DeepCopy(), hub, nil); err != nil {
				utilruntime.HandleError(fmt.Errorf("mapping %q: %w", stored.Name, err))
				return // what is in force stays
			}
			mappings = append(mappings, hub)
		}
		c.config.Source.Publish(mappings...)
		c.remember(current)
	}
	for _, stored := range current {
		if _, incomplete := c.statusOf(stored); incomplete {
			c.queue.Add(stored.Name)
		}
	}
}

// stored returns the mappings that are stored, which belong to the cache.
func (c *MappingController) stored() []*policyv1alpha1.FieldPermissionMapping {
	var result []*policyv1alpha1.FieldPermissionMapping
	for _, obj := range c.informer.GetStore().List() {
		if stored, ok := obj.(*policyv1alpha1.FieldPermissionMapping); ok {
			result = append(result, stored)
		} else {
			utilruntime.HandleError(fmt.Errorf("not a mapping: %T", obj))
		}
	}
	return result
}

// isPublished reports whether the table is that of these mappings.
func (c *MappingController) isPublished(current []*policyv1alpha1.FieldPermissionMapping) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, stored := range current {
		if !c.results[stored.Name].isOf(stored) {
			return false
		}
	}
	return len(current) == len(c.results)
}

// remember keeps what became of the mappings that have been published.
func (c *MappingController) remember(current []*policyv1alpha1.FieldPermissionMapping) {
	results, problems := map[string]mappingResult{}, c.config.Source.Table().Problems()
	counts := map[string]int{stateReady: 0, stateContradicting: 0, stateBroken: 0}
	for _, stored := range current {
		r := mappingResult{uid: stored.UID, spec: &stored.Spec, problem: problems(stored.Name)}
		results[stored.Name] = r
		switch {
		case r.problem.Invalid:
			counts[stateBroken]++
		case r.problem.Reason != "":
			counts[stateContradicting]++
		default:
			counts[stateReady]++
		}
	}
	for state, n := range counts {
		mappingsByState.WithLabelValues(state).Set(float64(n))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results = results
}

// watch looks after the store until ctx ends.
func (c *MappingController) watch(ctx context.Context) {
	c.watchdog.run(ctx, c.probe, c.config.Source,
		"Mappings of fields may be out of date: permission on fields gives nothing until the store can be read", "Mappings of fields are up to date again")
}

// probe reads from the store, past every cache.
func (c *MappingController) probe(ctx context.Context) error {
	_, err := c.config.Client.PolicyV1alpha1().FieldPermissionMappings().List(ctx, metav1.ListOptions{Limit: 1})
	return err
}

// Ready is the readiness check of the mappings: loaded, and not out of date.
func (c *MappingController) Ready() healthz.HealthChecker {
	return healthz.NamedCheck("field-permission-mappings", func(*http.Request) error {
		if c.config.Source.Table() == nil {
			return errMappingsNotLoaded
		}
		if reason := c.config.Source.Stale(); reason != "" {
			return fmt.Errorf("%w: %s", errMappingsStale, reason)
		}
		return nil
	})
}

var (
	errMappingsNotLoaded = errors.New("the mappings of fields are not loaded")
	errMappingsStale     = errors.New("the mappings of fields may be out of date")
)
