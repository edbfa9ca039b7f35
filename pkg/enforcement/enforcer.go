/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"errors"
	"net/http"
	"sync/atomic"

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
	// Checks answers the checks that conditions of other authorizers make. It must agree with
	// Chain about the cluster. If nil, it is Chain.
	Checks authorizer.UnconditionalAuthorizer
	// Conditional lets requests pass on conditions; it is the feature gate
	// ConditionalAuthorization. Without it conditional decisions are folded, and nothing
	// else is different.
	Conditional bool
	// ConnectWithCreate demands create of whoever connects, too; it is the feature gate
	// AuthorizeConnectWithCreate.
	ConnectWithCreate bool
	// Conditions and Bound compile conditions in CEL that other authorizers wrote. If nil,
	// those are evaluated by their authors.
	Conditions *cel.Compiler
	Bound      *bound.Compiler
	// Namespace returns a namespace as it is decoded from JSON, for conditions that read
	// namespaceObject. If nil, they fail.
	Namespace func(name string) (map[string]any, error)
}

// Enforcer enforces conditional decisions in one server. It is safe for concurrent use once
// the server runs.
type Enforcer struct {
	config     Config
	classifier classifier
	// narrowed is the chain for requests that something narrows.
	narrowed *authorization.Chain
	// carries tells requests that are passed on to another server. Nil means none.
	carries func(authorizer.Attributes) bool
	// plugged is set once an admission plugin enforces what this Enforcer lets pass.
	plugged atomic.Bool
}

var errNoChain = errors.New("enforcement needs a chain of authorizers")

// New makes an Enforcer.
func New(config Config) (*Enforcer, error) {
	if config.Chain == nil {
		return nil, errNoChain
	}
	if config.Checks == nil {
		config.Checks = config.Chain
	}
	RegisterMetrics()
	narrowed, err := config.Chain.Behind(authorization.Member{Name: NarrowingName, Decider: narrowing{}})
	if err != nil {
		return nil, err
	}
	return &Enforcer{config: config, narrowed: narrowed}, nil
}

// ErrNotPlugged says that nothing would enforce conditions at admission.
var ErrNotPlugged = errors.New("conditional authorization is on, but the admission plugin AuthorizationConditionsEnforcer is not: enable the plugin or turn off the feature gate ConditionalAuthorization")

// Plug says that an admission plugin calls Enforce for every request of the server. The
// plugin's initializer calls it.
func (e *Enforcer) Plug() { e.plugged.Store(true) }

// Conditional reports whether requests may pass on conditions.
func (e *Enforcer) Conditional() bool { return e.config.Conditional }

// ApplyTo makes a server enforce. It is to be called when the configuration has its
// admission plugins, which must have been given the authorizer that folds, and its handler
// chain. It is an error if conditions would pass the filter with nothing behind it.
func (e *Enforcer) ApplyTo(config *genericapiserver.Config) error {
	if e.config.Conditional && !e.plugged.Load() {
		return ErrNotPlugged
	}
	// The handlers' checks get this one; the filters get theirs below.
	config.Authorization.Authorizer = &handlers{e.folding()}
	if config.AdmissionControl != nil {
		config.AdmissionControl = explaining{config.AdmissionControl}
	}
	build := config.BuildHandlerChainFunc
	if build == nil {
		build = genericapiserver.DefaultBuildHandlerChain
	}
	config.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		filtered := *c
		filtered.Authorization.Authorizer = &filter{e.folding()}
		return e.withSlot(build(withWitness(handler, c.Serializer), &filtered))
	}
	return nil
}

// Covers reports whether conditions on a request are enforced here.
func (e *Enforcer) Covers(attributes authorizer.Attributes) bool {
	return e.enforces() && e.classifier.covers(attributes)
}

// CoversSome reports whether conditions are enforced here on some of the requests that
// attributes stand for: their verb, group, version, resource and subresource may be *.
func (e *Enforcer) CoversSome(attributes authorizer.Attributes) bool {
	return e.enforces() && e.classifier.coversSome(attributes)
}

// Connects reports whether a request connects to what it is about, whatever its verb, instead
// of writing an object.
func (e *Enforcer) Connects(attributes authorizer.Attributes) bool {
	return e.classifier.connects(attributes)
}

// NeedsCreate reports whether a request needs the verb create beside its own: whether it
// connects, and not by that verb (KEP-5681, "Compound Authorization for Connectible
// Resources").
func (e *Enforcer) NeedsCreate(attributes authorizer.Attributes) bool {
	return e.config.ConnectWithCreate && attributes.GetVerb() != "create" && e.classifier.connects(attributes)
}

func (e *Enforcer) enforces() bool { return e.config.Conditional && e.plugged.Load() }

func (e *Enforcer) folding() folding { return folding{e.config.Chain} }

// folding is an authorizer whose answers are never conditional.
type folding struct {
	*authorization.Chain
}
