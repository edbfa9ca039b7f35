/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
)

var errNoInnerDoor = errors.New("the inner door needs a chain of authorizers")

// innerDoor returns the inner door.
func (c CompletedConfig) innerDoor(config *FrontDoorConfig) (frontdoor.Route, error) {
	if c.extra.Chains.InnerDoor == nil {
		return frontdoor.Route{}, errNoInnerDoor
	}
	digest, err := manifest.Digest(*config.InnerDoor)
	if err != nil {
		return frontdoor.Route{}, fmt.Errorf("manifest of the inner door: %w", err)
	}
	handler, err := innerdoor.NewHandler(innerdoor.HandlerConfig{
		Decider: &innerdoor.Decider{
			Chain: c.extra.Chains.InnerDoor, Evaluator: c.evaluatorAtInnerDoor, OwnerReferences: config.InnerDoor.OwnerReferences,
			Namespaces: config.Namespaces,
		},
		Namespace: config.Namespace, Digest: digest, Trail: c.fieldTrail(),
	})
	if err != nil {
		return frontdoor.Route{}, err
	}
	return frontdoor.Route{Pattern: manifest.AdmitPath + "{" + innerdoor.DigestWildcard + "}", Handler: handler}, nil
}

// fieldTrail returns what records which fields of a write were checked, or nil if no fields are checked.
func (c CompletedConfig) fieldTrail() func(context.Context) (context.Context, func() []string) {
	if c.extra.Mappings == nil {
		return nil
	}
	return func(ctx context.Context) (context.Context, func() []string) {
		ctx, trail := granular.WithTrail(ctx)
		return ctx, trail.Annotations
	}
}

// evaluatorAtInnerDoor returns an evaluator for conditions in CEL that other authorizers wrote. It belongs to one write.
func (c CompletedConfig) evaluatorAtInnerDoor(data authorizer.ConditionsData) authorization.ConditionEvaluator {
	return &celeval.DataEvaluator{
		Compiler: c.extra.Compilers.Conditions, Bound: c.extra.Compilers.Bound, Checks: c.extra.Chains.Checks, Data: data,
	}
}
