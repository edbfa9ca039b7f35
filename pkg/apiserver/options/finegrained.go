/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/features"
	"github.com/proviso-authz/proviso/pkg/granular"
)

// fineGrained are the two authorizers that look at fields (KEP-3617).
type fineGrained struct {
	exclude, include authorization.Member
	checks           *chainOf
}

// chainOf asks a chain that is made later, of whose members some ask it.
type chainOf struct{ chain *authorization.Chain }

var errNoChain = errors.New("there are no authorizers yet")

// Authorize answers without conditions.
func (c *chainOf) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	if c.chain == nil {
		return authorizer.DecisionDeny, "", errNoChain
	}
	return c.chain.Authorize(ctx, attributes)
}

// applyFineGrained makes the authorizers that look at fields, if the gate is on. It returns
// nil if it is not.
func (o CompletedOptions) applyFineGrained(config *apiserver.Config) (*fineGrained, error) {
	gates := config.GenericConfig.FeatureGate
	if !gates.Enabled(features.FineGrainedAuthorization) || !gates.Enabled(features.ConditionalAuthorization) {
		return nil, nil
	}
	kubeAPIServer, err := loadClientConfig(o.CoreAPI.CoreAPIKubeconfigPath)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	schemas, err := apiserver.NewFields(config.GenericConfig.OpenAPIV3Config, kubeAPIServer)
	if err != nil {
		return nil, err
	}
	for _, warning := range schemas.Markers.Warnings() {
		klog.Background().Info("A marker in a schema should be another one", "warning", warning)
	}
	config.ExtraConfig.Mappings = granular.NewSource(schemas.Markers)
	f := &fineGrained{checks: &chainOf{}}
	asks := granular.Config{Authorizer: f.checks, Types: schemas.Types, Table: config.ExtraConfig.Mappings.Table, Stale: config.ExtraConfig.Mappings.Stale}
	f.exclude.Name, f.include.Name = authorizerExclude, authorizerInclude
	if f.exclude.Authorizer, err = granular.NewExclude(asks); err != nil {
		return nil, err
	}
	if f.include.Authorizer, err = granular.NewInclude(asks); err != nil {
		return nil, err
	}
	if door := config.ExtraConfig.FrontDoor; door != nil {
		// One attempt: whoever asks the front door does not wait for more.
		if door.Fields, err = o.Authorization.kubeAPIServer(o.Authorization.AllowCacheTTL, o.Authorization.DenyCacheTTL, 1); err != nil {
			return nil, err
		}
	}
	return f, nil
}
