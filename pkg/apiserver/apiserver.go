/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package apiserver composes proviso-apiserver. Only this package depends on all other parts.
// Complete makes every choice; New only assembles the server.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericfeatures "k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	eventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	restclient "k8s.io/client-go/rest"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	demoapi "github.com/proviso-authz/proviso/apis/demo"
	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	policyapi "github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/bound"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/controller"
	"github.com/proviso-authz/proviso/pkg/enforcement"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/pkg/granular/mappingcontroller"
	"github.com/proviso-authz/proviso/pkg/impersonation"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
	"github.com/proviso-authz/proviso/pkg/place"
	"github.com/proviso-authz/proviso/pkg/policy"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
	"github.com/proviso-authz/proviso/pkg/policy/typechecking"
	"github.com/proviso-authz/proviso/pkg/registry/authorization/accessreview"
	"github.com/proviso-authz/proviso/pkg/registry/authorization/authorizationconditionsreview"
	"github.com/proviso-authz/proviso/pkg/registry/authorization/impersonationreview"
	"github.com/proviso-authz/proviso/pkg/registry/demo/virtualmachine"
	"github.com/proviso-authz/proviso/pkg/registry/policy/authorizationpolicy"
	"github.com/proviso-authz/proviso/pkg/registry/policy/enforcementconfiguration"
	"github.com/proviso-authz/proviso/pkg/registry/policy/fieldpermissionmapping"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
	"github.com/proviso-authz/proviso/pkg/registry/virtual"
)

// ExtraConfig is the part of the configuration that a generic server does not have.
type ExtraConfig struct {
	// Chains are the authorizer chains. Chains.Requests must also be the authorizer of the generic
	// configuration and the chain of the enforcer.
	Chains Chains
	// ClientsAreKnown reports whether the server can verify client certificates. Until then it answers 503 to clients that may have one. Nil means always.
	ClientsAreKnown func() bool
	// Policies is the source of policies for the chains. The server fills it.
	Policies *engine.Source
	// PolicyStalenessBound is how long the store of policies may be unreachable before Allow
	// policies grant nothing.
	PolicyStalenessBound time.Duration
	// LoadPolicies is closed when policies may be loaded. Until then all requests that policies can deny are denied, and the server is
	// not ready. Nil means at once.
	LoadPolicies <-chan struct{}
	// End ends the process with an error. The server calls it if its store has gone back to an earlier revision, as after
	// a restore from a backup. If nil, the server only becomes unready then.
	End func(cause error)
	// EnableDemoAPI enables the API group demo.proviso.dev.
	EnableDemoAPI bool
	// KubeAPIServers are the addresses of the kube-apiservers, https://host:port. If there are none, the endpoints of the Service kubernetes are.
	KubeAPIServers []string
	// FrontDoor configures the front door on a listener of its own. Nil disables it.
	FrontDoor *FrontDoorConfig
	// Barriers configures the barriers of Deny policies, which the server writes to kube-apiserver. Nil disables them.
	Barriers *BarriersConfig
	// Mappings say which permissions fields need, and the server keeps them up to date. Nil
	// means that it stores none.
	Mappings *mapping.Source
	// ConditionalImpersonation is the feature gate: the mode conditional is available to requests that
	// impersonate, and to ImpersonationReviews.
	ConditionalImpersonation bool
	// UpstreamDecisions is the feature gate UpstreamConditionalDecisions: reviews also have the form that is proposed for Kubernetes.
	UpstreamDecisions bool
	// Enforcer enforces conditions on requests.
	Enforcer *enforcement.Enforcer
	// Compilers compile CEL conditions of other authorizers.
	Compilers Compilers
}

// Compilers compile conditions of the types that every Proviso supports.
type Compilers struct {
	// Conditions compiles the text of a condition in CEL.
	Conditions *cel.Compiler
	// Bound compiles a condition together with what was known of its request.
	Bound *bound.Compiler
}

