/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package authorization holds the internal (hub) types of the API group
// authorization.k8s.io as Proviso serves it: the SubjectAccessReview family with
// conditions and AuthorizationConditionsReview (KEP-5681, "Changes to
// (Self)SubjectAccessReview" and "Supporting webhooks through the
// AuthorizationConditionsReview API"), and ImpersonationReview (KEP-5284).
//
// Every kind here is virtual: it can be created, is answered in the response, and
// is never stored. The attribute types are those of k8s.io/api/authorization/v1
// themselves, so that the two versions cannot drift apart. The package must not
// import anything of Proviso outside apis/.
//
// +k8s:deepcopy-gen=package
// +groupName=authorization.k8s.io
package authorization
