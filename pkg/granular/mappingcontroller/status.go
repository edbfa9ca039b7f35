/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mappingcontroller

import (
	"context"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// writeStatus writes the status of a mapping, if it is known and differs from the stored status.
func (c *Controller) writeStatus(ctx context.Context, name string) error {
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

// statusOf returns the status of a mapping, and true if it differs from the stored status and has to be written. It
// returns false without a status if the current specification of the mapping has not been published yet: publish enqueues
// the mapping afterwards.
func (c *Controller) statusOf(m *policyv1alpha1.FieldPermissionMapping) (status *policyv1alpha1.FieldPermissionMappingStatus, incomplete bool) {
	c.mu.Lock()
	r := c.results[m.Name]
	c.mu.Unlock()
	if !r.isOf(m) {
		return nil, false
	}
	ready := metav1.Condition{Type: policyv1alpha1.PolicyReady, Status: metav1.ConditionTrue, Reason: policyv1alpha1.ReasonCompiled, Message: "the mapping takes effect", ObservedGeneration: m.Generation}
	switch {
	case r.problem.Invalid:
		ready.Status, ready.Reason = metav1.ConditionFalse, policyv1alpha1.ReasonCompileFailed
		ready.Message = r.problem.Reason + ". Nothing is granted by the mapping" + closedMapping(&m.Spec)
	case r.problem.Reason != "":
		ready.Status, ready.Reason = metav1.ConditionFalse, policyv1alpha1.ReasonContradicted
		ready.Message = r.problem.Reason + ". Neither mapping covers the field. If it is excluded, it cannot be changed"
	}
	status = m.Status.DeepCopy()
	status.ObservedGeneration = m.Generation
	meta.SetStatusCondition(&status.Conditions, ready)
	var effective *metav1.Condition
	isKnown := true
	if c.config.Effective != nil {
		effective, isKnown = c.config.Effective(m)
	}
	switch {
	case effective != nil:
		meta.SetStatusCondition(&status.Conditions, *effective)
	case isKnown:
		meta.RemoveStatusCondition(&status.Conditions, policyv1alpha1.PolicyEffective)
	}
	return status, !apiequality.Semantic.DeepEqual(status, &m.Status)
}

// closedMapping returns the part of the status message that says what cannot be written because of an invalid mapping with
// exclusions. It is empty for a mapping without exclusions.
func closedMapping(spec *policyv1alpha1.FieldPermissionMappingSpec) string {
	excludes := func(f policyv1alpha1.FieldPermission) bool { return f.Exclusion != nil }
	switch {
	case !slices.ContainsFunc(spec.Fields, excludes):
		return ""
	case len(spec.Resources) == 0:
		return ", and nothing can be written until it is corrected: it excludes fields without naming resources"
	}
	return ", and its resources cannot be written until it is mended, since it excludes fields"
}
