/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	openapiutil "k8s.io/kube-openapi/pkg/util"

	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
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
	types, err := servedTypes(config.GenericConfig.OpenAPIV3Config)
	if err != nil {
		return nil, fmt.Errorf("schemas of fields: %w", err)
	}
	config.ExtraConfig.Mappings = &granular.Source{}
	f := &fineGrained{checks: &chainOf{}}
	asks := granular.Config{Authorizer: f.checks, Types: types, Table: config.ExtraConfig.Mappings.Table, Stale: config.ExtraConfig.Mappings.Stale}
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

// servedTypes are the schemas of the kinds that this server stores. Objects of others, in
// reviews, are compared without.
func servedTypes(config *common.OpenAPIV3Config) (granular.Types, error) {
	var names []string
	for _, kind := range []runtime.Object{
		&demov1alpha1.VirtualMachine{}, &policyv1alpha1.ClusterAuthorizationPolicy{}, &policyv1alpha1.AuthorizationPolicy{}, &policyv1alpha1.FieldPermissionMapping{},
	} {
		names = append(names, openapiutil.GetCanonicalTypeName(kind))
	}
	schemas, err := builder3.BuildOpenAPIDefinitionsForResources(config, names...)
	if err != nil {
		return nil, err
	}
	return granular.NewTypes(schemas)
}
