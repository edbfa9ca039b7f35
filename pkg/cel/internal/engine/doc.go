/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package engine checks, plans and evaluates the CEL expressions of one environment. All expressions
// of an environment share the programs of one Engine, which is what makes thousands of policies
// affordable (docs/adr/0008-one-program-evaluates-all-expressions.md).
//
// Invariants:
//
//   - Every expression is checked and planned with the bounds of package guard.
//   - An Engine and its Instructions are immutable and safe for concurrent use.
//   - An evaluation ends when it exceeds its cost limit or when its context ends. Its cost is reported
//     also if it fails.
//   - Errors quote at most about a kilobyte of an expression or its data.
//
// The package knows no variables and no limits: package cel declares them. Apart from package guard it
// must not import anything else of Proviso.
package engine
