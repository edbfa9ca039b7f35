/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package config holds the internal (hub) types of config.proviso.dev: files that configure
// the server. They are read from disk and never served.
//
// +k8s:deepcopy-gen=package
// +groupName=config.proviso.dev
package config
