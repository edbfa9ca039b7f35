/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/controller"
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

// mappingTable has all mappings in the cache that are not being deleted. A change of one may change the barriers of others.
type mappingTable struct {
	mu sync.Mutex
	// noticed identifies the mappings whose barriers were enqueued last, and built those of table.
	noticed, built string
	// number counts the tables.
	number uint64
	table  *mapping.Table
}

// notice reports whether the mappings differ from those of the last call.
func (t *mappingTable) notice(stored []*policyv1alpha1.FieldPermissionMapping) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	identity := identityOf(stored)
	isNew := identity != t.noticed
	t.noticed = identity
	return isNew
}

// current returns the table of mappings and its number, which is never 0.
func (t *mappingTable) current(stored []*policyv1alpha1.FieldPermissionMapping) (*mapping.Table, uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	identity := identityOf(stored)
	//guard:mapping-barriers-table-earlier-mappings
	if t.table != nil && t.built == identity {
		return t.table, t.number, nil
	}
	hubs, err := mapping.FromStored(stored)
	if err != nil {
		return nil, 0, err
	}
	t.table, t.built = mapping.NewTable(hubs...), identity
	t.number++
	return t.table, t.number, nil
}

// identityOf returns a text that differs for mappings with other specifications.
func identityOf(mappings []*policyv1alpha1.FieldPermissionMapping) string {
	lines := make([]string, 0, len(mappings))
	for _, m := range mappings {
		lines = append(lines, fmt.Sprintf("%s %s %d\n", m.Name, m.UID, m.Generation))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// observeMapping enqueues the other mappings, if one of them has changed, is being deleted or is gone. They come before the mapping itself, so that
// what it does not say any more is in their barriers before its own barrier goes.
func (c *Controller) observeMapping(changed string) {
	if !c.table.notice(c.storedMappings()) {
		return
	}
	for _, name := range c.mappings.GetStore().ListKeys() {
		if name != changed {
			//guard:mapping-barriers-other-mappings
			c.queues.Add(mappingKey(name))
		}
	}
}

// storedMappings returns the mappings in the cache that are not being deleted.
func (c *Controller) storedMappings() []*policyv1alpha1.FieldPermissionMapping {
	mappings := controller.ObjectsOf[*policyv1alpha1.FieldPermissionMapping](c.mappings)
	return slices.DeleteFunc(mappings, func(m *policyv1alpha1.FieldPermissionMapping) bool { return m.DeletionTimestamp != nil })
}

// compileMapping compiles a mapping beside the others, unless none has changed since. A barrier that is the same as before stays the same
// pointer, by which it is known.
func (c *Controller) compileMapping(ctx context.Context, p *policy, before compiled) compiled {
	table, number, err := c.table.current(c.storedMappings())
	if err == nil && before.uid == p.meta.UID && before.mappings == number && before.generation == p.meta.Generation {
		return before
	}
	result := compiled{uid: p.meta.UID, mappings: number, generation: p.meta.Generation}
	isSame := before.uid == p.meta.UID && before.barrier != nil
	var exclusions []mapping.Exclusion
	if err == nil {
		exclusions, err = table.Exclusions(p.key.Name)
	}
	//guard:mapping-barriers-invalid-mappings
	if err == nil {
		result.barrier = c.config.CompileMapping(p.key.Name, exclusions)
		if isSame && reflect.DeepEqual(before.barrier.Report, result.barrier.Report) && reflect.DeepEqual(before.barrier.Policy, result.barrier.Policy) {
			result.barrier = before.barrier
		}
	} else if isSame {
		result.barrier = before.barrier
	}
	return c.keep(ctx, p.key, result, err)
}
