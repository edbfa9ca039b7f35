/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package changes finds the fields that a write changes, and the fields whose managers it changes
// (KEP-3617, "API Server Additional Plumbing and Checks", step 3). For
//
//	before: metadata: {generation: 1, labels: {a: x}}
//	after:  metadata: {generation: 2, labels: {a: y, example.com/b: z}}
//
// the changed fields are metadata.labels.a and metadata.labels["example.com/b"].
//
// Invariants:
//
//   - Every change counts, except changes of the fields that ServerOwned lists, and an empty status that is
//     added or removed: a removed field, an element that moved within its list, and an empty list where there
//     was none are changes.
//   - A field that a manager gains or loses in metadata.managedFields is a claim, even if its value
//     stays the same: the manager's next apply may remove the field.
//   - An object that does not fit its schema, or is too large to be compared, is an error. A schema
//     that cannot be read is an error; a kind that has no schema is compared without one.
//   - Errors and names of fields contain no values, except those that are the keys of list elements.
//
// The package knows neither permissions nor users. It must not import anything else of Proviso.
package changes
