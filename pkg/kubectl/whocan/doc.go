/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package whocan is the command kubectl proviso who-can. It lists the users, groups and service accounts that may make a request, by RBAC and
// by policies, with their conditions.
//
// Invariants:
//
//   - A subject that may make the request is in the list, by its name or by its most special group, if everything could be read. So is one that may make it with a
//     selector, a name or a namespace that the question does not have.
//   - The answer "yes" depends on no condition. Conditions that need more of a user than the list knows, such as the groups of a user, are shown
//     and not evaluated.
//   - If something could not be read, the report says so, and the exit code is 1.
//
// The package must not import the server, pkg/apiserver.
package whocan
