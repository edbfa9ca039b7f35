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
	errNoSlot        = errors.New("the request has no place to carry conditions")
	errDecided       = errors.New("the request has been authorized already")
	errMoreThanDeny  = errors.New("only conditions that deny can narrow a request")
	errTooManyNarrow = fmt.Errorf("a request can be narrowed by at most %d sets of conditions", authorizationapi.MaxConditionSets)
)

// Narrow adds to a request conditions that precede everything that decides it, and that
// only deny: what an impersonation still depends on (KEP-5681, "Constrained Impersonation
// through Conditional Authorization"). They hold for privileged users too, and deny a
// request that no admission sees. An error means that they are not in force: the caller
// must refuse the request.
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

// NarrowingName is the name under which chains know what Narrow has added.
const NarrowingName = "impersonation.proviso.dev"

// Carry says which requests the server passes on to another Proviso, which enforces what
// they are narrowed by. Whoever passes them on must ask Carried. It must be called before
// the server runs.
func (e *Enforcer) Carry(passedOn func(authorizer.Attributes) bool) { e.carries = passedOn }

// Carried returns what narrows a request that is passed on, in a form that the other server
// must be told. Who asks for it vouches that it is. It returns nil if nothing does.
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

// narrowedKey is in the contexts in which the request itself is decided, and nothing that is
// asked along the way.
type narrowedKey struct{}

// narrow returns the chain that decides about a request, or about the create that it also
// needs, and the context for it. Where the request goes, the create goes, too.
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

// narrowing is the authorizer of what Narrow has added to a request. It comes before those
// who need no permission, and has no opinion on anything else.
type narrowing struct{}

// Decide returns the decision that Narrow has added to the request.
func (narrowing) Decide(ctx context.Context, _ authorizer.Attributes) authorization.Decision {
	if decision, ok := ctx.Value(narrowedKey{}).(authorization.Decision); ok {
		return decision
	}
	return authorization.NoOpinion("", nil)
}
