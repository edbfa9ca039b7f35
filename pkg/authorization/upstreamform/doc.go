/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package upstreamform translates between decisions and the wire form of conditional authorization that is proposed for Kubernetes
// (github.com/kubernetes/kubernetes, pull requests 137633 and 141959, both open). It differs from the form in the text of KEP-5681,
// which authorization.k8s.io/v1alpha1 of Proviso has. All that is known about the form is in this package.
//
// The form has no failure modes. In it a condition set that could deny is Deny if it cannot be evaluated, and every other set is
// NoOpinion, after which the next authorizer decides. In Proviso the failure mode decides, which is Deny unless a set says otherwise.
// EncodeSets ends a chain with Deny where the form would be more open: after a set that must deny if a condition fails of a type that
// a client may not know. What Proviso reads has the failure mode Deny. A decision can so be more closed after a translation, and is
// never more open: neither in Proviso, nor with the evaluator of k8s.io/apiserver.
package upstreamform
