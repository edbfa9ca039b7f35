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
	errNoSlot           = errors.New("the context of the request has no slot for conditions")
	errDecided          = errors.New("the request has already been authorized")
	errMoreThanDeny     = errors.New("only deny-only conditions can restrict a request")
	errTooManyResiduals = fmt.Errorf("a request can be restricted by at most %d sets of conditions", authorizationapi.MaxConditionSets)
)

// EnforceResidual restricts a request by deny-only conditions that are decided before all authorizers of
// the chain: the residual conditions of an impersonation (KEP-5681, "Constrained Impersonation
// through Conditional Authorization"). They also apply to privileged groups, and deny a request
// that does not reach admission. EnforceResidual must be called before the request is authorized. If it
// returns an error, it has added none of sets, and the caller must refuse the request.
func EnforceResidual(ctx context.Context, sets ...authorization.Set) error {
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
		return errTooManyResiduals
	}
	for _, set := range sets {
		set.AuthorizerName = fmt.Sprintf("%d.%s", len(s.residual), ResidualName)
		s.residual = append(s.residual, set)
	}
	return nil
}

// ResidualName is the name in chains of the authorizer for the conditions that EnforceResidual has added.
const ResidualName = "impersonation.proviso.dev"

// SetForwards sets the function that reports whether the server passes a request on to another Proviso,
// which then enforces the conditions of EnforceResidual. The component that passes such a request on must
// call ResidualToForward. SetForwards must be called before the server runs.
func (e *Enforcer) SetForwards(forwards func(authorizer.Attributes) bool) { e.forwards = forwards }

// ResidualToForward returns the deny-only conditions that must accompany a proxied request, or nil if there
// are none. By calling it the caller promises to forward them.
func ResidualToForward(ctx context.Context) []authorization.Set {
	s := slotFrom(ctx)
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetched = true
	return slices.Clone(s.residual)
}

// residualKey is the context key of the conditions of EnforceResidual. They are in the contexts in which the
// request itself is decided, and not in the contexts of secondary checks.
type residualKey struct{}

// chainFor returns the chain that decides about a request, or about the create check that it also
// needs, and the context for that chain. The conditions of EnforceResidual come first in the chain,
// unless another server enforces them. The create check is decided by the same server as the request.
func (e *Enforcer) chainFor(ctx context.Context, a authorizer.Attributes, earlier *record) (context.Context, *authorization.Chain) {
	s := slotFrom(ctx)
	if s == nil {
		return ctx, e.config.Chain
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(s.residual) == 0:
		return ctx, e.config.Chain
	case s.forwarded:
		return ctx, e.config.Chain
	case earlier == nil && e.forwards != nil && e.forwards(a):
		s.forwarded = true
		return ctx, e.config.Chain
	}
	return context.WithValue(ctx, residualKey{}, authorization.Chained(s.residual...)), e.restricted
}

// residualAuthorizer is the authorizer of the conditions that EnforceResidual has added to a request. It is the first member
// of the restricted chain, before privileged groups, and returns NoOpinion for other checks.
type residualAuthorizer struct{}

// Decide returns the decision in the context, which has the conditions of EnforceResidual, or NoOpinion if there is none.
func (residualAuthorizer) Decide(ctx context.Context, _ authorizer.Attributes) authorization.Decision {
	if decision, ok := ctx.Value(residualKey{}).(authorization.Decision); ok {
		return decision
	}
	return authorization.NoOpinion("", nil)
}