// NewCompilers returns compilers with the environment of Proviso.
func NewCompilers() (c Compilers, err error) {
	if c.Conditions, err = cel.NewCompiler(); err != nil {
		return Compilers{}, err
	}
	if c.Bound, err = bound.NewCompiler(); err != nil {
		return Compilers{}, err
	}
	return c, nil
}

// Config configures the server.
type Config struct {
	GenericConfig *genericapiserver.RecommendedConfig
	ExtraConfig   ExtraConfig
}

type completedConfig struct {
	generic genericapiserver.CompletedConfig
	extra   ExtraConfig
	// kubeAPIServer is the client configuration for kube-apiserver, or nil.
	kubeAPIServer *restclient.Config
	compilers     authorizationconditionsreview.Compilers
	policies      *partial.Compiler
	authors       *authorizationpolicy.Authors
	impersonation *impersonation.Reviewer
	// impersonate is the impersonation filter of requests. It is nil if the server uses the filter of
	// the generic chain.
	impersonate func(http.Handler) http.Handler
}

// CompletedConfig is a Config that Complete has checked and completed. Other packages cannot
// create one.
type CompletedConfig struct {
	*completedConfig
}

// restricted returns a name for a policy that restricts some of the requests that a check stands
// for, and false if there is none. Before policies are loaded, it returns a text that says so, and
// true. If there are webhooks, it returns them for every check with a wildcard: a review cannot tell whether
// they deny a part of it.
func (c *ExtraConfig) restricted(ctx context.Context, check authorizer.Attributes) (string, bool) {
	key, found := c.Policies.Restriction(ctx, check)
	switch {
	case !found && c.Chains.HasWebhooks && hasWildcard(check):
		return "a webhook of --authorization-config possibly", true
	case !found:
		return "", false
	case key.Name == "":
		return "policies that are not loaded yet", true
	}
	return key.String(), true
}

// hasWildcard reports whether a rule of a policy with *, beside an omitted list, has led to a check.
func hasWildcard(check authorizer.Attributes) bool {
	if !check.IsResourceRequest() {
		return check.GetVerb() == "*" || strings.HasSuffix(check.GetPath(), "*")
	}
	return slices.Contains([]string{check.GetVerb(), check.GetAPIGroup(), check.GetResource(), check.GetSubresource()}, "*")
}

var (
	errNoAuthorizer = errors.New("the configuration has no authorizer, and the server would allow every request")
	errNoEnforcer   = errors.New("the configuration has no enforcer or no compilers of conditions, and the server could not enforce conditions")
	errNoPolicies   = errors.New("the configuration has no source of policies, and the server would store policies without applying them")
)

// Complete checks the configuration and fills in the rest. It returns an error if a required part
// is missing.
func (c *Config) Complete() (CompletedConfig, error) {
	if chains := c.ExtraConfig.Chains; chains.Reviews == nil || chains.Requests == nil || chains.Restrictions == nil || c.GenericConfig.Authorization.Authorizer == nil {
		return CompletedConfig{}, errNoAuthorizer
	}
	if c.ExtraConfig.Policies == nil {
		return CompletedConfig{}, errNoPolicies
	}
	if c.ExtraConfig.Enforcer == nil || c.ExtraConfig.Compilers.Conditions == nil || c.ExtraConfig.Compilers.Bound == nil {
		return CompletedConfig{}, errNoEnforcer
	}
	authors, err := authorizationpolicy.NewAuthors(c.ExtraConfig.Chains.Reviews, c.ExtraConfig.restricted)
	if err != nil {
		return CompletedConfig{}, err
	}
	if c.ExtraConfig.End == nil {
		c.ExtraConfig.End = func(error) {}
	}
	completed := &completedConfig{extra: c.ExtraConfig, authors: authors, kubeAPIServer: c.GenericConfig.ClientConfig}
	if err := completed.makeCompilers(); err != nil {
		return CompletedConfig{}, err
	}
	constrained := c.GenericConfig.FeatureGate.Enabled(genericfeatures.ConstrainedImpersonation)
	if err := completed.makeImpersonation(constrained); err != nil {
		return CompletedConfig{}, err
	}
	completed.believeFrontProxies(&c.GenericConfig.Config)
	if err := c.ExtraConfig.Enforcer.ApplyToHandlers(&c.GenericConfig.Config); err != nil {
		return CompletedConfig{}, err
	}
	c.GenericConfig.BuildHandlerChainFunc = completed.buildHandlerChain
	c.GenericConfig.EquivalentResourceRegistry = equivalentResources()
	completed.generic = c.GenericConfig.Complete()
	return CompletedConfig{completed}, nil
}

