/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package openapi reads the schemas of kinds in documents of OpenAPI v3, for commands.
//
// Invariants:
//
//   - No network is used.
//   - A kind that no document has is an error, and not an empty schema.
package openapi
