/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
)

// TestQuietErrors checks that the text of an error that is a Status has no values, and that clients get the same Status.
func TestQuietErrors(t *testing.T) {
	t.Parallel()
	const secret = "dGhlIHNlY3JldA"
	status := apierrors.NewBadRequest("invalid value " + secret)
	got := quiet(status)
	if text := got.Error(); strings.Contains(text, secret) || text != "BadRequest (400)" {
		t.Errorf("got %q, want the reason and the code", text)
	}
	if diff := cmp.Diff(responsewriters.ErrorToAPIStatus(status), responsewriters.ErrorToAPIStatus(got)); diff != "" {
		t.Errorf("clients get another answer: %s", diff)
	}
	if !apierrors.IsBadRequest(got) || !errors.Is(got, status) && !errors.As(got, &status) {
		t.Errorf("got %#v, want an error that is still a bad request", got)
	}
	other := errors.New("etcdserver: request is too large") // the handlers look at its type
	if got := quiet(other); got != other {                  //nolint:errorlint // it must be the same
		t.Errorf("got %v, want the error as it is", got)
	}
	if got := quiet(nil); got != nil {
		t.Errorf("got %v, want no error", got)
	}
}
