/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package document reads the objects in files for commands: YAML documents and JSON, from paths, directories, patterns and
// standard input. It writes manifests, too.
//
// Invariants:
//
//   - Reading is strict: a duplicate key, a hidden document, or text that is not UTF-8 is an error.
//   - No network is used.
package document
