/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package granular is fine-grained authorization: permission on the fields that a write
// changes instead of on whole objects (KEP-3617). Conditional authorization is what makes
// it possible: the check of the fields is the condition of a decision that was made before
// anybody knew them.
//
// Invariants:
//
//   - What cannot be told is not allowed: an object that does not fit its schema, an
//     expression that errs, mappings that contradict each other, an authorizer that fails.
//   - A marker that cannot be understood is an error.
//   - One request asks for each verb at most once, and for MaxChecks verbs at most.
//   - What is shown to people names fields and keys, never values.
//
// It must not import anything that knows of HTTP, storage or policies.
package granular
