/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
)

var errNotApplied = errors.New("the change cannot be applied: the change or the stored object does not fit the schema of the kind")

// redactedUpdate wraps the computation of the changed object in an update, so that each of its errors
// is a Status. The generic server answers every other error with 500 and logs its text, which quotes
// the object. The messages of Statuses may quote the object, too: package enforcement withholds them
// from users who may not read the object.
type redactedUpdate struct {
	rest.UpdatedObjectInfo
	versioner storage.Versioner
}

var _ rest.UpdatedObjectInfo = redactedUpdate{}

// UpdatedObject returns the changed object. It returns an error if the object has a resource
// version that is not a number.
func (u redactedUpdate) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	obj, err := u.compute(ctx, old)
	if err != nil {
		return nil, withoutCause(err)
	}
	if _, err := u.versioner.ObjectResourceVersion(obj); err != nil { // the error quotes the version
		return nil, apierrors.NewBadRequest("metadata.resourceVersion must be a number")
	}
	return obj, nil
}

// compute returns the changed object, or an error if computing it panics. The libraries that apply JSON patches and
// strategic merge patches panic on some patches, depending on the stored object: after a test that fails, a JSON patch does
// not reach the operation that panics.
func (u redactedUpdate) compute(ctx context.Context, old runtime.Object) (obj runtime.Object, err error) {
	defer func() {
		reason := recover()
		if reason == http.ErrAbortHandler { //nolint:errorlint // net/http compares it, too: it ends the request on purpose
			panic(reason)
		}
		if reason != nil {
			for _, handle := range utilruntime.PanicHandlers {
				handle(ctx, reason)
			}
			obj, err = nil, errNotApplied
		}
	}()
	return u.UpdatedObjectInfo.UpdatedObject(ctx, old)
}

// ownPatch is the prefix of apimachinery's errors about an applied configuration that does not fit
// the schema, for example because a field is misspelt. They quote the client's own request, and no
// part of the stored object.
const ownPatch = "failed to create typed patch object"

// withoutCause returns the Status that an error is or wraps. For other errors it returns a Status
// without their text, unless the text is about the client's own request only.
func withoutCause(err error) error {
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status):
		return &apierrors.StatusError{ErrStatus: status.Status()}
	case strings.HasPrefix(err.Error(), ownPatch):
		return apierrors.NewInternalError(err)
	}
	return apierrors.NewInternalError(errNotApplied)
}

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
