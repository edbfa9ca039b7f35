/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package demo holds the internal (hub) types of demo.proviso.dev: a resource on
// which every kind of request that conditional authorization covers (create, update,
// patch, apply, delete, deletecollection, connect) can be tried end to end. It is
// served only with --enable-demo-api.
//
// +k8s:deepcopy-gen=package
// +groupName=demo.proviso.dev
package demo
