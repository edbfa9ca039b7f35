/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package config has the internal (hub) types of config.proviso.dev: configuration files of the
// server. They are read from disk and never served.
//
// +k8s:deepcopy-gen=package
// +groupName=config.proviso.dev
package config
