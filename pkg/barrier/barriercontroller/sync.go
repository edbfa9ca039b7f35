/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/barrier"
)

// compiled is the outcome of compiling a policy.
type compiled struct {
	uid  types.UID
	spec *policyv1alpha1.AuthorizationPolicySpec
	// mappings is the number of the table from which the barrier of a mapping was compiled, and 0 for a policy.
	mappings uint64
	// generation is of the specification.
	generation int64
	// barrier is of the last specification that compiles. It is nil if there is none.
	barrier *barrier.Barrier
	// failure says why spec does not compile.
	failure error
}

// The reasons of events.
const (
	reasonWritten   = "BarrierWritten"
	reasonRestored  = "BarrierRestored"
	reasonRemoved   = "BarrierRemoved"
	reasonRefused   = "BarrierRefused"
	reasonOverBound = "BarrierOverBound"
	reasonOrphaned  = "BarrierOrphaned"
)

const (
	// outdatedRetry is how long the cache of policies usually needs to catch up with the store.
	outdatedRetry = 100 * time.Millisecond
	// staleRetry is the time after which the controller looks again whether the store can be read.
	staleRetry = time.Second
	// grace is how long a replica that is not the leader waits for the leader before it finds out itself whether kube-apiserver
	// refuses a barrier, for the status.
	grace = 10 * time.Second
)

// work brings the barriers of the policies in a queue into line, one after another, until the queue is shut down.
func (c *Controller) work(ctx context.Context, queue workqueue.TypedRateLimitingInterface[Key]) {
	for isKnown := false; ; {
		if !isKnown && queue.Len() == 0 {
			isKnown = true
			c.waiting.Add(-1)
			c.config.Changed()
		}
		key, shutdown := queue.Get()
		if shutdown {
			return
		}
		if ctx.Err() == nil {
			c.retry(ctx, queue, key, c.sync(ctx, key))
		}
		queue.Done(key)
	}
}

// retry enqueues a policy again if its barrier could not be brought into line.
func (c *Controller) retry(ctx context.Context, queue workqueue.TypedRateLimitingInterface[Key], key Key, err error) {
	switch {
	case err == nil:
		queue.Forget(key)
	case errors.Is(err, errOutdated), apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		if !errors.Is(err, errOutdated) {
			writes.WithLabelValues(resultConflict).Inc()
		}
		queue.AddAfter(key, outdatedRetry)
	case errors.Is(err, errStale):
		queue.AddAfter(key, staleRetry)
	default:
		if ctx.Err() == nil && c.leader() != nil {
			writes.WithLabelValues(resultFailed).Inc()
			klog.FromContext(ctx).Error(err, "Cannot bring a barrier into line", key.what(), klog.KRef(key.Namespace, key.Name))
		}
		queue.AddRateLimited(key)
	}
}

// leader returns the context of the leader, nil if this process is not the leader.
func (c *Controller) leader() context.Context {
	if lead := c.lead.Load(); lead != nil && (*lead).Err() == nil {
		return *lead
	}
	return nil
}

// sync brings the barrier of a policy into line. If this process is not the leader, it only finds out the state.
func (c *Controller) sync(ctx context.Context, key Key) error {
	p := c.cachedPolicy(key)
	if p == nil {
		return c.syncGone(key)
	}
	//guard:barriers-orphans-come-back
	c.with(key, func(r *record) { r.vanished, r.isOrphan = time.Time{}, false })
	if !p.wantsBarrier() {
		return c.syncUnwanted(p)
	}
	r := c.compile(ctx, p)
	if r.barrier == nil {
		c.setState(key, State{Phase: Broken, Message: "the " + key.what() + " does not compile"})
		return nil
	}
	if r.barrier.Policy == nil {
		c.setState(key, State{Phase: Untranslated, Message: "no rule can be enforced by kube-apiserver alone", Report: r.barrier.Report})
		return c.syncUnwanted(p)
	}
	return c.syncWanted(ctx, p, r)
}

// compile compiles a policy, unless it has not changed since it was last compiled.
func (c *Controller) compile(ctx context.Context, p *policy) compiled {
	before := c.record(p.key).compiled
	if before.uid != p.meta.UID {
		c.with(p.key, func(r *record) { r.settled = nil }) // of an earlier policy with the name
	}
	if before.uid == p.meta.UID && before.spec != nil && apiequality.Semantic.DeepEqual(before.spec, p.spec) {
		if before.generation != p.meta.Generation { // changed and changed back
			before.generation = p.meta.Generation
			c.with(p.key, func(r *record) { r.compiled = before })
		}
		return before
	}
	if p.mapping != nil {
		return c.compileMapping(ctx, p, before)
	}
	result := compiled{uid: p.meta.UID, spec: p.spec, generation: p.meta.Generation}
	compiledBarrier, err := c.config.Compile(p.key.Key, p.spec)
	switch {
	case err == nil:
		result.barrier = compiledBarrier
	case before.uid == p.meta.UID:
		result.barrier = before.barrier
	}
	return c.keep(ctx, p.key, result, err)
}

