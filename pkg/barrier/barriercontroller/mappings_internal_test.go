/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller

import (
	"fmt"
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
)

// excluding is a mapping that excludes a field in a version.
func excluding(name, version string) *policyv1alpha1.FieldPermissionMapping {
	return &policyv1alpha1.FieldPermissionMapping{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1},
		Spec: policyv1alpha1.FieldPermissionMappingSpec{
			Description: name, Resources: []policyv1alpha1.FieldPermissionResource{{APIGroup: "example.com", Resource: "machines", APIVersions: []string{version}}},
			Fields: []policyv1alpha1.FieldPermission{{Path: "spec.boom", Permission: "booms", Exclusion: &policyv1alpha1.FieldExclusion{}}},
		},
	}
}

// TestMappingsThatAreGone compiles the barrier of a mapping that leaves another version to another mapping. It must have that version, too, from
// the moment at which the other one is being deleted, also if nobody has seen the deletion.
func TestMappingsThatAreGone(t *testing.T) {
	t.Parallel()
	c := &Controller{records: map[Key]*record{}, names: map[string]Key{}}
	c.queues = newQueues(clock.RealClock{})
	c.config.CompileMapping = func(name string, exclusions []mapping.Exclusion) *barrier.Barrier {
		return &barrier.Barrier{Policy: &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(name, len(exclusions), exclusions)}}}
	}
	c.mappings = cache.NewSharedIndexInformer(nil, &policyv1alpha1.FieldPermissionMapping{}, 0, cache.Indexers{})
	store := c.mappings.GetStore()
	stored := func(change func(any) error, m *policyv1alpha1.FieldPermissionMapping) []Key {
		t.Helper()
		if err := change(m); err != nil {
			t.Fatal(err)
		}
		c.observe(m) // what the informer's handlers call in any case
		var keys []Key
		for c.queues[0].Len() > 0 {
			key, _ := c.queues[0].Get()
			keys = append(keys, key)
			c.queues[0].Done(key)
		}
		return keys
	}
	a, b := excluding("a", "v1"), excluding("b", "v2")
	compile := func() string {
		p, _ := policyOf(a)
		return c.compileMapping(t.Context(), p, c.record(p.key).compiled).barrier.Policy.Name
	}
	stored(store.Add, a)
	alone := compile()
	if keys := stored(store.Add, b); !slices.Contains(keys, mappingKey("a")) {
		t.Errorf("a second mapping: enqueued %v, want a, too", keys)
	}
	if beside := compile(); beside == alone {
		t.Fatalf("beside another mapping, a is compiled to %s as before", beside)
	}
	leaving := b.DeepCopy()
	now := metav1.Now()
	leaving.DeletionTimestamp, leaving.Finalizers = &now, []string{Finalizer}
	if keys := stored(store.Update, leaving); !slices.Equal(keys, []Key{mappingKey("a"), mappingKey("b")}) {
		t.Errorf("while b is being deleted: enqueued %v, want a before b", keys)
	}
	if got := compile(); got != alone {
		t.Errorf("while b is being deleted, a is compiled to %s, want %s", got, alone)
	}
	stored(store.Update, b)
	compile()
	if keys := stored(store.Delete, b); !slices.Contains(keys, mappingKey("a")) {
		t.Errorf("b is missing in a list: enqueued %v, want a, too", keys)
	}
	if got := compile(); got != alone {
		t.Errorf("without b, a is compiled to %s, want %s", got, alone)
	}
}

// TestDeletionSeenLate tells a deletion after the queue was worked off: the informer tells its handlers in any order. The barrier must be looked at again.
func TestDeletionSeenLate(t *testing.T) {
	t.Parallel()
	c := &Controller{records: map[Key]*record{}, names: map[string]Key{}, queues: newQueues(clock.RealClock{})}
	p := &policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1"}}
	c.observe(p)
	key, _ := c.queues[0].Get()
	c.queues[0].Done(key)
	c.observeDeletion(p)
	if deleted := c.record(key).deleted; c.queues[0].Len() != 1 || deleted != "1" {
		t.Errorf("got %d keys, deleted %q", c.queues[0].Len(), deleted)
	}
}

// TestPoliciesMissingInAList has an informer that missed the deletion of a policy, which its next list lacks. Such a policy does not count as deleted.
func TestPoliciesMissingInAList(t *testing.T) {
	t.Parallel()
	unheld := &policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "unheld", UID: "a"}}
	deleting := &policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "deleting", UID: "b", Finalizers: []string{Finalizer}, DeletionTimestamp: &metav1.Time{}}}
	for _, p := range []*policyv1alpha1.ClusterAuthorizationPolicy{unheld, deleting} {
		for event, wantDeleted := range map[any]types.UID{p: p.UID, cache.DeletedFinalStateUnknown{Key: p.Name, Obj: p}: ""} {
			c := &Controller{records: map[Key]*record{}, names: map[string]Key{}, queues: newQueues(clock.RealClock{})}
			c.observeDeletion(event)
			key := Key{Key: engine.Key{Name: p.Name}}
			if got := c.record(key).deleted; got != wantDeleted || c.queues[0].Len() != 1 {
				t.Errorf("%T of %s: got the deletion of %q, and %d keys, want %q and one", event, p.Name, got, c.queues[0].Len(), wantDeleted)
			}
		}
	}
}

// TestOneQueueForANamespace has policies that share a bound: one worker compares them with it.
func TestOneQueueForANamespace(t *testing.T) {
	t.Parallel()
	queues := newQueues(clock.RealClock{})
	ofCluster := queues.of(mappingKey("a"))
	if queues.of(Key{Key: engine.Key{Name: "b"}}) != ofCluster {
		t.Error("a mapping and a cluster-scoped policy have different queues")
	}
	for _, namespace := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		first := queues.of(Key{Key: engine.Key{Namespace: namespace, Name: "a"}})
		if first == ofCluster || queues.of(Key{Key: engine.Key{Namespace: namespace, Name: "b"}}) != first {
			t.Errorf("the policies of the namespace %s have the queue of cluster-scoped ones, or two", namespace)
		}
	}
}
