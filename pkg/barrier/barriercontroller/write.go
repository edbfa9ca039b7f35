/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/pkg/excerpt"
)

// maxRefusalBytes bounds the text of kube-apiserver in a state.
const maxRefusalBytes = 512

// write writes the barrier of a policy: first as a dry run of both objects, then the policy, then the binding. Both objects are read
// before the policy of this server is read from the store, so that an object cannot be newer than the policy. A process that is not the
// leader makes the dry runs only. It returns errOutdated if it has written nothing because the policy has changed in the meantime.
//
// wasInOrder says that this process has seen the same barrier in order, so that others have changed it since.
func (c *Controller) write(ctx context.Context, p *policy, r compiled, wasInOrder bool) error {
	name := p.key.barrierName()
	storedPolicy, hasPolicy, err := c.policies.stored(ctx, name)
	if err != nil {
		return c.failed(p, r, err)
	}
	storedBinding, hasBinding, err := c.bindings.stored(ctx, name)
	if err != nil {
		return c.failed(p, r, err)
	}
	current, err := c.readPolicy(ctx, p.key)
	switch {
	case err != nil:
		return err
	case current == nil || !current.isSame(p):
		return errOutdated
	}
	if err := c.policies.foreign(current, storedPolicy, hasPolicy, r.barrier.Policy); err != nil {
		return c.failed(p, r, err)
	}
	if err := c.bindings.foreign(current, storedBinding, hasBinding, r.barrier.Binding); err != nil {
		return c.failed(p, r, err)
	}
	isLeader := c.leader() != nil
	if isLeader {
		switch current, err = c.hold(ctx, current); {
		case apierrors.IsConflict(err): // a new policy has its first status written at this time
			c.pending(p, r)
			return errOutdated
		case err != nil:
			return c.failed(p, r, &holdError{err})
		}
	}
	policy, binding := wantedObjects(r.barrier, current)
	writePolicy, deviation := c.policies.plan(storedPolicy, hasPolicy, policy)
	writeBinding, ofBinding := c.bindings.plan(storedBinding, hasBinding, binding)
	steps := slices.DeleteFunc([]step{writePolicy, writeBinding}, func(write step) bool { return write == nil })
	for _, write := range steps {
		//guard:barriers-dry-runs
		if err := write(ctx, []string{metav1.DryRunAll}); err != nil {
			return c.failed(p, r, err)
		}
	}
	if !isLeader {
		return nil
	}
	isChange := deviation != "" || ofBinding != ""
	if isChange {
		c.pending(p, r)
	}
	for _, write := range steps {
		if err := write(ctx, nil); err != nil {
			return c.failed(p, r, err)
		}
	}
	c.settle(p.key, r.barrier) // the cache may see it only after others have changed it
	if isChange {
		c.tellWritten(ctx, p, wasInOrder, name, deviation, ofBinding)
	}
	return nil
}

// tellWritten records that a barrier was written, or written again after others had changed it.
func (c *Controller) tellWritten(ctx context.Context, p *policy, wasInOrder bool, name, deviation, ofBinding string) {
	kind := c.policies.name
	if deviation == "" {
		kind, deviation = c.bindings.name, ofBinding
	}
	logger := klog.FromContext(ctx).WithValues(p.key.what(), klog.KRef(p.key.Namespace, p.key.Name), "barrier", name)
	if !wasInOrder {
		writes.WithLabelValues(resultWritten).Inc()
		logger.Info("Wrote a barrier")
		c.config.Events.Event(p.reference(), corev1.EventTypeNormal, reasonWritten, "WriteBarrier", eventNote(p.key, reasonWritten))
		return
	}
	writes.WithLabelValues(resultRestored).Inc()
	logger.Error(nil, "Restored a barrier that others had changed", "kind", kind, "deviation", deviation)
	c.config.Events.Event(p.reference(), corev1.EventTypeWarning, reasonRestored, "RestoreBarrier", fmt.Sprintf("Others had changed the barrier of the %s: the %s %q %s", p.key.what(), kind, name, deviation))
}

// failed sets the state of a barrier that cannot be written, and returns the error that the queue needs: nil if there is nothing to
// try again soon.
func (c *Controller) failed(p *policy, r compiled, err error) error {
	var foreign *foreignError
	var changed *changedError
	switch {
	case errors.As(err, &foreign):
		c.tell(p, State{Phase: NameTaken, Message: err.Error(), Report: r.barrier.Report, of: r.barrier}, reasonRefused)
	case errors.As(err, &changed), isRefusal(err):
		writes.WithLabelValues(resultRefused).Inc()
		message := "kube-apiserver refuses the barrier: "
		if hold := (*holdError)(nil); errors.As(err, &hold) {
			message = "the " + p.key.what() + " cannot have the finalizer that its barrier needs: "
		}
		c.tell(p, State{Phase: Refused, Message: message + excerpt.Of(err.Error(), maxRefusalBytes), Report: r.barrier.Report, of: r.barrier}, reasonRefused)
	default:
		c.pending(p, r)
		return err
	}
	return nil // enqueueAll comes back to it
}

// holdError says that a policy cannot have the finalizer.
type holdError struct{ error }

func (e *holdError) Unwrap() error { return e.error }

// isRefusal reports whether kube-apiserver refuses an object, so that the same request would fail again.
func isRefusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}
