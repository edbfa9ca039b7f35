/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package apiserver composes proviso-apiserver: it is the only place that knows all
// parts. Everything is decided when a Config is completed; New only assembles.
package apiserver

import (
	"errors"
	"fmt"

	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	demoapi "github.com/proviso-authz/proviso/apis/demo"
	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	policyapi "github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/registry/authorization/authorizationconditionsreview"
	"github.com/proviso-authz/proviso/pkg/registry/authorization/localsubjectaccessreview"
	"github.com/proviso-authz/proviso/pkg/registry/authorization/selfsubjectaccessreview"
	"github.com/proviso-authz/proviso/pkg/registry/authorization/subjectaccessreview"
	"github.com/proviso-authz/proviso/pkg/registry/demo/virtualmachine"
	"github.com/proviso-authz/proviso/pkg/registry/policy/authorizationpolicy"
)

// ExtraConfig is what proviso-apiserver needs beyond a generic server.
type ExtraConfig struct {
	// Reviews decides what reviews ask about. The generic configuration's authorizer,
	// which decides requests, must agree with it but for paths of this server that are
	// always allowed, such as /healthz: those say nothing about the cluster. It also decides
	// who may write policies.
	Reviews *authorization.Chain
	// PolicyChecker compiles policies before they are stored.
	PolicyChecker authorizationpolicy.Checker
	// EnableDemoAPI serves demo.proviso.dev.
	EnableDemoAPI bool
}

// Config configures the server.
type Config struct {
	GenericConfig *genericapiserver.RecommendedConfig
	ExtraConfig   ExtraConfig
}

type completedConfig struct {
	generic  genericapiserver.CompletedConfig
	extra    ExtraConfig
	compiler *cel.Compiler
	partial  *cel.PartialCompiler
	authors  *authorizationpolicy.Authors
}

// CompletedConfig is a Config with everything decided. It can only come from Complete.
type CompletedConfig struct {
	*completedConfig
}

var (
	errNoAuthorizer    = errors.New("a server without an authorizer would allow everything")
	errNoPolicyChecker = errors.New("a server without a policy checker would store policies that nobody can evaluate")
)

// Complete decides what is left open.
func (c *Config) Complete() (CompletedConfig, error) {
	if c.ExtraConfig.Reviews == nil || c.GenericConfig.Authorization.Authorizer == nil {
		return CompletedConfig{}, errNoAuthorizer
	}
	if c.ExtraConfig.PolicyChecker == nil {
		return CompletedConfig{}, errNoPolicyChecker
	}
	authors, err := authorizationpolicy.NewAuthors(c.ExtraConfig.Reviews)
	if err != nil {
		return CompletedConfig{}, err
	}
	compiler, err := cel.NewCompiler()
	if err != nil {
		return CompletedConfig{}, err
	}
	partial, err := cel.NewConditionCompiler(compiler)
	if err != nil {
		return CompletedConfig{}, err
	}
	c.GenericConfig.BuildHandlerChainFunc = BuildHandlerChain
	return CompletedConfig{&completedConfig{
		generic:  c.GenericConfig.Complete(),
		extra:    c.ExtraConfig,
		compiler: compiler,
		partial:  partial,
		authors:  authors,
	}}, nil
}

// Server is proviso-apiserver.
type Server struct {
	GenericAPIServer *genericapiserver.GenericAPIServer
}

// New assembles the server.
func (c CompletedConfig) New() (*Server, error) {
	generic, err := c.generic.New("proviso-apiserver", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("generic API server: %w", err)
	}
	policies, err := c.policyGroup()
	if err != nil {
		return nil, err
	}
	groups := []*genericapiserver.APIGroupInfo{c.authorizationGroup(), policies}
	if c.extra.EnableDemoAPI {
		demo, err := c.demoGroup()
		if err != nil {
			return nil, err
		}
		groups = append(groups, demo)
	}
	if err := generic.InstallAPIGroups(groups...); err != nil {
		return nil, fmt.Errorf("installing API groups: %w", err)
	}
	return &Server{GenericAPIServer: generic}, nil
}

func (c CompletedConfig) authorizationGroup() *genericapiserver.APIGroupInfo {
	group := genericapiserver.NewDefaultAPIGroupInfo(authorizationapi.GroupName, Scheme, ParameterCodec, Codecs)
	group.VersionedResourcesStorageMap[authorizationv1alpha1.SchemeGroupVersion.Version] = map[string]rest.Storage{
		"subjectaccessreviews":           subjectaccessreview.NewREST(c.extra.Reviews),
		"selfsubjectaccessreviews":       selfsubjectaccessreview.NewREST(c.extra.Reviews),
		"localsubjectaccessreviews":      localsubjectaccessreview.NewREST(c.extra.Reviews),
		"authorizationconditionsreviews": authorizationconditionsreview.NewREST(c.compiler, c.partial, c.extra.Reviews),
	}
	return &group
}

func (c CompletedConfig) policyGroup() (*genericapiserver.APIGroupInfo, error) {
	cluster, err := authorizationpolicy.NewClusterStorage(Scheme, c.generic.RESTOptionsGetter, c.extra.PolicyChecker, c.authors)
	if err != nil {
		return nil, err
	}
	namespaced, err := authorizationpolicy.NewStorage(Scheme, c.generic.RESTOptionsGetter, c.extra.PolicyChecker, c.authors)
	if err != nil {
		return nil, err
	}
	group := genericapiserver.NewDefaultAPIGroupInfo(policyapi.GroupName, Scheme, ParameterCodec, Codecs)
	group.VersionedResourcesStorageMap[policyv1alpha1.SchemeGroupVersion.Version] = map[string]rest.Storage{
		"clusterauthorizationpolicies":        cluster.Policy,
		"clusterauthorizationpolicies/status": cluster.Status,
		"authorizationpolicies":               namespaced.Policy,
		"authorizationpolicies/status":        namespaced.Status,
	}
	return &group, nil
}

func (c CompletedConfig) demoGroup() (*genericapiserver.APIGroupInfo, error) {
	machines, err := virtualmachine.NewStorage(Scheme, c.generic.RESTOptionsGetter)
	if err != nil {
		return nil, err
	}
	group := genericapiserver.NewDefaultAPIGroupInfo(demoapi.GroupName, Scheme, ParameterCodec, Codecs)
	group.VersionedResourcesStorageMap[demov1alpha1.SchemeGroupVersion.Version] = map[string]rest.Storage{
		"virtualmachines":         machines.VirtualMachine,
		"virtualmachines/status":  machines.Status,
		"virtualmachines/console": machines.Console,
	}
	return &group, nil
}

// ResourceConfig says which versions are served: all that are known.
func ResourceConfig() *serverstorage.ResourceConfig {
	config := serverstorage.NewResourceConfig()
	config.EnableVersions(authorizationv1alpha1.SchemeGroupVersion, policyv1alpha1.SchemeGroupVersion, demov1alpha1.SchemeGroupVersion)
	return config
}
