/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// EventsController is the reporting controller of events about whether policies work.
const EventsController = "proviso.dev/policies"

// actionWriteStatus is the action of the events.
const actionWriteStatus = "WriteStatus"

// The notes of the events have no text of the policy, because others may read events than may read policies.
const (
	noteBroken = "The policy does not decide all requests that its rules describe, with its condition: see its status"
	noteWorks  = "The policy decides all requests that its rules describe, with its condition"
)

func effectiveOf(status *policyv1alpha1.AuthorizationPolicyStatus) *metav1.Condition {
	return meta.FindStatusCondition(status.Conditions, policyv1alpha1.PolicyEffective)
}

// isBroken reports whether a policy does not work, and waits for nothing: a barrier that is to be loaded is Pending for a moment after each change, and
// the author of a policy in Audit does not want it to work.
func isBroken(effective *metav1.Condition) bool {
	return effective != nil && effective.Status == metav1.ConditionFalse && effective.Reason != string(policyv1alpha1.ResultPending) && effective.Reason != policyv1alpha1.ReasonAudit
}

func works(effective *metav1.Condition) bool {
	return effective != nil && effective.Status == metav1.ConditionTrue
}

// noteEffect notes whether a policy works by its stored status. Each replica does, because any of them may write the status after next. The caller holds
// the lock.
func (c *Controller) noteEffect(key engine.Key, p *content) {
	switch effective := effectiveOf(p.status); {
	case isBroken(effective):
		c.broken[key] = p.meta.UID
	case works(effective):
		delete(c.broken, key)
	}
}

// effectEvent returns a function that records an event if a status that is to be written says that the policy stops working, or that it works after it did
// not. Call effectEvent before the write, which noteEffect may see at once, and the function after it, so that only the replica that has written the status
// records the event. A new policy that does not work gets no event, because its author was warned.
func (c *Controller) effectEvent(key engine.Key, p *content, status *policyv1alpha1.AuthorizationPolicyStatus) (record func()) {
	before, after := effectiveOf(p.status), effectiveOf(status)
	if c.config.Events == nil || before == nil || after == nil {
		return func() {}
	}
	c.mu.Lock()
	wasBroken := isBroken(before) || c.broken[key] == p.meta.UID
	c.mu.Unlock()
	eventType, note := corev1.EventTypeNormal, noteWorks
	switch {
	case isBroken(after) && !wasBroken:
		eventType, note = corev1.EventTypeWarning, noteBroken
	case works(after) && wasBroken:
	default:
		return func() {}
	}
	regarding := &corev1.ObjectReference{APIVersion: policyv1alpha1.SchemeGroupVersion.String(), Kind: "ClusterAuthorizationPolicy", Namespace: key.Namespace, Name: key.Name, UID: p.meta.UID}
	if key.Namespace != "" {
		regarding.Kind = "AuthorizationPolicy"
	}
	return func() { c.config.Events.Event(regarding, eventType, after.Reason, actionWriteStatus, note) }
}
