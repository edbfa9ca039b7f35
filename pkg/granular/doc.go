/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package granular authorizes writes by the fields that they change (KEP-3617). It has two authorizers:
// one allows writes by users who have no permission on the whole object but on every field that changes,
// and one denies changes of excluded fields by users who lack the permission on them. Both decide with
// a condition, because the fields are known only at admission.
//
// Package changes finds the fields that change, and package mapping knows which permissions they need.
//
// Invariants:
//
//   - What cannot be determined is not allowed: an object that does not fit its schema, an expression
//     that fails, mappings that contradict each other, an authorizer that fails.
//   - One evaluation of a condition asks for each verb at most once, and for at most MaxChecks verbs. Both
//     authorizers evaluate a condition for each attempt at a write.
//   - Reasons and audit annotations name fields and keys, never values.
//   - The check of fields never panics.
//
// The package must not import packages that use HTTP, storage or policies.
package granular