// keep keeps the outcome of compiling a policy or a mapping.
func (c *Controller) keep(ctx context.Context, key Key, result compiled, err error) compiled {
	if result.failure = err; err != nil {
		klog.FromContext(ctx).Error(err, "No barrier can be compiled from a "+key.what(), key.what(), klog.KRef(key.Namespace, key.Name))
	}
	c.with(key, func(r *record) { r.compiled = result })
	return result
}

// inOrder returns the state of a barrier that is stored as it must be.
func (r compiled) inOrder() State {
	if r.failure != nil {
		return State{Phase: Broken, Message: "the specification does not compile: the barrier of the last good one stays", Report: r.barrier.Report}
	}
	return State{Phase: Written, Report: r.barrier.Report}
}

// syncWanted brings the barrier of a policy into line that is to have one.
func (c *Controller) syncWanted(ctx context.Context, p *policy, r compiled) error {
	policy, binding := wantedObjects(r.barrier, p)
	policyInOrder, _ := c.policies.isInOrder(policy)
	bindingInOrder, _ := c.bindings.isInOrder(binding)
	wasInOrder := c.record(p.key).settled == r.barrier
	if policyInOrder && bindingInOrder {
		c.settle(p.key, r.barrier)
		state := r.inOrder()
		state.Warning = c.warning(p, r.barrier)
		c.setState(p.key, state)
		//guard:barriers-generation-is-written
		if stored, ok := c.policies.cached(policy.Name); p.hasFinalizer() && (!ok || hasGeneration(stored)) {
			return nil
		}
	} else if !wasInOrder {
		if reason := c.overAnyBound(p, r.barrier); reason != "" {
			if c.isWritten(p) {
				reason += "; the barrier of an earlier text of the policy stays"
			}
			c.tell(p, State{Phase: OverBound, Message: reason, Report: r.barrier.Report, of: r.barrier}, reasonOverBound)
			return nil
		}
	}
	//guard:barriers-stale-writes
	if c.stale() != "" {
		return errStale
	}
	lead := c.leader()
	if lead == nil {
		if policyInOrder && bindingInOrder || !c.isDue(p.key) {
			return nil
		}
		lead = ctx
	}
	if wait := c.pace.wait(p.key); wait > 0 {
		if !policyInOrder || !bindingInOrder {
			c.pending(p, r)
		}
		c.queues.AddAfter(p.key, wait)
		return nil
	}
	err := c.write(lead, p, r, wasInOrder)
	if errors.Is(err, errOutdated) {
		c.pace.giveBack(p.key)
	}
	return err
}

var errStale = errors.New("policies may be out of date")

// settle records that a barrier is stored as it must be.
func (c *Controller) settle(key Key, b *barrier.Barrier) {
	c.with(key, func(r *record) { r.settled, r.missing = b, time.Time{} })
}

// isDue reports whether the leader has had long enough to write a barrier. It schedules another attempt if not.
func (c *Controller) isDue(key Key) bool {
	now, left := c.config.Clock.Now(), grace
	c.with(key, func(r *record) {
		if r.missing.IsZero() {
			r.missing = now
		}
		left -= now.Sub(r.missing)
	})
	if left > 0 {
		c.queues.AddAfter(key, left)
	}
	return left <= 0
}

// pending sets the state of a barrier that is still to be written, unless the same barrier was refused before.
func (c *Controller) pending(p *policy, r compiled) {
	if state, ok := c.State(p.key); !ok || state.of != r.barrier {
		c.setState(p.key, State{Phase: Pending, Message: "the barrier is about to be written", Report: r.barrier.Report, of: r.barrier})
	}
}

// tell sets a state that needs an author, and records an event if the state is another one than before.
func (c *Controller) tell(p *policy, state State, reason string) {
	before, ok := c.State(p.key)
	c.setState(p.key, state)
	if c.leader() != nil && (!ok || before.Phase != state.Phase || before.Message != state.Message) {
		c.config.Events.Event(p.reference(), corev1.EventTypeWarning, reason, "WriteBarrier", eventNote(p.key, reason))
	}
}

// eventNotes explain events about a policy or a mapping. They have no text of it, because others may read events than may read policies.
var eventNotes = map[string]string{
	reasonRefused:   "The barrier of the %[1]s cannot be written: see the status of the %[1]s",
	reasonOverBound: "There is no room for the barrier of the %[1]s, because of the bounds of all barriers: see the status of the %[1]s",
	reasonWritten:   "The barrier of the %[1]s is written",
	reasonRemoved:   "The barrier of the %[1]s is removed",
}

func eventNote(key Key, reason string) string { return fmt.Sprintf(eventNotes[reason], key.what()) }

