/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package v1alpha1 is authorization.k8s.io/v1alpha1: the SubjectAccessReview family
// of authorization.k8s.io/v1, field for field, with conditions added,
// AuthorizationConditionsReview and ImpersonationReview. See KEP-5681 and KEP-5284.
//
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.proviso.authorization.v1alpha1
// +k8s:deepcopy-gen=package
// +k8s:conversion-gen=github.com/proviso-authz/proviso/apis/authorization
// +k8s:defaulter-gen=TypeMeta
// +groupName=authorization.k8s.io
package v1alpha1
