/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package explain is the command kubectl proviso explain. It says how each authorizer decides a request, which part of which condition
// decides, with which values, and which change of one field of the object would be allowed.
//
// Invariants:
//
//   - The decision is the one of package simulation. The values of a condition are those of the server's engine. A change is shown only if
//     package simulation allows the request with it.
//   - Values of fields that may hold secrets are in no output, also if they are part of other values or of errors.
//   - Values, trees and searches are bounded. Texts of files and servers are printed without control characters.
//
// The package must not import the server, pkg/apiserver.
package explain