// syncUnwanted removes the barrier of a policy that needs none, and then takes the finalizer from the policy.
func (c *Controller) syncUnwanted(p *policy) error {
	if !p.wantsBarrier() {
		c.forget(p.key)
	}
	if !p.hasFinalizer() && !c.hasObjects(p.key) {
		c.with(p.key, func(r *record) { r.settled = nil })
		return nil
	}
	lead := c.leader()
	if lead == nil {
		return nil
	}
	//guard:barriers-stale-removals
	if c.stale() != "" {
		return errStale
	}
	if wait := c.pace.wait(p.key); wait > 0 {
		c.queues.AddAfter(p.key, wait)
		return nil
	}
	current, err := c.readPolicy(lead, p.key)
	if err != nil {
		return err
	}
	if current == nil || !current.isSame(p) {
		return errOutdated
	}
	//guard:barriers-policies-go-before-their-barriers
	if err := c.remove(lead, p.key, p.meta.UID); err != nil {
		return err
	}
	return letGo(lead, c.config.Client, current)
}

// remove removes both objects of a barrier, the binding first.
func (c *Controller) remove(ctx context.Context, key Key, uid types.UID) error {
	hadBinding, err := c.bindings.remove(ctx, key)
	if err != nil {
		return err
	}
	hadPolicy, err := c.policies.remove(ctx, key)
	if err != nil {
		return err
	}
	if hadBinding || hadPolicy {
		writes.WithLabelValues(resultRemoved).Inc()
		klog.FromContext(ctx).Info("Removed a barrier", key.what(), klog.KRef(key.Namespace, key.Name))
		c.config.Events.Event(referenceOf(key, uid), corev1.EventTypeNormal, reasonRemoved, "RemoveBarrier", eventNote(key, reasonRemoved))
	}
	return nil
}

// hasObjects reports whether the cache has an object of a barrier.
func (c *Controller) hasObjects(key Key) bool {
	name := key.barrierName()
	policy, hasPolicy := c.policies.cached(name)
	binding, hasBinding := c.bindings.cached(name)
	return hasPolicy && c.policies.isOurs(policy, key) || hasBinding && c.bindings.isOurs(binding, key)
}

// deletionLag is how long a policy may be missing in the cache before observeDeletion has been told of its deletion, and how long the objects of its barrier may be missing after
// they were written.
const deletionLag = time.Second

// syncGone removes the barrier of a policy that is not in the cache, if its deletion was seen. Otherwise the barrier is an orphan.
func (c *Controller) syncGone(key Key) error {
	c.forget(key)
	name := key.barrierName()
	left := time.Duration(0)
	c.with(key, func(r *record) {
		if r.vanished.IsZero() {
			r.vanished = c.config.Clock.Now()
		}
		left = deletionLag - c.config.Clock.Since(r.vanished)
	})
	isEarly := left > 0
	if isEarly { // each time, because the queue may already have had the key for an earlier time
		c.queues.AddAfter(key, left)
	}
	if !c.hasObjects(key) {
		//guard:barriers-gone-before-the-cache
		if isEarly { // their watches may tell of objects that were written a moment ago
			return nil
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.names, name)
		delete(c.records, key)
		return nil
	}
	lead := c.leader()
	if lead == nil {
		return nil
	}
	//guard:barriers-stale-orphans
	if c.stale() != "" {
		return errStale
	}
	current, err := c.readPolicy(lead, key)
	if err != nil {
		return err
	}
	if current != nil {
		return errOutdated
	}
	uid := c.uidOf(name)
	before := c.record(key)
	isDeleted := before.deleted == uid && uid != ""
	c.with(key, func(r *record) { r.isOrphan = r.isOrphan || !isDeleted && !isEarly })
	//guard:barriers-policies-store-lacks
	if isDeleted {
		return c.remove(lead, key, uid)
	}
	if isEarly { // the cache is without the policy before observeDeletion is told
		return nil
	}
	if !before.isOrphan {
		klog.FromContext(lead).Error(nil, "The policy or mapping of a barrier is not in the store: the barrier stays. If it was deleted on purpose, remove the barrier with the command remove-barriers", key.what(), klog.KRef(key.Namespace, key.Name), "barrier", name)
		c.config.Events.Event(&corev1.ObjectReference{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingAdmissionPolicy", Name: name},
			corev1.EventTypeWarning, reasonOrphaned, "KeepBarrier", "The "+key.what()+" of the barrier is not in the store of Proviso, so that the barrier stays")
	}
	return nil
}

// uidOf returns the UID of the policy from which the objects with a name were written.
func (c *Controller) uidOf(name string) types.UID {
	if policy, ok := c.policies.cached(name); ok {
		return types.UID(policy.Annotations[UIDAnnotation])
	}
	if binding, ok := c.bindings.cached(name); ok {
		return types.UID(binding.Annotations[UIDAnnotation])
	}
	return ""
}