func (c *completedConfig) makeCompilers() (err error) {
	c.compilers.Conditions, c.compilers.Bound = c.extra.Compilers.Conditions, c.extra.Compilers.Bound
	if c.compilers.Partial, err = partial.NewConditionCompiler(c.compilers.Conditions); err != nil {
		return err
	}
	c.policies, err = partial.NewPolicyCompiler(c.compilers.Conditions)
	return err
}

func (c *completedConfig) makeImpersonation(constrained bool) (err error) {
	var conditional *impersonation.Conditional
	if c.extra.ConditionalImpersonation {
		if c.impersonate, err = c.impersonationFilter(constrained); err != nil {
			return err
		}
		conditional = c.conditionalImpersonation(c.extra.Chains.Reviews)
	}
	c.impersonation, err = impersonation.NewReviewer(c.extra.Chains.Reviews, constrained, conditional)
	return err
}

// conditionalImpersonation returns the configuration of the mode conditional that decides by chain. Requests and reviews
// have different chains.
func (c *completedConfig) conditionalImpersonation(chain *authorization.Chain) *impersonation.Conditional {
	return &impersonation.Conditional{
		Chain: chain, Denials: c.extra.Chains.Restrictions, Compiler: c.compilers.Conditions, Partial: c.compilers.Partial, NeedsCreate: c.needsCreate,
	}
}

// needsCreate reports whether a request needs the verb create in addition to its own. It calls the enforcer
// for each request: the enforcer learns which resources have connections when the API groups are installed.
func (c *completedConfig) needsCreate(a authorizer.Attributes) bool {
	return c.extra.Enforcer != nil && c.extra.Enforcer.NeedsCreate(a)
}

// impersonationFilter returns the impersonation filter of requests.
func (c *completedConfig) impersonationFilter(constrained bool) (func(http.Handler) http.Handler, error) {
	return impersonation.NewFilter(impersonation.FilterConfig{
		Authorizer: c.extra.Chains.Requests, Constrained: constrained, Conditional: *c.conditionalImpersonation(c.extra.Chains.Requests),
		EnforceResidual: enforcement.EnforceResidual, Serializer: Codecs,
	})
}

// believeFrontProxies wraps the authenticator so that residual impersonation conditions are
// accepted from the front proxy, which may be another Proviso, and from no other client.
func (c *completedConfig) believeFrontProxies(generic *genericapiserver.Config) {
	if generic.Authentication.Authenticator == nil {
		return
	}
	a := &impersonation.Authenticator{
		Delegate: generic.Authentication.Authenticator, Compiler: c.compilers.Conditions, EnforceResidual: enforcement.EnforceResidual,
	}
	if proxy := generic.Authentication.RequestHeaderConfig; proxy != nil {
		a.FrontProxy = headerrequest.NewDynamicVerifyOptionsSecure(proxy.CAContentProvider.VerifyOptions,
			proxy.AllowedClientNames, proxy.UsernameHeaders, proxy.UIDHeaders, proxy.GroupHeaders, proxy.ExtraHeaderPrefixes)
	}
	generic.Authentication.Authenticator = a
}

// Server is proviso-apiserver.
type Server struct {
	GenericAPIServer *genericapiserver.GenericAPIServer
	// FrontDoor is nil if the front door is disabled.
	FrontDoor *frontdoor.Server
}

