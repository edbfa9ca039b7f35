/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package upstreamform translates between decisions and the wire form of conditional authorization that is proposed for Kubernetes
// (github.com/kubernetes/kubernetes, pull requests 137633 and 141959, both open). It differs from the form in the text of KEP-5681,
// which authorization.k8s.io/v1alpha1 of Proviso has. All that is known about the form is in this package.
//
// The form has no failure modes. A condition set that cannot be evaluated counts as Deny. A set with the failure mode NoOpinion is
// therefore more closed after a translation, and no set is more open.
package upstreamform
