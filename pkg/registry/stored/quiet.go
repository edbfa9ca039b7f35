/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// quietError is a Status whose text as an error has no values. Clients get the Status. The generic server logs the text of
// an error that a store returns after the request has timed out, and messages of a Status quote the object.
type quietError struct {
	*apierrors.StatusError
}

var (
	_ error               = quietError{}
	_ apierrors.APIStatus = quietError{}
)

// Error returns the reason and the code.
func (e quietError) Error() string {
	return fmt.Sprintf("%s (%d)", e.ErrStatus.Reason, e.ErrStatus.Code)
}

// Unwrap returns the error with the message.
func (e quietError) Unwrap() error { return e.StatusError }

// quiet returns the quiet form of an error that is a Status, and every other error as it is.
func quiet(err error) error {
	if status, ok := err.(apierrors.APIStatus); ok { // a wrapped Status is answered with 500
		return quietError{&apierrors.StatusError{ErrStatus: status.Status()}}
	}
	return err
}
