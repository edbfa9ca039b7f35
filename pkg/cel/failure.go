/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"context"
	"errors"
	"strings"

	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
)

// missingKey begins the message about a key that a map does not have.
const missingKey = "no such key"

// classes maps the error messages of the CEL libraries to the classes of FailureClass. A message belongs to a class if it begins
// with the prefix. The class is a constant: it quotes nothing of the message, which may contain data.
var classes = []struct{ prefix, class string }{
	{missingKey, missingKey},
	{"no such overload", "no such overload"},
	{"no such attribute", "no such attribute"},
	{"index out of", "index out of bounds"},
	{"cannot slice", "index out of bounds"},
	{"division by zero", "division by zero"},
	{"modulus by zero", "division by zero"},
	{"integer overflow", "overflow"},
	{"unsigned integer overflow", "overflow"},
	{"duration overflow", "overflow"},
	{"timestamp overflow", "overflow"},
	{"type conversion error", "conversion failed"},
	{"IP Address", "conversion failed"},
	{"network address", "conversion failed"},
	{"URL parse error", "conversion failed"},
	{"quantities must", "conversion failed"},
	{"unable to parse quantity", "conversion failed"},
	{"unknown time zone", "conversion failed"},
	{"error parsing regexp", "invalid regular expression"},
	{"Illegal regex", "invalid regular expression"},
	{"optional.none()", "the optional has no value"},
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
			if strings.HasPrefix(failed.Text, c.prefix) {
				return c.class
			}
		}
	}
	return ErrEvaluation.Error()
}
