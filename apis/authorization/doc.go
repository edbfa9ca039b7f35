/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package authorization has the internal (hub) types of the API group authorization.k8s.io as
// Proviso serves it: the SubjectAccessReview family with conditions and
// AuthorizationConditionsReview (KEP-5681, "Changes to (Self)SubjectAccessReview" and "Supporting
// webhooks through the AuthorizationConditionsReview API"), and ImpersonationReview (KEP-5284).
//
// The group authorization.proviso.dev has the same types, as another home of the same kinds that no
// version of kube-apiserver serves.
//
// Every kind here is virtual: it can be created, is answered in the response, and is never stored.
// The package uses the attribute types of k8s.io/api/authorization/v1, so that the two versions
// cannot diverge. It must not import packages of Proviso outside apis/.
//
// +k8s:deepcopy-gen=package
// +groupName=authorization.k8s.io
package authorization