// New assembles the server.
func (c CompletedConfig) New() (*Server, error) {
	generic, err := c.generic.New("proviso-apiserver", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("generic API server: %w", err)
	}
	if serving := generic.SecureServingInfo; serving != nil && serving.Cert != nil {
		registerMetrics()
		listener := certificateListener{serving.Cert}
		serving.Cert.AddListener(listener)
		listener.Enqueue()
	}
	others, err := c.newOtherServers()
	if err != nil {
		return nil, err
	}
	barriers, err := c.newBarriers(others)
	if err != nil {
		return nil, err
	}
	table, err := c.placeTable(others, barriers)
	if err != nil {
		return nil, err
	}
	decider, err := c.newDecider(table)
	if err != nil {
		return nil, err
	}
	places := newStatusPlaces(table, others, c.excludedResources)
	types, err := c.typeChecker(generic.LoopbackClientConfig)
	if err != nil {
		return nil, err
	}
	policies, stores, err := c.policyGroup(types, places, barriers)
	if err != nil {
		return nil, err
	}
	groups := append(c.reviewGroups(c.evaluated(table, decider, others), c.leavesOut(places, others, barriers)), policies)
	if c.extra.EnableDemoAPI {
		demo, err := c.demoGroup()
		if err != nil {
			return nil, err
		}
		groups = append(groups, demo)
	}
	for i := range groups {
		groups[i].NegotiatedSerializer = withoutProtobuf{groups[i].NegotiatedSerializer}
	}
	c.extra.Enforcer.Cover(groups...)
	if err := generic.InstallAPIGroups(groups...); err != nil {
		return nil, fmt.Errorf("installing API groups: %w", err)
	}
	if err := c.runPolicies(generic, stores, types, places, others, barriers); err != nil {
		return nil, err
	}
	if err := others.run(generic); err != nil {
		return nil, err
	}
	frontDoor, err := c.newFrontDoor(decider)
	if err != nil {
		return nil, err
	}
	return &Server{GenericAPIServer: generic, FrontDoor: frontDoor}, nil
}

// eventQPS and eventBurst have room for an event about each of some thousand policies that stop working at the same time. eventTimeout bounds one request.
const (
	eventQPS, eventBurst = 100, 200
	eventTimeout         = 10 * time.Second
)

// runPolicies adds the controllers that keep policies and mappings up to date while the server runs, and their readiness
// checks. The controller of policies waits for LoadPolicies.
func (c CompletedConfig) runPolicies(generic *genericapiserver.GenericAPIServer, stores map[string]controller.Store, types *typechecking.Checker, places *statusPlaces, others *otherServers, barriers *barriers) error {
	policy.RegisterMetrics()
	client, err := versioned.NewForConfig(generic.LoopbackClientConfig)
	if err != nil {
		return fmt.Errorf("client of policies: %w", err)
	}
	mappings, recheckMappings, err := c.runMappings(generic, client, stores[mappingsResource], barriers)
	if err != nil {
		return err
	}
	configurations, err := c.runEnforcementConfigurations(generic, client, stores[configurationsResource], others)
	if err != nil {
		return err
	}
	events, startEvents, err := c.newEvents(policy.EventsController)
	if err != nil {
		return err
	}
	policies, err := policy.NewController(policy.Config{
		Client: client, Events: events, Compiler: c.policies, Source: c.extra.Policies, Types: types, StalenessBound: c.extra.PolicyStalenessBound,
		Server: c.enforcementServer(places, barriers), End: c.extra.End,
		Store: func(resource string) controller.Store { return stores[resource] },
	})
	if err != nil {
		return err
	}
	if err := generic.AddReadyzChecks(policies.Ready()); err != nil {
		return fmt.Errorf("readiness of policies: %w", err)
	}
	recheck := func() {
		policies.Recheck()
		recheckMappings()
	}
	if err := barriers.run(c, generic, client, policies, mappings, recheck); err != nil {
		return fmt.Errorf("barriers: %w", err)
	}
	return generic.AddPostStartHook("proviso-policies", func(hook genericapiserver.PostStartHookContext) error {
		go func() {
			if !c.waitForPolicies(hook) {
				return
			}
			startEvents(hook)
			go places.run(hook, func() {
				recheck()
				configurations.Recheck()
			})
			policies.Run(hook)
		}()
		return nil
	})
}

