/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"bytes"
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
)

// explaining wraps the admission chain of the server. If an admission plugin refuses a request
// after its conditions allowed it, explaining records the refusal, so that the user can be shown
// the reason.
type explaining struct {
	admission.Interface
}

var (
	_ admission.MutationInterface   = explaining{}
	_ admission.ValidationInterface = explaining{}
)

// Admit keeps the object of a create as the user has sent it, and runs mutating admission.
func (e explaining) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	slotFrom(ctx).recordSent(a)
	if mutating, ok := e.Interface.(admission.MutationInterface); ok {
		return mutating.Admit(ctx, a, o)
	}
	return nil
}

// Validate runs validating admission, in which Enforce evaluates the conditions. It records an error
// of a plugin that comes after the conditions have allowed the request.
func (e explaining) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	validating, ok := e.Interface.(admission.ValidationInterface)
	if !ok {
		return nil
	}
	s := slotFrom(ctx)
	if s == nil {
		return validating.Validate(ctx, a, o)
	}
	s.beginAttempt()
	err := validating.Validate(ctx, a, o)
	// An update is attempted again after a conflict, and may then fail before it gets here.
	if err != nil && !apierrors.IsConflict(err) && s.isAllowed() {
		s.explain(err)
	}
	return err
}

// beginAttempt discards the result of an earlier attempt at an update, which was about another
// version of the object.
func (s *slot) beginAttempt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed, s.explanation = false, nil
}

// setAllowed records whether the conditions allowed the current attempt.
func (s *slot) setAllowed(allowed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed = allowed
}

func (s *slot) isAllowed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.allowed
}

// explain records a refusal that may be shown if the request ends with it. The request may end
// with another refusal: the store attempts an update again if it started from an old version, and
// the next attempt can fail before its conditions are evaluated. An error that is not a Status is
// not shown. For deletecollection nothing is recorded: the objects are admitted concurrently, so
// it is not known which refusal becomes the answer.
func (s *slot) explain(err error) {
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.request == nil || s.request.attributes.GetVerb() != "deletecollection" {
		s.explanation = &apierrors.StatusError{ErrStatus: status.Status()}
	}
}

// explained returns the refusal that explain has recorded, or nil.
func (s *slot) explained() *apierrors.StatusError {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.explanation
}

// comparing compares the answer of a handler with the refusal that explain has recorded, the only one that may be shown.
type comparing struct {
	refusal *apierrors.StatusError
	// rest is the part of the refusal that has not been compared yet.
	rest []byte
	// differs is true once the answer differs from the refusal.
	differs bool
}

// compare starts the comparison of an answer with a refusal. It returns nil if there is no
// refusal, or if its status code is another one.
func (w *withholding) compare(refusal *apierrors.StatusError, status int) *comparing {
	if refusal == nil || int(refusal.ErrStatus.Code) != status {
		return nil
	}
	expected := &rendering{header: http.Header{}}
	responsewriters.ErrorNegotiated(refusal, w.serializer, unversioned, expected, w.request)
	return &comparing{refusal: refusal, rest: expected.body}
}

func (c *comparing) write(body []byte) {
	rest, same := bytes.CutPrefix(c.rest, body)
	c.rest, c.differs = rest, c.differs || !same
}

// same reports whether the answer was the refusal, byte for byte.
func (c *comparing) same() bool { return !c.differs && len(c.rest) == 0 }

// rendering is a ResponseWriter that keeps the body of an answer in memory.
type rendering struct {
	header http.Header
	body   []byte
}

var _ http.ResponseWriter = &rendering{}

func (r *rendering) Header() http.Header { return r.header }

func (r *rendering) WriteHeader(int) {}

func (r *rendering) Write(body []byte) (int, error) {
	r.body = append(r.body, body...)
	return len(body), nil
}
