/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package simulation

import (
	"context"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// Conditions returns the conditions on which a request depends at authorization, as a review shows them. There are none for a request
// that is decided at authorization.
func (c *Compilers) Conditions(ctx context.Context, source *engine.Source, r *Request) ([]authorizationv1alpha1.SubjectAccessReviewConditionSet, error) {
	chain, err := ChainOf(source, r, nil)
	if err != nil {
		return nil, err
	}
	s, err := c.situationOf(ctx, chain, chain, &Request{Spec: r.Spec, Permissions: r.Permissions})
	if err != nil {
		return nil, err
	}
	status := authorization.Status(chain.Decide(s.ctx, s.attributes))
	served := &authorizationv1alpha1.SubjectAccessReviewStatus{}
	err = authorizationv1alpha1.Convert_authorization_SubjectAccessReviewStatus_To_v1alpha1_SubjectAccessReviewStatus(&status, served, nil)
	return served.ConditionsChain, err
}
