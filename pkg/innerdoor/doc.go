/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package innerdoor decides writes to resources that kube-apiserver serves at admission, where their objects are known. It is
// the second half of a decision that the front door lets pass on conditions.
//
// kube-apiserver calls the inner door by a static admission webhook for each write that no other authorizer allows. A write at
// admission does not say how it was sent: the verbs update and patch look the same, and a create may have come from POST, PUT
// or PATCH. The inner door allows a write if all checks of one way to send it are allowed, with the object.
//
// Invariants:
//
//   - A write is allowed only by a decision that is Allow for the object, made from the policies of one moment. An error, a
//     panic, an object that cannot be decoded and a budget that is used up refuse it.
//   - Refusals quote no stored object.
//   - Resources about which an admission webhook cannot decide are refused by ValidateResources.
package innerdoor
