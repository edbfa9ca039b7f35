/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package enforcement makes conditional authorization hold in a generic API server
// (KEP-5681, "AuthorizationConditionsEnforcer admission controller").
//
// A request that may only be allowed on conditions passes the authorization filter with its
// decision in a slot of its context. The decision is evaluated at admission, on the object
// as it will be written, by what authorized the request, whatever has changed since.
//
// Invariants:
//
//   - A request passes the filter on conditions only if its storage is known to run
//     validating admission (Enforcer.Cover) and the plugin
//     AuthorizationConditionsEnforcer belongs to this Enforcer.
//   - Admission without a decision about the very same request denies.
//   - Only the filter and the handlers' compound checks of the same request are recorded.
//     Everything else that asks for authorization inside the server gets folded answers.
//   - A request that cannot become allowed is refused before its body is read.
//
// A server that uses it needs an authorization.Chain and the lines of docs/library.md. The
// package must not import policies, storage or anything else of Proviso's own server.
package enforcement
