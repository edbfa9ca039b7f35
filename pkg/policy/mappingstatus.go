/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"context"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// ReasonContradicted says that some of a mapping contradicts another one.
const ReasonContradicted = "Contradicted"

// writeStatus writes what became of mappings until the queue is shut down. Every replica
// writes the same; whoever comes second finds nothing to change.
func (c *MappingController) writeStatus(ctx context.Context) {
	for c.writeNext(ctx) {
	}
}

func (c *MappingController) writeNext(ctx context.Context) bool {
	name, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(name)
	switch err := c.writeOne(ctx, name); {
	case err == nil, apierrors.IsNotFound(err):
		c.queue.Forget(name)
	case ctx.Err() != nil:
	case apierrors.IsConflict(err):
		c.queue.AddRateLimited(name) // the cache will catch up
	default:
		utilruntime.HandleErrorWithContext(ctx, err, "Cannot write the status of a mapping", "mapping", name)
		c.queue.AddRateLimited(name)
	}
	return true
}

func (c *MappingController) writeOne(ctx context.Context, name string) error {
	obj, exists, err := c.informer.GetIndexer().GetByKey(name)
	m, ok := obj.(*policyv1alpha1.FieldPermissionMapping)
	if err != nil || !exists || !ok {
		return err
	}
	status, incomplete := c.statusOf(m)
	if !incomplete {
		return nil
	}
	_, err = c.config.Client.PolicyV1alpha1().FieldPermissionMappings().UpdateStatus(ctx,
		&policyv1alpha1.FieldPermissionMapping{ObjectMeta: *m.ObjectMeta.DeepCopy(), Spec: *m.Spec.DeepCopy(), Status: *status}, metav1.UpdateOptions{})
	return err
}

// statusOf says what became of a mapping, and whether that is still to be written. It is not
// if the mapping as it is now has not been published: it comes here again.
func (c *MappingController) statusOf(m *policyv1alpha1.FieldPermissionMapping) (status *policyv1alpha1.FieldPermissionMappingStatus, incomplete bool) {
	c.mu.Lock()
	r := c.results[m.Name]
	c.mu.Unlock()
	if !r.isOf(m) {
		return nil, false
	}
	ready := metav1.Condition{Type: policyv1alpha1.PolicyReady, Status: metav1.ConditionTrue, Reason: ReasonCompiled, Message: "the mapping is in force", ObservedGeneration: m.Generation}
	switch {
	case r.problem.Invalid:
		ready.Status, ready.Reason = metav1.ConditionFalse, ReasonCompileFailed
		ready.Message = r.problem.Reason + ". Nothing is granted by the mapping" + closedMapping(&m.Spec)
	case r.problem.Reason != "":
		ready.Status, ready.Reason = metav1.ConditionFalse, ReasonContradicted
		ready.Message = r.problem.Reason + ". Neither covers the field; what is excluded stays so, and nobody may change it"
	}
	status = m.Status.DeepCopy()
	status.ObservedGeneration = m.Generation
	meta.SetStatusCondition(&status.Conditions, ready)
	return status, !apiequality.Semantic.DeepEqual(status, &m.Status)
}

// closedMapping says what becomes of what a mapping that is not valid excludes.
func closedMapping(spec *policyv1alpha1.FieldPermissionMappingSpec) string {
	excludes := func(f policyv1alpha1.FieldPermission) bool { return f.Exclusion != nil }
	switch {
	case !slices.ContainsFunc(spec.Fields, excludes):
		return ""
	case len(spec.Resources) == 0:
		return ", and nothing can be written until it is mended: it excludes fields, and does not say of which resources"
	}
	return ", and its resources cannot be written until it is mended, since it excludes fields"
}
