/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package demo has the internal (hub) types of demo.proviso.dev: a resource for trying every kind
// of request that conditional authorization covers (create, update, patch, apply, delete,
// deletecollection, connect). It is served only with --enable-demo-api.
//
// +k8s:deepcopy-gen=package
// +groupName=demo.proviso.dev
package demo
