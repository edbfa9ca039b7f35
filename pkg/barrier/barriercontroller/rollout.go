/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller

import (
	"context"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/pkg/barrier"
)

const (
	// sentinelInterval is how often the leader looks whether the sentinel is to be written.
	sentinelInterval = 50 * time.Millisecond
	// sentinelQuiet is how long no barrier must have changed before the sentinel is written, and sentinelDelay how long it waits in all, so
	// that many changes need one sentinel.
	sentinelQuiet, sentinelDelay = 100 * time.Millisecond, time.Second
)

// sentinel says whether the sentinel may have to be written.
type sentinel struct {
	mu sync.Mutex
	// first and last are when it was asked for since it was last written. They are zero if it was not.
	first, last time.Time
	// number is the last number that this process has written.
	number int64
}

// want asks for the sentinel.
func (s *sentinel) want() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last = time.Now(); s.first.IsZero() {
		s.first = s.last
	}
}

// take reports whether the sentinel is due.
func (s *sentinel) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first.IsZero() || time.Since(s.last) < sentinelQuiet && time.Since(s.first) < sentinelDelay {
		return false
	}
	s.first, s.last = time.Time{}, time.Time{}
	return true
}

// runSentinel writes the sentinel after barriers have changed.
func (c *Controller) runSentinel(ctx context.Context) {
	wait.UntilWithContext(ctx, func(context.Context) {
		lead := c.leader()
		if lead == nil || !c.sentinel.take() {
			return
		}
		if err := c.writeSentinel(lead); err != nil {
			c.sentinel.want()
			if lead.Err() == nil && !apierrors.IsConflict(err) {
				writes.WithLabelValues(resultFailed).Inc()
				klog.FromContext(lead).Error(err, "Cannot write the sentinel of barriers")
			}
		}
	}, sentinelInterval)
}

// writeSentinel writes the sentinel with a greater number than any before, unless it is stored and counts all barriers in the cache.
func (c *Controller) writeSentinel(ctx context.Context) error {
	extent := barrier.Extent{Policies: c.policies.newest(), Bindings: c.bindings.newest()}
	if extent == (barrier.Extent{}) {
		return nil
	}
	storedPolicy, hasPolicy, err := c.policies.stored(ctx, barrier.SentinelName)
	if err != nil {
		return err
	}
	storedBinding, hasBinding, err := c.bindings.stored(ctx, barrier.SentinelName)
	if err != nil {
		return err
	}
	var number int64
	hasNumber := false
	if hasPolicy {
		number, hasNumber = barrier.NumberOf(storedPolicy)
	}
	if hasNumber && hasBinding && c.counts(storedPolicy, storedBinding, number, extent) {
		return nil
	}
	c.sentinel.mu.Lock()
	number = max(number, c.sentinel.number, c.config.Clock.Now().Unix()) + 1
	c.sentinel.number = number
	c.sentinel.mu.Unlock()
	policy, binding := barrier.Sentinel(c.config.Namespace, number)
	barrier.SetExtent(policy, extent)
	for _, meta := range []*metav1.ObjectMeta{&policy.ObjectMeta, &binding.ObjectMeta} {
		meta.Labels = map[string]string{barrier.ManagedByLabel: barrier.ManagedBy}
	}
	if err := put(ctx, &c.policies, storedPolicy, hasPolicy, policy); err != nil {
		return err
	}
	return put(ctx, &c.bindings, storedBinding, hasBinding, binding)
}

// counts reports whether stored objects are the sentinel with a number, and count the barriers of an extent.
func (c *Controller) counts(policy *admissionregistrationv1.ValidatingAdmissionPolicy, binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding, number int64, extent barrier.Extent) bool {
	wantedPolicy, wantedBinding := barrier.Sentinel(c.config.Namespace, number)
	counted, ok := barrier.ExtentOf(policy)
	//guard:barriers-sentinel-says-too-much
	return ok && counted.Policies >= extent.Policies && counted.Bindings >= extent.Bindings && counted.IsBefore(policy, binding) && isMarked(policy) && isMarked(binding) &&
		policy.DeletionTimestamp == nil && binding.DeletionTimestamp == nil &&
		barrier.EqualPolicies(policy, wantedPolicy) && barrier.EqualBindings(binding, wantedBinding)
}

// isMarked reports whether an object has the label of the objects of barriers.
func isMarked(stored metav1.Object) bool {
	return stored.GetLabels()[barrier.ManagedByLabel] == barrier.ManagedBy
}

// newest returns the greatest resource version of the barriers in the cache, 0 if it has none.
func (k *kind[T]) newest() (version uint64) {
	for _, obj := range k.informer.GetStore().List() {
		stored, ok := obj.(T)
		if !ok || stored.GetName() == barrier.SentinelName || !isMarked(stored) {
			continue
		}
		version = max(version, barrier.VersionOf(stored))
	}
	return version
}

// put creates or changes an object of the sentinel.
func put[T object](ctx context.Context, k *kind[T], stored T, exists bool, wanted T) error {
	if !exists {
		_, err := k.client.Create(ctx, wanted, metav1.CreateOptions{FieldManager: fieldManager})
		return err
	}
	_, err := k.overwrite(ctx, stored, wanted, nil) // without finalizers, with which it could not be deleted, and not be created again
	return err
}
