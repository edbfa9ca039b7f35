/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package v1alpha1 is config.proviso.dev/v1alpha1: configuration files of the server. They are
// read from disk and never served.
//
// +k8s:deepcopy-gen=package
// +k8s:conversion-gen=github.com/proviso-authz/proviso/apis/config
// +k8s:defaulter-gen=TypeMeta
// +groupName=config.proviso.dev
package v1alpha1
