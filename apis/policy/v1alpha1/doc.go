/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package v1alpha1 is policy.proviso.dev/v1alpha1: policies that authorize requests,
// unconditionally or with conditions on their content (KEP-5681).
//
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.proviso.policy.v1alpha1
// +k8s:deepcopy-gen=package
// +k8s:conversion-gen=github.com/proviso-authz/proviso/apis/policy
// +k8s:defaulter-gen=TypeMeta
// +groupName=policy.proviso.dev
package v1alpha1
