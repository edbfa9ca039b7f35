/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package terminal has what commands do on a terminal only: the colour of answers, and a line that shows the progress of long work.
//
// Invariants:
//
//   - Output that is not a terminal has neither. So it is with TERM=dumb, and there is no colour if NO_COLOR is set.
//   - The line of progress is erased before anything else is written.
//
// The package must not import the server, pkg/apiserver.
package terminal
