/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// failure is the error of a call as it leaves the package. Every user can see it, so that its text has only the kind of the failure: the cause names
// the URL and the address of another server, and may quote what that server answered. The cause is for the log. It cannot be unwrapped.
type failure struct {
	kind  string
	cause error
}

// Error returns the kind of the failure.
//
//guard:webhook-causes-errors
func (f *failure) Error() string { return f.kind }

// Is reports whether the cause is an error.
func (f *failure) Is(target error) bool { return errors.Is(f.cause, target) }

// shown returns an error as users may see it.
func shown(err error) error { return &failure{kind: kindOf(err), cause: err} }

var errMatch = errors.New("its matchConditions cannot be evaluated")

// kinds are the errors that are a kind of failure themselves.
var kinds = []error{
	errNotCalled, errCircle, errUnasked, errContradictory, errMalformed, errMatch, errNoData, errContradiction, ErrBusy, authorizer.ErrorConditionEvaluationNotSupported,
}

// kindOf returns the kind of a failure. It quotes nothing of the error but the code of an HTTP status.
func kindOf(err error) string {
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	status := apierrors.APIStatus(nil)
	tooLong := (*http.MaxBytesError)(nil)
	switch {
	case errors.As(err, &status):
		code := int(status.Status().Code)
		return fmt.Sprintf("it answered %d %s", code, http.StatusText(code))
	case errors.As(err, &tooLong):
		return "its answer is too long"
	case errors.Is(err, context.Canceled):
		return "the request has ended"
	case utilnet.IsTimeout(err), errors.Is(err, context.DeadlineExceeded):
		return "it did not answer in time"
	}
	return kindOfTransport(err)
}

// kindOfTransport is kindOf for calls that had no answer.
func kindOfTransport(err error) string {
	certificate, operation, request := (*tls.CertificateVerificationError)(nil), (*net.OpError)(nil), (*url.Error)(nil)
	switch {
	case errors.As(err, &certificate), errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &operation) && operation.Op == "remote error":
		return "a TLS connection with it cannot be made"
	case errors.As(err, &operation), errors.As(err, &request):
		return "it cannot be reached"
	}
	return "the call failed"
}
