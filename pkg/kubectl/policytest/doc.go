/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package policytest is the command kubectl proviso test. It runs suites of tests of policies offline: a suite names policies,
// requests with the data of admission, and the expected decisions of both phases.
//
// Invariants:
//
//   - Policies are loaded, compiled and evaluated by the packages of the server, and ValidatingAdmissionPolicies by packages of kube-apiserver.
//   - A suite that cannot be read completely is an error, and none of its tests count as passed.
//   - No server is called, and no kubeconfig is read.
//
// The package must not import the server, pkg/apiserver.
package policytest
