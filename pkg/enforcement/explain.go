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

// explaining is the admission chain of the server. It notes when an admission plugin refuses a
// request that the conditions have just allowed, so that the user is shown why.
type explaining struct {
	admission.Interface
}

var (
	_ admission.MutationInterface   = explaining{}
	_ admission.ValidationInterface = explaining{}
)

// Admit runs mutating admission.
func (e explaining) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if mutating, ok := e.Interface.(admission.MutationInterface); ok {
		return mutating.Admit(ctx, a, o)
	}
	return nil
}

// Validate runs validating admission, in which Enforce evaluates the conditions.
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
	// A conflict may lead to another attempt, which can fail before it gets here.
	if err != nil && !apierrors.IsConflict(err) && s.isAllowed() {
		s.explain(err)
	}
	return err
}

// beginAttempt forgets an earlier attempt at an update, which was about another version of
// the object.
func (s *slot) beginAttempt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed, s.explanation = false, nil
}

// setAllowed notes whether the conditions have allowed the present attempt.
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

// explain notes a refusal that may be shown if the request ends with it. It may end with
// another one: the store attempts an update again if it started from an old version, and the
// next attempt can fail before its conditions are evaluated. An error that is not a Status is
// not shown. The objects of a collection are admitted concurrently, so that it is not known
// whose refusal is answered.
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

// explained returns the refusal that may be shown, nil if there is none.
func (s *slot) explained() *apierrors.StatusError {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.explanation
}

// comparing compares an answer with the only one that may be shown.
type comparing struct {
	refusal *apierrors.StatusError
	// rest is how the answer must go on.
	rest []byte
	// differs is set once it did not.
	differs bool
}

// compare returns the comparison of an answer with a refusal. It is nil if their codes differ.
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

// same reports whether the answer has been the refusal, byte for byte.
func (c *comparing) same() bool { return !c.differs && len(c.rest) == 0 }

// rendering keeps the body of an answer.
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
