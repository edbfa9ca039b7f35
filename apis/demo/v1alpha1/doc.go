/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package v1alpha1 is demo.proviso.dev/v1alpha1: a resource for trying every kind of request that
// conditional authorization covers.
//
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.proviso.demo.v1alpha1
// +k8s:deepcopy-gen=package
// +k8s:conversion-gen=github.com/proviso-authz/proviso/apis/demo
// +k8s:defaulter-gen=TypeMeta
// +groupName=demo.proviso.dev
package v1alpha1
