/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
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
	s.setAllowed(false)
	err := validating.Validate(ctx, a, o)
	// A conflict may lead to another attempt, which can fail before it gets here.
	if err != nil && !apierrors.IsConflict(err) && s.isAllowed() {
		s.explain()
	}
	return err
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

// explain notes that the request ends with a refusal that may be shown. The objects of a
// collection are admitted concurrently, so that it is not known whose refusal is answered.
func (s *slot) explain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.explained = s.request == nil || s.request.attributes.GetVerb() != "deletecollection"
}

func (s *slot) isExplained() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.explained
}
