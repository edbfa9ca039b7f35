/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"errors"
	"net/http"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/bound"
)

// Config configures an Enforcer.
type Config struct {
	// Chain decides requests.
	Chain *authorization.Chain
	// Checks answers the secondary checks of conditions that other authorizers wrote. Its answers
	// about the cluster must agree with Chain. If nil, Chain is used.
	Checks authorizer.UnconditionalAuthorizer
	// Conditional enables enforcement of conditional decisions; it is the feature gate
	// ConditionalAuthorization. If false, conditional decisions are folded and nothing else
	// changes.
	Conditional bool
	// ConnectWithCreate requires the verb create for every connection as well; it is the feature
	// gate AuthorizeConnectWithCreate.
	ConnectWithCreate bool
	// Conditions and Bound compile CEL conditions that other authorizers wrote. If Conditions is
	// nil, this server evaluates no CEL conditions itself: each authorizer evaluates its own conditions.
	Conditions *cel.Compiler
	Bound      *bound.Compiler
	// Namespace returns a namespace in its JSON form, for conditions that read namespaceObject. If
	// nil, those conditions fail.
	Namespace func(name string) (map[string]any, error)
}

// Enforcer enforces conditional decisions in one server. It is safe for concurrent use once
// the server runs.
type Enforcer struct {
	config     Config
	classifier classifier
	// restricted is the chain for requests that EnforceResidual has restricted.
	restricted *authorization.Chain
	// forwards reports whether a request is passed on to another server. Nil means that none is.
	forwards func(authorizer.Attributes) bool
	// enforced is true once an admission plugin enforces conditions for this Enforcer.
	enforced atomic.Bool
}

var errNoChain = errors.New("enforcement needs a chain of authorizers")

// New returns an Enforcer. It returns an error if config has no chain.
func New(config Config) (*Enforcer, error) {
	if config.Chain == nil {
		return nil, errNoChain
	}
	if config.Checks == nil {
		config.Checks = config.Chain
	}
	RegisterMetrics()
	restricted, err := config.Chain.WithFirst(authorization.Member{Name: ResidualName, Decider: residualAuthorizer{}})
	if err != nil {
		return nil, err
	}
	return &Enforcer{config: config, restricted: restricted}, nil
}

// ErrNotEnforced is returned by ApplyTo if no admission plugin would enforce conditions.
var ErrNotEnforced = errors.New("conditional authorization is on, but the admission plugin AuthorizationConditionsEnforcer is not: enable the plugin or turn off the feature gate ConditionalAuthorization")

// MarkEnforced records that an admission plugin calls Enforce for every request of the server. The
// plugin's initializer calls it.
func (e *Enforcer) MarkEnforced() { e.enforced.Store(true) }

// Conditional reports whether requests may pass authorization on conditions.
func (e *Enforcer) Conditional() bool { return e.config.Conditional }

// ApplyTo installs enforcement into config. Call it after admission plugins (initialized with an
// authorizer that folds conditions) and BuildHandlerChainFunc have been set. It returns
// ErrNotEnforced if requests would pass the filter on conditions that no plugin enforces.
func (e *Enforcer) ApplyTo(config *genericapiserver.Config) error {
	if err := e.ApplyToHandlers(config); err != nil {
		return err
	}
	build := config.BuildHandlerChainFunc
	if build == nil {
		build = genericapiserver.DefaultBuildHandlerChain
	}
	config.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		filters := *c
		filters.Authorization.Authorizer = e.FilterAuthorizer()
		return e.WithSlot(build(WithWitness(handler, c.Serializer), &filters))
	}
	return nil
}

// ApplyToHandlers does what ApplyTo does, except for the handler chain. A server that calls it builds
// its chain with WithSlot, FilterAuthorizer and WithWitness.
func (e *Enforcer) ApplyToHandlers(config *genericapiserver.Config) error {
	if e.config.Conditional && !e.enforced.Load() {
		return ErrNotEnforced
	}
	// The authorization checks of handlers use this authorizer; the authorization filter uses FilterAuthorizer.
	config.Authorization.Authorizer = &handlers{e.folding()}
	if config.AdmissionControl != nil {
		config.AdmissionControl = explaining{config.AdmissionControl}
	}
	return nil
}

// FilterAuthorizer returns the authorizer of the authorization filter. It lets requests pass on
// conditions, which it records in the slot of the request.
func (e *Enforcer) FilterAuthorizer() authorizer.Authorizer { return &filter{e.folding()} }

// Covers reports whether this server enforces conditions on a request: its storage is covered for the verb, and conditional
// decisions are enabled and enforced by the admission plugin. It returns false for attributes with wildcards.
func (e *Enforcer) Covers(attributes authorizer.Attributes) bool {
	return e.enforces() && e.classifier.covers(attributes)
}

// Coverage returns two sets of verbs for the resources that attributes name. Their group, resource and subresource may be *;
// their verb and version are ignored. enforced has the verbs for which this server enforces conditions on one of these
// resources at least. folded has the verbs that this server serves without enforcement for one of them at least. Both are
// about the given versions, or about all versions if none is given.
func (e *Enforcer) Coverage(attributes authorizer.Attributes, versions []string) (enforced, folded sets.Set[string]) {
	covered, others := e.classifier.some(attributes, versions)
	if !e.enforces() {
		return nil, covered.Union(others)
	}
	return covered, others
}

// Versions returns the versions in which this server serves the resource, or the subresource if they name one, of attributes,
// in alphabetical order. It ignores the version of the attributes, and returns nil for a non-resource request.
func (e *Enforcer) Versions(attributes authorizer.Attributes) []string {
	return e.classifier.versions(attributes)
}

// Connects reports whether a request, whatever its verb, is a connection. This server then serves only connections at
// the resource and subresource.
func (e *Enforcer) Connects(attributes authorizer.Attributes) bool {
	return e.classifier.connects(attributes)
}

// NeedsCreate reports whether a request needs the verb create in addition to its own: the gate
// AuthorizeConnectWithCreate is on, and the request is a connection with another verb than create
// (KEP-5681, "Compound Authorization for Connectible Resources").
func (e *Enforcer) NeedsCreate(attributes authorizer.Attributes) bool {
	return e.config.ConnectWithCreate && attributes.GetVerb() != "create" && e.classifier.connects(attributes)
}

func (e *Enforcer) enforces() bool { return e.config.Conditional && e.enforced.Load() }

func (e *Enforcer) folding() folding { return folding{e.config.Chain} }

// folding is an authorizer that folds conditional decisions.
type folding struct {
	*authorization.Chain
}
