/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"errors"
	"fmt"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// diagnostics gathers the reasons and errors of authorizers without an opinion, for the case that all
// authorizers have none.
type diagnostics struct {
	reasons []string
	errs    []error
}

func (t *diagnostics) add(s Set) {
	if reason := s.Decision.reason; reason != "" {
		t.reasons = append(t.reasons, reason)
	}
	if err := s.Decision.err; err != nil {
		t.errs = append(t.errs, fmt.Errorf("%s: %w", s.AuthorizerName, err))
	}
}

func (t *diagnostics) reason() string { return strings.Join(t.reasons, "; ") }

func (t *diagnostics) err() error { return joinErrors(t.errs) }

// maxReportedErrors bounds how many errors one decision reports. 512 conditions may
// each fail with a message of their own.
const maxReportedErrors = 8

func joinErrors(errs []error) error {
	if more := len(errs) - maxReportedErrors; more > 0 {
		errs = append(errs[:maxReportedErrors:maxReportedErrors], fmt.Errorf("and %d more errors", more))
	}
	return utilerrors.NewAggregate(errs)
}

var errUnsupported = errors.New("the condition type is not supported")
