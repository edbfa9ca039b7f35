/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
)

// missingKey begins the message about a key that a map does not have.
const missingKey = "no such key"

// classes are the classes of FailureClass, with the beginnings of error messages of the CEL libraries that belong to them.
// A class is a constant: it quotes nothing of the message, which may contain data.
var classes = []struct {
	class    string
	prefixes []string
}{
	{missingKey, []string{missingKey}},
	{"no such overload", []string{"no such overload"}},
	{"no such attribute", []string{"no such attribute"}},
	{"index out of bounds", []string{"index out of", "cannot slice"}},
	{"division by zero", []string{"division by zero", "modulus by zero"}},
	{"overflow", []string{"integer overflow", "unsigned integer overflow", "duration overflow", "timestamp overflow"}},
	{"conversion failed", []string{
		"type conversion error", "IP Address", "network address", "URL parse error", "quantities must", "unable to parse quantity", "unknown time zone",
	}},
	{"invalid regular expression", []string{"error parsing regexp", "Illegal regex"}},
	{"the optional has no value", []string{"optional.none()"}},
}

// Fail ends the CEL function that is being called, whose result becomes err. It is for Go code that a CEL library of
// Kubernetes calls, and that cannot return an error through this library. It panics, and never returns.
func Fail(err error) { guard.Fail(err) }

// FailureClass returns the class of an error of an evaluation, such as "no such key" or
// "cost limit exceeded". The error itself may quote the data that was evaluated; the class
// quotes nothing of it, but may name the key that is missing if the expression does. The class of every other error is "evaluation failed".
func FailureClass(err error) string {
	switch {
	case errors.Is(err, ErrCost):
		return ErrCost.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "the time was up"
	}
	var failed *engine.Failure
	if errors.As(err, &failed) {
		if failed.Key != "" {
			return missingKey + ": " + failed.Key
		}
		for _, c := range classes {
			if slices.ContainsFunc(c.prefixes, func(prefix string) bool { return strings.HasPrefix(failed.Text, prefix) }) {
				return c.class
			}
		}
	}
	return ErrEvaluation.Error()
}
