/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package stored provides the endpoints of stored kinds: the objects, their status, and the table
// that kubectl prints.
//
// Invariants:
//
//   - A write to an object never changes its status, and a write to the status changes nothing else. The server owns the
//     generation, which counts changes of the specification.
//   - An update is validated as strictly as a creation, except for an unchanged specification of an object that is being
//     deleted.
//   - A Guard decides about every write to an object, deletions of objects that the store cannot read included. It does
//     not decide about writes to the status.
//   - Every validation callback of a request runs before anything is written.
//
// It must not import policies or package authorization: each kind brings its own rules.
package stored
