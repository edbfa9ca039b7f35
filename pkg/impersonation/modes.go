/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// modes are the modes of impersonation, for requests and for reviews.
type modes struct {
	// constrained is nil if the constrained modes are off.
	constrained *pass
	// conditional is nil if conditional mode is off.
	conditional *Conditional
	legacy      *pass
}

// newModes returns modes whose constrained modes remember for some seconds what they have allowed, as upstream's filter
// does. The new modes remember nothing yet. It returns an error if conditional mode has no Denials.
func newModes(a authorizer.UnconditionalAuthorizer, constrained bool, conditional *Conditional, serializer runtime.NegotiatedSerializer, record recordFunc) (m modes, err error) {
	if conditional != nil && conditional.Denials == nil {
		return modes{}, errNoDenials
	}
	m.conditional = conditional
	if constrained {
		if m.constrained, err = newPass(a, isLegacy, serializer, record); err != nil {
			return modes{}, err
		}
	}
	m.legacy, err = newPass(a, isConstrained, serializer, record)
	return m, err
}

// result is the answer of one mode, or of all modes in order.
type result struct {
	// Answer has everything but Reason.
	Answer
	// refusal is the error that refuses the impersonation. If it is nil, and there is no user, the impersonation is
	// refused with response.
	refusal error
	// response is the response with which upstream's filter refuses the impersonation.
	response response
}

// run decides whether the requester may make a request as the wanted user. It tries the modes in order: the constrained modes,
// conditional mode, and legacy mode.
//
// If conditional mode allows some objects only, and legacy mode allows the impersonation, the result is the one of legacy
// mode, because it is for all objects. A denial by conditional mode is final. If conditional mode denies some objects only,
// they stay denied in legacy mode, by residual conditions.
//
// The checks of all modes share the budgets of one decision: a requester without any permission can cause a check for
// each group that it names.
//
// The request has the user and the request info that attributes describe in its context, and authorizers are called with ctx.
func (m modes) run(ctx context.Context, r *http.Request, attributes authorizer.AttributesRecord, wanted *user.DefaultInfo) result {
	if err := refuseReserved(attributes.User, wanted); err != nil {
		return result{refusal: err}
	}
	ctx = authorization.WithPolicyBudgets(ctx)
	var constrained result
	if m.constrained != nil {
		if constrained = m.constrained.run(ctx, r, wanted); constrained.User != nil {
			return constrained
		}
	}
	var conditional conditionalResult
	if m.conditional != nil {
		conditional = m.conditional.run(ctx, attributes, wanted)
	}
	conditional.Checks = append(constrained.Checks, conditional.Checks...)
	//guard:impersonation-denial-conditional-mode
	if conditional.final || conditional.User != nil && len(conditional.Residual) == 0 {
		return conditional.result
	}
	legacy := m.legacy.run(ctx, r, wanted)
	switch last := len(legacy.Checks) - 1; {
	case legacy.User != nil:
		//guard:impersonation-denials-some-objects-legacy-mode
		legacy.Residual = conditional.denials
	case conditional.User != nil:
		conditional.Checks = append(conditional.Checks, legacy.Checks...)
		return conditional.result
	case len(constrained.Checks) > 0:
		legacy.response = constrained.response // The first refusal counts, as in upstream's filter.
	case m.constrained == nil && last >= 0:
		refused := legacy.Checks[last]
		refused.Err = nil // Upstream's filter without the constrained modes does not report errors.
		legacy.refusal = refused.forbidden()
	}
	legacy.Checks = append(conditional.Checks, legacy.Checks...)
	return legacy
}
