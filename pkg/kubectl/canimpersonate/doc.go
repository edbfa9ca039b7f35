/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package canimpersonate is the command kubectl proviso can-impersonate. It answers by an ImpersonationReview whether a request may be made as
// another user, in the manner of can-i.
//
// Invariants:
//
//   - The answer is about the impersonation. If the impersonated user may not make the request, a warning says so.
//   - An error is never an answer: its exit code is 2.
//
// The package must not import the server, pkg/apiserver.
package canimpersonate
