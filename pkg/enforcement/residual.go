/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
)

var (
	errNoSlot        = errors.New("the context of the request has no slot for conditions")
	errDecided       = errors.New("the request has already been authorized")
	errMoreThanDeny  = errors.New("only deny-only conditions can narrow a request")
	errTooManyNarrow = fmt.Errorf("a request can be narrowed by at most %d sets of conditions", authorizationapi.MaxConditionSets)
)

// Narrow restricts a request by deny-only conditions that are decided before all authorizers of
// the chain: the residual conditions of an impersonation (KEP-5681, "Constrained Impersonation
// through Conditional Authorization"). They also apply to privileged groups, and deny a request
// that does not reach admission. If Narrow returns an error, the conditions do not apply, and the
// caller must refuse the request.
func Narrow(ctx context.Context, sets ...authorization.Set) error {
	s := slotFrom(ctx)
	if s == nil {
		return errNoSlot
	}
	for _, set := range sets {
		if set.Decision.CanBecomeAllowed() {
			return errMoreThanDeny
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.request != nil:
		return errDecided
	case len(s.residual)+len(sets) > authorizationapi.MaxConditionSets:
		return errTooManyNarrow
	}
	for _, set := range sets {
		set.AuthorizerName = fmt.Sprintf("%d.%s", len(s.residual), NarrowingName)
		s.residual = append(s.residual, set)
	}
	return nil
}

// NarrowingName is the name in chains of the authorizer for the conditions that Narrow has added.
const NarrowingName = "impersonation.proviso.dev"

// Carry sets the function that reports whether the server passes a request on to another Proviso,
// which then enforces the conditions of Narrow. The component that passes such a request on must
// call Carried. Carry must be called before the server runs.
func (e *Enforcer) Carry(passedOn func(authorizer.Attributes) bool) { e.carries = passedOn }

// Carried returns the deny-only conditions that must accompany a proxied request, or nil if there
// are none. By calling it the caller promises to forward them.
func Carried(ctx context.Context) []authorization.Set {
	s := slotFrom(ctx)
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.carried = true
	return slices.Clone(s.residual)
}

// narrowedKey is the context key of the conditions of Narrow. They are in the contexts in which the
// request itself is decided, and not in the contexts of secondary checks.
type narrowedKey struct{}

// narrow returns the chain that decides about a request, or about the create check that it also
// needs, and the context for it. The create check is decided by the same server as the request.
func (e *Enforcer) narrow(ctx context.Context, a authorizer.Attributes, earlier *record) (context.Context, *authorization.Chain) {
	s := slotFrom(ctx)
	if s == nil {
		return ctx, e.config.Chain
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(s.residual) == 0:
		return ctx, e.config.Chain
	case s.carries:
		return ctx, e.config.Chain
	case earlier == nil && e.carries != nil && e.carries(a):
		s.carries = true
		return ctx, e.config.Chain
	}
	return context.WithValue(ctx, narrowedKey{}, authorization.Chained(s.residual...)), e.narrowed
}

// narrowing is the authorizer of the conditions that Narrow has added to a request. It comes
// before privileged groups, and has no opinion on other checks.
type narrowing struct{}

// Decide returns the decision that Narrow has added to the request.
func (narrowing) Decide(ctx context.Context, _ authorizer.Attributes) authorization.Decision {
	if decision, ok := ctx.Value(narrowedKey{}).(authorization.Decision); ok {
		return decision
	}
	return authorization.NoOpinion("", nil)
}
