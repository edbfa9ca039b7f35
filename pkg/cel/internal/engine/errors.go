/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import "errors"

var (
	// ErrCompile is wrapped by every error that says why an expression cannot be used.
	ErrCompile = errors.New("does not compile")
	// ErrCost says that an evaluation exceeded its cost limit.
	ErrCost = errors.New("cost limit exceeded")
	// ErrEvaluation is wrapped by every other error of an evaluation.
	ErrEvaluation = errors.New("evaluation failed")
)

// Failure is the error of an evaluation. Text comes from the CEL library, which quotes values of the
// data. It wraps ErrEvaluation.
type Failure struct {
	Text string
	// Key is the key that is missing, if it is a name that the expression has. Otherwise it is empty.
	Key string
}

func (f *Failure) Error() string { return ErrEvaluation.Error() + ": " + f.Text }

// Unwrap returns ErrEvaluation.
func (f *Failure) Unwrap() error { return ErrEvaluation }
