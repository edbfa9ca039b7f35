/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package enforcement enforces conditional authorization in a generic API server (KEP-5681,
// "AuthorizationConditionsEnforcer admission controller").
//
// A request whose decision is conditional passes the authorization filter, with the decision in a
// slot of its context. At admission, the authorizers that authorized the request evaluate the
// decision on the object as it will be written, from the snapshot that was pinned at authorization.
//
// Invariants:
//
//   - A request passes the filter on conditions only if its storage is known to run
//     validating admission (Enforcer.Cover) and the plugin
//     AuthorizationConditionsEnforcer belongs to this Enforcer.
//   - Admission of a request without a decision about that same request denies.
//   - Only decisions of the filter and of the handlers' compound checks for the same request
//     are recorded. All other authorization checks inside the server get folded answers.
//   - A request that cannot become allowed is refused before its body is read.
//
// A server that uses the package needs an authorization.Chain and the setup in docs/library.md; the
// example is a whole server.
// The package must not import policies, storage or any other part of Proviso's own server.
package enforcement
