/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller

import (
	"context"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	policyapi "github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
)

// Key names the policy or the mapping of a barrier.
type Key struct {
	engine.Key
	// IsMapping says that Name is the name of a FieldPermissionMapping.
	IsMapping bool
}

// mappingKey returns the key of a mapping.
func mappingKey(name string) Key { return Key{Key: engine.Key{Name: name}, IsMapping: true} }

func (k Key) String() string {
	if k.IsMapping {
		return "FieldPermissionMapping " + k.Name
	}
	return k.Key.String()
}

// barrierName returns the name of both objects of the barrier.
func (k Key) barrierName() string {
	if k.IsMapping {
		return barrier.MappingName(k.Name)
	}
	return barrier.Name(k.Key)
}

// what returns the word for the object in messages.
func (k Key) what() string {
	if k.IsMapping {
		return "mapping"
	}
	return "policy"
}

// mappingTable has all mappings in the cache. A change of one may change the barriers of others.
type mappingTable struct {
	mu sync.Mutex
	// seen has the mappings of the table, by name.
	seen map[string]generation
	// number counts the changes. The table is of the change built.
	number, built uint64
	table         *mapping.Table
}

// generation identifies a specification.
type generation struct {
	uid    types.UID
	number int64
}

// observe notes a mapping, and reports whether its specification has changed. It is removed if isThere is false.
func (t *mappingTable) observe(meta *metav1.ObjectMeta, isThere bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := generation{uid: meta.UID, number: meta.Generation}
	if last, ok := t.seen[meta.Name]; ok && isThere && last == next {
		return false
	}
	if t.seen == nil {
		t.seen = map[string]generation{}
	}
	t.seen[meta.Name] = next
	if !isThere {
		delete(t.seen, meta.Name)
	}
	t.number++
	return true
}

// current returns the table and its number, which is never 0.
func (t *mappingTable) current(stored func() ([]*policyapi.FieldPermissionMapping, error)) (*mapping.Table, uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.table == nil || t.built != t.number {
		mappings, err := stored()
		if err != nil {
			return nil, 0, err
		}
		t.table, t.built = mapping.NewTable(mappings...), t.number
	}
	return t.table, t.built + 1, nil
}

// owners returns the informers of policies and mappings.
func (c *Controller) owners() []cache.SharedIndexInformer {
	informers := c.informers[:]
	if c.mappings != nil {
		informers = append(informers[:2:2], c.mappings)
	}
	return informers
}

// followMappings makes the informer of mappings, if the server stores them.
func (c *Controller) followMappings() (err error) {
	if !c.config.StoresMappings {
		return nil
	}
	stored := c.config.Policies.PolicyV1alpha1().FieldPermissionMappings()
	c.mappings, err = c.Follow(&policyv1alpha1.FieldPermissionMapping{},
		func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return stored.List(ctx, options)
		},
		stored.Watch, c.revisionOf("fieldpermissionmappings"), c.observe)
	return err
}

// observeMapping enqueues all mappings, if one of them has changed or is gone.
func (c *Controller) observeMapping(p *policy, isThere bool) {
	if !c.table.observe(p.meta, isThere) {
		return
	}
	for _, name := range c.mappings.GetStore().ListKeys() {
		c.queue.Add(mappingKey(name))
	}
}

// storedMappings returns copies of the mappings in the cache.
func (c *Controller) storedMappings() ([]*policyapi.FieldPermissionMapping, error) {
	var result []*policyapi.FieldPermissionMapping
	for _, obj := range c.mappings.GetStore().List() {
		m, ok := obj.(*policyv1alpha1.FieldPermissionMapping)
		if !ok {
			continue
		}
		hub := &policyapi.FieldPermissionMapping{}
		if err := policyv1alpha1.Convert_v1alpha1_FieldPermissionMapping_To_policy_FieldPermissionMapping(m.DeepCopy(), hub, nil); err != nil {
			return nil, err
		}
		result = append(result, hub)
	}
	return result, nil
}

// compileMapping compiles a mapping beside the others, unless none has changed since. A barrier that is the same as before stays the same
// pointer, by which it is known.
func (c *Controller) compileMapping(ctx context.Context, p *policy, before compiled) compiled {
	table, number, err := c.table.current(c.storedMappings)
	if err == nil && before.uid == p.meta.UID && before.mappings == number && before.generation == p.meta.Generation {
		return before
	}
	result := compiled{uid: p.meta.UID, mappings: number, generation: p.meta.Generation}
	isSame := before.uid == p.meta.UID && before.barrier != nil
	var exclusions []mapping.Exclusion
	if err == nil {
		exclusions, err = table.Exclusions(p.key.Name)
	}
	if err == nil {
		result.barrier = c.config.CompileMapping(p.key.Name, exclusions)
		if isSame && reflect.DeepEqual(before.barrier.Report, result.barrier.Report) && reflect.DeepEqual(before.barrier.Policy, result.barrier.Policy) {
			result.barrier = before.barrier
		}
		if result.barrier.Policy != nil {
			result.size = barrier.TextSize(result.barrier.Policy)
		}
	} else if isSame {
		result.barrier, result.size = before.barrier, before.size
	}
	return c.keep(ctx, p.key, result, err)
}
