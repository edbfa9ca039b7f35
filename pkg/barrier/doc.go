/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package barrier compiles Deny policies, and the exclusions of FieldPermissionMappings, into ValidatingAdmissionPolicies. A barrier is
// the ValidatingAdmissionPolicy of one policy or mapping, with its binding. With it, kube-apiserver refuses the writes that the policy
// denies, or that change excluded fields without their verbs, also if RBAC allows them.
//
// Invariants:
//
//   - A barrier refuses a request exactly if the policy denies it, with two exceptions. What the policy denies only because data is over a
//     bound of Proviso, the barrier refuses if the condition is true without the bound, or an error. And it refuses what kube-apiserver does
//     not evaluate to the end. TestBarrierLaw compares both on random policies and requests, with the admission plugin of kube-apiserver.
//   - A barrier refuses a request if a translated exclusion of the mapping does. It may refuse more where the schema of the object would
//     decide, and where only managers of fields change. TestExclusionLaw compares both. With newValues about a map or a list, it does not
//     compare the managers of a creation, whose fields are all new.
//   - Where a rule cannot be translated exactly, it is left out, and the report says why. Sees returns false for its requests.
//   - Compiling the same policy again gives the same bytes.
//   - A refusal shows no text of a policy but its description, and quotes no stored object.
//
// The package writes nothing to a cluster; package barriercontroller does.
package barrier
