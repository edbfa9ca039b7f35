/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package mappingcontroller follows the FieldPermissionMappings that are stored: it publishes them to a mapping.Source,
// and writes their status.
//
// Invariants:
//
//   - All mappings are published together, since one may contradict another.
//   - If the store has been out of reach for longer than the bound, permission on fields allows nothing until it can be
//     read again. Excluded fields stay excluded.
//
// It must not import policies.
package mappingcontroller

import (
	"context"
	"errors"
	"sync"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/controller"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
)

// Config configures a Controller. All fields are needed unless stated otherwise.
type Config struct {
	// Client reaches the mappings of this server.
	Client versioned.Interface
	// Source receives the mappings.
	Source *mapping.Source
	// StalenessBound is how long the store may be out of reach before permission on fields gives nothing. It must be
	// positive.
	StalenessBound time.Duration
	// Store has the mappings.
	Store controller.Store
	// Effective returns the condition Effective of a mapping, or nil if the mapping has none, and false if it is not known yet. It may be
	// nil. Then no mapping has the condition.
	Effective func(m *policyv1alpha1.FieldPermissionMapping) (condition *metav1.Condition, isKnown bool)
	// End ends the process with an error. It is called if the store has gone back to an earlier revision.
	End func(cause error)
}

// Controller keeps a mapping.Source up to date with the mappings that are stored, and writes their status. Run must be
// called once.
type Controller struct {
	*controller.Controller[string]
	config   Config
	informer cache.SharedIndexInformer

	mu      sync.Mutex
	results map[string]result // by name
}

// result is the outcome of publishing one mapping.
type result struct {
	// uid tells the mapping from another one that had its name before.
	uid     types.UID
	spec    *policyv1alpha1.FieldPermissionMappingSpec
	problem mapping.Problem
}

// isOf reports whether r is the result for the current uid and specification of m.
func (r result) isOf(m *policyv1alpha1.FieldPermissionMapping) bool {
	return r.spec != nil && r.uid == m.UID && apiequality.Semantic.DeepEqual(r.spec, &m.Spec)
}

var errConfig = errors.New("a controller of mappings needs a client and a source")

// New returns a Controller.
func New(config Config) (c *Controller, err error) {
	if config.Client == nil || config.Source == nil {
		return nil, errConfig
	}
	c = &Controller{config: config}
	c.Controller, err = controller.New(controller.Config[string]{
		Name: "field-permission-mappings", QueueName: "field_permission_mapping_status", Objects: "the mappings of fields",
		Staleness: config.Source, StalenessBound: config.StalenessBound,
		StaleMessage:     "Mappings of fields may be out of date: permission on fields gives nothing, and barriers stay as they are, until the store can be read",
		RecoveredMessage: "Mappings of fields are up to date again",
		End:              config.End,
		Published:        func() bool { return config.Source.Table() != nil },
		Publish:          func(context.Context) { c.publish() },
		WriteStatus:      c.writeStatus,
	})
	if err != nil {
		return nil, err
	}
	c.informer, err = c.Follow(&policyv1alpha1.FieldPermissionMapping{}, config.Store, func(any) {})
	return c, err
}

// publish publishes the mappings if one of their specifications has changed. A change of a status publishes nothing.
// Then it enqueues every mapping whose status has to be written; a change of one mapping may change the status of
// another.
func (c *Controller) publish() {
	current := controller.ObjectsOf[*policyv1alpha1.FieldPermissionMapping](c.informer)
	if c.config.Source.Table() == nil || !c.isPublished(current) {
		hubs, err := mapping.FromStored(current)
		if err != nil {
			utilruntime.HandleError(err)
			return // what is in force stays
		}
		c.config.Source.Publish(hubs...)
		c.remember(current)
	}
	c.Recheck()
}

// Recheck enqueues every mapping whose status has to be written. It may be called concurrently with Run.
func (c *Controller) Recheck() {
	for _, stored := range controller.ObjectsOf[*policyv1alpha1.FieldPermissionMapping](c.informer) {
		if _, incomplete := c.statusOf(stored); incomplete {
			c.Enqueue(stored.Name)
		}
	}
}

// isPublished reports whether the published table was built from these mappings.
func (c *Controller) isPublished(current []*policyv1alpha1.FieldPermissionMapping) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, stored := range current {
		if !c.results[stored.Name].isOf(stored) {
			return false
		}
	}
	return len(current) == len(c.results)
}

// remember replaces the results by those for the mappings that have just been published, and counts them in the metrics.
func (c *Controller) remember(current []*policyv1alpha1.FieldPermissionMapping) {
	results, problems := map[string]result{}, c.config.Source.Table().Problems()
	counts := map[string]int{stateReady: 0, stateContradicting: 0, stateBroken: 0}
	for _, stored := range current {
		r := result{uid: stored.UID, spec: &stored.Spec, problem: problems(stored.Name)}
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
		mappings.WithLabelValues(state).Set(float64(n))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results = results
}
