/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package rbac reads Roles, ClusterRoles and their bindings, from files or from a cluster, and returns the permissions of each binding
// in the form of an Allow policy. RBAC is a part of what Allow policies can express, so that commands match both by the rules of the
// engine.
//
// Invariants:
//
//   - A permission allows the same requests as its binding, and never more: whatever RBAC ignores is left out, and has a remark.
//   - Objects that could not be read are reported, and never taken as absent.
//
// The package must not import the server, pkg/apiserver.
package rbac