// newEvents returns the recorder of events of a controller, and what has it send them to kube-apiserver. Without a client of kube-apiserver there are none.
func (c CompletedConfig) newEvents(reportingController string) (recorder controller.Recorder, start func(context.Context), err error) {
	if c.kubeAPIServer == nil {
		return nil, func(context.Context) {}, nil
	}
	config := restclient.CopyConfig(c.kubeAPIServer)
	config.QPS, config.Burst, config.Timeout = eventQPS, eventBurst, eventTimeout
	client, err := eventsv1.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("client of events: %w", err)
	}
	events := controller.NewEvents(client, reportingController)
	return events, events.Start, nil
}

// enforcementServer describes to the status of policies where requests are decided.
func (c CompletedConfig) enforcementServer(places *statusPlaces, barriers *barriers) enforcementstatus.Server {
	server := enforcementstatus.Server{Coverage: c.extra.Enforcer.Coverage, FrontDoor: c.extra.FrontDoor != nil, Places: places.current.Load, Writes: writesLeft}
	if places.own != nil {
		server.Elsewhere = places.own.Elsewhere
	}
	if server.FrontDoor {
		server.LeavesOut = manifest.Config{}.LeavesOut // which the front door's example leaves out
	}
	if barriers != nil {
		server.Barrier, server.BarriersAreKnown, server.LeavesOut = barriers.describe, barriers.areKnown, barriers.compiler.LeavesOut
	}
	if places.prober != nil {
		server.LeavesOut = places.frontDoor.InnerDoor.LeavesOut
	}
	return server
}

// typeChecker returns a checker that uses the schemas and the resources of this server and of kube-apiserver. Without a client
// of kube-apiserver, it uses the schemas of this server only, and does not check names in rules.
func (c CompletedConfig) typeChecker(configs ...*restclient.Config) (*typechecking.Checker, error) {
	if c.kubeAPIServer != nil {
		configs = append(configs, c.kubeAPIServer)
	}
	published, err := newDiscovery(configs...)
	if err != nil {
		return nil, err
	}
	types, err := typechecking.New(published, published)
	if err != nil || c.kubeAPIServer == nil {
		return types, err // the resources of other servers are not known
	}
	return types.WithResources(published.Published), nil
}

// reviewGroups returns the two groups of reviews, which have the same storages.
func (c CompletedConfig) reviewGroups(isEvaluated evaluated, leavesOut func(authorizer.AttributesRecord) bool) []*genericapiserver.APIGroupInfo {
	storages := c.reviewStorages(isEvaluated, leavesOut)
	groups := make([]*genericapiserver.APIGroupInfo, 0, len(reviewVersions))
	for _, version := range reviewVersions {
		group := genericapiserver.NewDefaultAPIGroupInfo(version.Group, Scheme, ParameterCodec, Codecs)
		group.VersionedResourcesStorageMap[version.Version] = storages
		groups = append(groups, &group)
	}
	return groups
}

// leavesOut returns whether kube-apiserver decides a request without Proviso.
func (c CompletedConfig) leavesOut(places *statusPlaces, o *otherServers, barriers *barriers) func(authorizer.AttributesRecord) bool {
	of := leftOut{byDoors: c.enforcementServer(places, barriers).LeavesOut, serves: c.servesBehind(o.own), enforces: o.enforcement.Enforces}
	if barriers != nil {
		of.byBarriers = barriers.compiler.LeavesOut
	}
	return of.has
}

// leftOut are the requests that kube-apiserver decides without Proviso: of users about whom it calls no door, and whom no barrier refuses, for what is served
// neither by this server nor by another one that enforces conditions.
type leftOut struct {
	// byDoors reports whether kube-apiserver calls no door about a user. If it is nil, kube-apiserver calls one about each user.
	byDoors func(user.Info) bool
	// byBarriers reports whether barriers refuse no requests of a user. If it is nil, there are no barriers.
	byBarriers func(user.Info) bool
	// serves reports whether this server serves a resource, and enforces whether another server enforces conditions on it.
	serves, enforces func(authorizer.Attributes) bool
}

