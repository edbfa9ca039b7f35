/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package v1alpha1 is authorization.proviso.dev/v1alpha1: the kinds of authorization.k8s.io/v1alpha1 in a
// group that belongs to Proviso. The kinds are aliases, so that one object can be sent to either
// group, and the types of their fields are in the package of the other group.
//
// +groupName=authorization.proviso.dev
// +groupGoName=AuthorizationProviso
package v1alpha1
