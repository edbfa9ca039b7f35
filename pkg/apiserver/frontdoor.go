/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/tracing"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
	"github.com/proviso-authz/proviso/pkg/place"
)

// FrontDoorConfig configures the listener of the front door.
type FrontDoorConfig struct {
	// KubeAPIServer answers, with the delegation marker, whether a user may read what an answer to a write shows.
	KubeAPIServer authorizer.UnconditionalAuthorizer
	// ForReviews is KubeAPIServer with bounds of its own, for the warnings of reviews.
	ForReviews authorizer.UnconditionalAuthorizer
	// Serving has a listener, a serving certificate and the CA for client certificates.
	Serving *genericapiserver.SecureServingInfo
	// AllowedNames are the accepted common names of clients. If empty, any name is accepted.
	AllowedNames []string
	// Namespaces reads namespaces from a cache. If nil, conditions that read namespaceObject are folded.
	Namespaces authorization.Namespaces
	// Fields asks kube-apiserver, with the delegation marker, whether a user has the verb
	// granular. If nil, permission on fields does not pass the front door.
	Fields authorizer.UnconditionalAuthorizer
	// InnerDoor is the configuration of the manifest with which kube-apiserver calls the inner door, on the same listener. The writes that it
	// lists pass on conditions. Nil disables the inner door.
	InnerDoor *manifest.Config
	// MissesWebhooks says that the manifest leaves out writes that other authorizers of kube-apiserver allow, and that there are webhooks,
	// which may deny them. Writes then do not pass on conditions.
	MissesWebhooks bool
	// LeavesConditions says that kube-apiservers that handle conditional decisions get the conditions.
	LeavesConditions bool
	// TracerProvider traces the calls of both doors. If nil, they are not traced.
	TracerProvider tracing.TracerProvider
	// Namespace reads a namespace for conditions at admission that read namespaceObject. If nil, those conditions fail.
	Namespace func(name string) (map[string]any, error)
}

var errNoConditions = errors.New("conditions cannot be left to kube-apiserver without a client of it and a chain of authorizers")

// placeTable returns the places in which conditions are evaluated.
func (c CompletedConfig) placeTable(o *otherServers, barriers *barriers) (*place.Table, error) {
	places := []place.Place{
		&place.Server{Enforces: c.enforcesBehind(o.own), Create: c.needsCreateInSomeVersion},
		&place.AggregatedServer{Enforces: o.enforcement.Enforces, Configuration: o.enforcement.Configuration},
	}
	if config := c.extra.FrontDoor; config != nil {
		places = append(places, &place.Unenforced{Serves: c.servesBehind(o.own)})
		if config.LeavesConditions {
			if o.services == nil || c.extra.Chains.InnerDoor == nil {
				return nil, errNoConditions
			}
			places = append(places, &place.KubeAPIServer{IsLocal: o.services.IsLocal, Excludes: c.excludesFields, AllHandle: func() bool {
				problem, isProbed := o.conditions.Problem()
				return isProbed && problem == ""
			}})
		}
		if config.InnerDoor != nil {
			places = append(places, o.innerDoor())
		}
	}
	return place.NewTable(barriers.atAdmission(), places...)
}

// newDecider returns what decides at the front door, or nil if it is disabled. It allows a request on conditions
// only if the enforcer covers the request, and if kube-apiserver is known to pass it on to this server.
func (c CompletedConfig) newDecider(places *place.Table) (*frontdoor.Decider, error) {
	config := c.extra.FrontDoor
	if config == nil {
		return nil, nil
	}
	return frontdoor.New(frontdoor.Config{
		Policies:      frontdoor.Policies{Chain: c.extra.Chains.FrontDoor, Source: c.extra.Policies, Namespaces: config.Namespaces},
		AfterPolicies: c.extra.Chains.AfterPolicies, Places: places, KubeAPIServer: config.KubeAPIServer,
		Fields: c.fieldsOf(config), ReviewsShowConditions: c.extra.Enforcer.Conditional(),
	})
}

var errNoClientCA = errors.New("the front door needs a CA for client certificates")

// newFrontDoor returns the front door of a decider, or nil if it is disabled.
func (c CompletedConfig) newFrontDoor(decider *frontdoor.Decider) (*frontdoor.Server, error) {
	config := c.extra.FrontDoor
	if config == nil {
		return nil, nil
	}
	if config.Serving == nil || config.Serving.ClientCA == nil {
		return nil, errNoClientCA
	}
	clients, err := frontdoor.NewClients(config.Serving.ClientCA.VerifyOptions, config.AllowedNames)
	if err != nil {
		return nil, err
	}
	clients.TracerProvider = config.TracerProvider
	var routes []frontdoor.Route
	if config.LeavesConditions {
		handler, err := innerdoor.NewConditionsHandler(innerdoor.HandlerConfig{
			Decider: &innerdoor.Decider{Chain: c.extra.Chains.InnerDoor, Evaluator: c.evaluatorAtInnerDoor}, Namespace: config.Namespace,
		})
		if err != nil {
			return nil, err
		}
		routes = append(routes, frontdoor.Route{Pattern: innerdoor.ConditionsPath, Handler: handler})
	}
	if config.InnerDoor != nil {
		route, err := c.innerDoor(config)
		if err != nil {
			return nil, err
		}
		routes = append(routes, route)
	}
	return frontdoor.NewServer(config.Serving, frontdoor.NewHandler(decider, clients, routes...))
}

// excludesFields reports whether fields of a resource are excluded from the permission to write it, or may be: until mappings are loaded it is
// not known.
func (c CompletedConfig) excludesFields(resource schema.GroupVersionResource) bool {
	if c.extra.Mappings == nil {
		return false
	}
	table := c.extra.Mappings.Table()
	return table == nil || table.Excludes(resource)
}

// needsCreateInSomeVersion is needsCreate. For attributes with the version *, it reports whether needsCreate is true in one of the
// served versions.
func (c CompletedConfig) needsCreateInSomeVersion(a authorizer.Attributes) bool {
	if a.GetAPIVersion() != "*" {
		return c.needsCreate(a)
	}
	inVersion := authorization.VariantOf(a)
	for _, version := range c.extra.Enforcer.Versions(a) {
		if inVersion.APIVersion = version; c.needsCreate(inVersion) {
			return true
		}
	}
	return false
}

// fieldsOf returns the check for permission on fields, or nil if the server does not check fields.
// A connection changes no fields, so that the check does not apply to it.
func (c CompletedConfig) fieldsOf(config *FrontDoorConfig) *frontdoor.Fields {
	if c.extra.Mappings == nil || config.Fields == nil {
		return nil
	}
	return &frontdoor.Fields{KubeAPIServer: config.Fields, Check: func(attributes authorizer.Attributes) (authorizer.Attributes, bool) {
		if c.extra.Enforcer.Connects(attributes) {
			return nil, false
		}
		return granular.GranularCheck(attributes)
	}}
}

// Run serves until ctx ends, and then shuts down gracefully. The front door starts before the
// generic server and stops after it: it needs only policies, and kube-apiserver may call it until
// the generic server has stopped.
func (s *Server) Run(ctx context.Context) error {
	prepared := s.GenericAPIServer.PrepareRun()
	if s.FrontDoor == nil {
		return prepared.RunWithContext(ctx)
	}
	frontDoorCtx, stopFrontDoor := context.WithCancel(context.WithoutCancel(ctx))
	wait, err := s.FrontDoor.Start(frontDoorCtx)
	if err != nil {
		stopFrontDoor()
		return err
	}
	defer wait()
	defer stopFrontDoor()
	return prepared.RunWithContext(ctx)
}
