/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rollout

import admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

// SetAdmissionPolicy records a ValidatingAdmissionPolicy that is stored: of a barrier, or of the sentinel. Others have no effect.
func (r *Rollout) SetAdmissionPolicy(p *admissionregistrationv1.ValidatingAdmissionPolicy) { r.set(p) }

// DeleteAdmissionPolicy records that a ValidatingAdmissionPolicy is not stored any more.
func (r *Rollout) DeleteAdmissionPolicy(name string) {
	r.change(name, func() { delete(r.policies, name) })
}

// SetBinding records a ValidatingAdmissionPolicyBinding that is stored.
func (r *Rollout) SetBinding(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) { r.set(b) }

// DeleteBinding records that a ValidatingAdmissionPolicyBinding is not stored any more.
func (r *Rollout) DeleteBinding(name string) {
	r.change(name, func() { delete(r.bindings, name) })
}
