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

// fineGrained makes the two authorizers that look at fields (KEP-3617).
type fineGrained struct {
	// config is what they decide from, but for the authorizer that answers their checks.
	config granular.Config
}

// members makes the authorizers of one chain, whose checks are answered by checks.
func (f *fineGrained) members(checks authorizer.UnconditionalAuthorizer) (exclude, include authorization.Member, err error) {
	config := f.config
	config.Authorizer = checks
	exclude.Name, include.Name = authorizerExclude, authorizerInclude
	if exclude.Authorizer, err = granular.NewExclude(config); err != nil {
		return exclude, include, err
	}
	include.Authorizer, err = granular.NewInclude(config)
	return exclude, include, err
}

// lateChain forwards to a chain that is set after its members, some of which query it, have been
// constructed.
type lateChain struct{ chain *authorization.Chain }

var errNoChain = errors.New("there are no authorizers yet")

// Authorize answers without conditions.
func (c *lateChain) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	if c.chain == nil {
		return authorizer.DecisionDeny, "", errNoChain
	}
	return c.chain.Authorize(ctx, attributes)
}

// applyFineGrained prepares the authorizers that look at fields. It returns nil if the gate is
// off.
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
	f := &fineGrained{config: granular.Config{
		Types: schemas.Types, Table: config.ExtraConfig.Mappings.Table, Stale: config.ExtraConfig.Mappings.Stale,
	}}
	if door := config.ExtraConfig.FrontDoor; door != nil {
		// One attempt: whoever asks the front door does not wait for more.
		if door.Fields, err = o.Authorization.kubeAPIServer(o.Authorization.AllowCacheTTL, o.Authorization.DenyCacheTTL, 1); err != nil {
			return nil, err
		}
	}
	return f, nil
}