func (l leftOut) has(a authorizer.AttributesRecord) bool {
	switch {
	case l.byDoors == nil || a.User == nil || authorization.HasWildcards(a):
		return false
	case slices.Contains(a.User.GetGroups(), user.SystemPrivilegedGroup):
		return false // both servers allow everything
	//guard:left-out-other-servers
	case a.ResourceRequest && (l.serves(a) || l.enforces(a)):
		return false
	}
	return l.byDoors(a.User) && (l.byBarriers == nil || l.byBarriers(a.User))
}

// evaluated is the type of virtual.Reviewer.Evaluated.
type evaluated func(ctx context.Context, record authorizer.AttributesRecord, decision authorization.Decision) (isEvaluated bool, problem string)

// evaluated returns whether a component evaluates the conditions in the answer to a review. Without a client of kube-apiserver, reviews are about
// requests on this server's own port.
func (c CompletedConfig) evaluated(places *place.Table, decider *frontdoor.Decider, o *otherServers) evaluated {
	return func(ctx context.Context, record authorizer.AttributesRecord, decision authorization.Decision) (bool, string) {
		r := &place.Request{Attributes: record}
		switch {
		case o.own == nil && c.extra.Enforcer.Covers(r.Attributes):
			return true, ""
		case decider == nil:
			return places.Evaluated(ctx, r, decision, nil)
		}
		return decider.Evaluated(ctx, r, decision, c.extra.FrontDoor.ForReviews)
	}
}

// names returns the names about which policies can decide otherwise than a decision on a request without a name says. They decide nothing about privileged groups.
func (c CompletedConfig) names(ctx context.Context, attributes authorizer.Attributes, decision authorization.Decision) authorization.Names {
	snapshot := c.extra.Policies.StateOf(ctx).Value
	switch {
	case slices.ContainsFunc(attributes.GetUser().GetGroups(), func(group string) bool { return slices.Contains(c.extra.Chains.AlwaysAllowGroups, group) }):
		return authorization.Names{}
	case snapshot == nil:
		return authorization.Names{IsOpen: true}
	}
	return snapshot.Names(attributes, decision)
}

func (c CompletedConfig) reviewStorages(isEvaluated evaluated, leavesOut func(authorizer.AttributesRecord) bool) map[string]rest.Storage {
	upstream := c.extra.UpstreamDecisions
	reviewer := &virtual.Reviewer{Chain: c.extra.Chains.Reviews, Conditional: c.extra.Enforcer.Conditional(), Upstream: upstream, Enforced: c.extra.Enforcer.Covers, Evaluated: isEvaluated, LeavesOut: leavesOut, Names: c.names, Versions: c.extra.Enforcer.Versions}
	impersonations := impersonationreview.NewREST(reviewer, c.impersonation)
	return map[string]rest.Storage{
		"subjectaccessreviews":                         accessreview.NewSubjectREST(reviewer),
		"selfsubjectaccessreviews":                     accessreview.NewSelfREST(reviewer),
		"localsubjectaccessreviews":                    accessreview.NewLocalREST(reviewer),
		"authorizationconditionsreviews":               authorizationconditionsreview.NewREST(c.compilers, c.extra.Chains.Reviews, Scheme, upstream),
		"authorizationconditionsreviews/impersonation": impersonationreview.NewSubresource(impersonations),
		"impersonationreviews":                         impersonations,
	}
}

// equivalentResources returns a registry in which the two groups of reviews are equivalent, for admission plugins that look for
// equivalent resources. Admission webhooks and policies see no review of either group.
func equivalentResources() runtime.EquivalentResourceRegistry {
	return runtime.NewEquivalentResourceRegistryWithIdentity(func(resource schema.GroupResource) string {
		if _, ok := authorizationapi.OtherGroup(resource.Group); ok {
			resource.Group = authorizationapi.GroupName
		}
		return resource.String()
	})
}

// The resources of policy.proviso.dev.
const (
	clusterPoliciesResource = "clusterauthorizationpolicies"
	policiesResource        = "authorizationpolicies"
	mappingsResource        = "fieldpermissionmappings"
	configurationsResource  = "enforcementconfigurations"
)

