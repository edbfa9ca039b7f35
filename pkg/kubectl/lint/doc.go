/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package lint is the command kubectl proviso lint. It finds mistakes in policies that are valid: conditions that are never true, fields
// that do not exist, and policies that change no decision.
//
// Invariants:
//
//   - Mistakes in conditions are found by the packages of the server, which warn of the same.
//   - A policy is reported as shadowed only if the engine of the server decides each request of the policy without it, for all objects.
//   - Without --cluster no server is called.
//
// The package must not import the server, pkg/apiserver.
package lint
