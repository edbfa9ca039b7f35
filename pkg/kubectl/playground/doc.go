/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package playground is the command kubectl proviso playground. It serves a page on which policies, a request and an object are edited,
// and that shows the decision, what would be allowed, the conditions and the barriers.
//
// Invariants:
//
//   - The decision is the one of package explain, with its rule for secrets. No file is read, and no network is used.
//   - The server listens on 127.0.0.1 only. It answers requests to its own address only, and decides for pages of its own only.
//   - A request is bounded in size and time, and decisions in number. No error has a stack.
//   - The page uses nothing but its own assets, and its link is never sent to the server.
//
// The package must not import the server, pkg/apiserver.
package playground
