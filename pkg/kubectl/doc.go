/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package kubectl is the kubectl plugin, kubectl proviso. It builds the tree of commands and turns the error of a command into an
// exit code. Each command is a package of its own.
//
// Invariants:
//
//   - Errors are printed to the error stream only, each on lines of its own, without control characters.
//   - A command that fails exits with the code 2, and each of its errors is one line. All other codes are answers.
//
// The package must not import the server, pkg/apiserver.
package kubectl