// policyGroup returns the API group of policies, and of mappings if the server stores them, and the store of each resource.
func (c CompletedConfig) policyGroup(types *typechecking.Checker, places *statusPlaces, barriers *barriers) (*genericapiserver.APIGroupInfo, map[string]controller.Store, error) {
	checker := barriers.checker(policy.NewChecker(c.policies, c.enforcementServer(places, barriers), types))
	cluster, err := authorizationpolicy.NewClusterStorage(Scheme, c.generic.RESTOptionsGetter, checker, c.authors)
	if err != nil {
		return nil, nil, err
	}
	namespaced, err := authorizationpolicy.NewStorage(Scheme, c.generic.RESTOptionsGetter, checker, c.authors)
	if err != nil {
		return nil, nil, err
	}
	configurations, err := enforcementconfiguration.NewStorage(Scheme, c.generic.RESTOptionsGetter, c.extra.Chains.Reviews)
	if err != nil {
		return nil, nil, err
	}
	all := map[string]*stored.Storage{clusterPoliciesResource: cluster, policiesResource: namespaced, configurationsResource: configurations}
	if c.extra.Mappings != nil {
		all[mappingsResource], err = fieldpermissionmapping.NewStorage(Scheme, c.generic.RESTOptionsGetter, barriers.mappingChecker(c.checkMapping), barriers.mappingWarner(c.innerDoorManifest()), c.extra.Chains.Reviews)
		if err != nil {
			return nil, nil, err
		}
	}
	storages, stores := map[string]rest.Storage{}, map[string]controller.Store{}
	for resource, s := range all {
		storages[resource], storages[resource+"/status"] = s.Objects, s.Status
		stores[resource] = stored.NewLocal(s.Objects, Scheme, policyv1alpha1.SchemeGroupVersion)
	}
	group := genericapiserver.NewDefaultAPIGroupInfo(policyapi.GroupName, Scheme, ParameterCodec, Codecs)
	group.VersionedResourcesStorageMap[policyv1alpha1.SchemeGroupVersion.Version] = storages
	return &group, stores, nil
}

// runMappings adds the controller that keeps the mappings up to date while the server runs. It does nothing if the server
// stores no mappings. recheck compares the statuses of all mappings.
func (c CompletedConfig) runMappings(generic *genericapiserver.GenericAPIServer, client versioned.Interface, store controller.Store, barriers *barriers) (stored controller.Stored, recheck func(), err error) {
	if c.extra.Mappings == nil {
		return nil, func() {}, nil
	}
	mappingcontroller.RegisterMetrics()
	mappings, err := mappingcontroller.New(mappingcontroller.Config{
		Client: client, Source: c.extra.Mappings, StalenessBound: c.extra.PolicyStalenessBound, Store: store, End: c.extra.End,
		Effective: barriers.mappingEffect(),
	})
	if err != nil {
		return nil, nil, err
	}
	if err := generic.AddReadyzChecks(mappings.Ready()); err != nil {
		return nil, nil, fmt.Errorf("readiness of mappings: %w", err)
	}
	return mappings, mappings.Recheck, generic.AddPostStartHook("proviso-field-permission-mappings", func(hook genericapiserver.PostStartHookContext) error {
		go mappings.Run(hook)
		return nil
	})
}

func (c CompletedConfig) demoGroup() (*genericapiserver.APIGroupInfo, error) {
	machines, err := virtualmachine.NewStorage(Scheme, c.generic.RESTOptionsGetter)
	if err != nil {
		return nil, err
	}
	group := genericapiserver.NewDefaultAPIGroupInfo(demoapi.GroupName, Scheme, ParameterCodec, Codecs)
	group.VersionedResourcesStorageMap[demov1alpha1.SchemeGroupVersion.Version] = map[string]rest.Storage{
		"virtualmachines":         machines.Objects,
		"virtualmachines/status":  machines.Status,
		"virtualmachines/console": machines.Console,
	}
	return &group, nil
}
