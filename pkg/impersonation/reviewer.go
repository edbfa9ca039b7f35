/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	api "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
)

// Reviewer reviews impersonations: it decides what the impersonation filter of a server would answer. It is safe
// for concurrent use if its authorizer is.
type Reviewer struct {
	authorizer  authorizer.UnconditionalAuthorizer
	constrained bool
	conditional *Conditional
}

// NewReviewer returns a Reviewer. The authorizer decides who may impersonate. It
// must not return conditional decisions: KEP-5284 has no place for them. Reviews must try
// the same modes as requests: constrained turns on the constrained modes, and conditional, if it is not nil, conditional mode.
func NewReviewer(a authorizer.UnconditionalAuthorizer, constrained bool, conditional *Conditional) (*Reviewer, error) {
	r := &Reviewer{authorizer: a, constrained: constrained, conditional: conditional}
	_, err := r.newModes()
	return r, err
}

// newModes returns modes for one review. They record no metrics, and share no memory with requests or other reviews.
func (r *Reviewer) newModes() (modes, error) {
	return newModes(r.authorizer, r.constrained, r.conditional, codecs, nil)
}

// Answer is the answer to an impersonation. The zero value refuses it.
type Answer struct {
	// User is the user that the server sees, nil if the impersonation is refused.
	User user.Info
	// Mode is the mode that allows the impersonation.
	Mode api.ImpersonationMode
	// Constraint is the verb that allows it, as audit records it: empty in legacy mode.
	Constraint string
	// Reason is the message of the refusal.
	Reason string
	// Residual has the conditions on the object that the impersonation still depends on. They can only
	// deny, and precede everything else that decides the request.
	Residual []authorization.Set
	// Checks are the checks that were made, in order. After a check by which conditional mode cannot allow the
	// impersonation any more, only those of its checks are included that deny, all objects or some.
	Checks []Check
}

// Review decides whether the user in attributes may make the request that they describe
// as the wanted user. If it returns an error, the review failed, and the answer
// refuses.
func (r *Reviewer) Review(ctx context.Context, attributes authorizer.AttributesRecord, wanted *user.DefaultInfo) (Answer, error) {
	if attributes.User == nil {
		return Answer{}, fmt.Errorf("%w: no requester", errNoAnswer)
	}
	modes, err := r.newModes()
	if err != nil {
		return Answer{}, err
	}
	request, err := newRequest(ctx, attributes)
	if err != nil {
		return Answer{}, err
	}
	result := modes.run(ctx, request, attributes, wanted)
	switch {
	case result.refusal != nil:
		result.Reason = result.refusal.Error()
	case result.User == nil:
		result.Reason, err = result.response.reason()
	}
	return result.Answer, err
}
