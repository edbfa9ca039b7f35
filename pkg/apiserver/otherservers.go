/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	restclient "k8s.io/client-go/rest"

	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/aggregated"
	"github.com/proviso-authz/proviso/pkg/cluster"
	"github.com/proviso-authz/proviso/pkg/controller"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
	"github.com/proviso-authz/proviso/pkg/innerdoor/probe"
	"github.com/proviso-authz/proviso/pkg/place"
	"github.com/proviso-authz/proviso/pkg/registration"
)

// otherServers is what the server knows about kube-apiservers and other servers.
type otherServers struct {
	// client is a client of APIServices. It and services are nil without a client of kube-apiserver.
	client   restclient.Interface
	services *registration.Services
	// own observes which server kube-apiserver calls for the resources of this server. It is nil without a client.
	own *registration.Watcher
	// enforcement has the EnforcementConfigurations.
	enforcement *aggregated.Enforcement
	// frontDoor is the configuration of the front door. It is nil if it is disabled.
	frontDoor *FrontDoorConfig
	// prober finds out which kube-apiservers call the inner door. It is nil without an inner door.
	prober *probe.Prober
	// cluster has the kube-apiservers. It is nil without a client.
	cluster *cluster.Cluster
	// conditions has the kube-apiservers that handle conditions. It is nil if none gets any.
	conditions *cluster.Conditions
}

func (c CompletedConfig) newOtherServers() (o *otherServers, err error) {
	o = &otherServers{frontDoor: c.extra.FrontDoor}
	if o.client, err = c.apiServices(); err != nil {
		return nil, err
	}
	if o.client == nil {
		o.enforcement = aggregated.NewEnforcement(nil, false)
	} else {
		o.services, o.own = registration.NewServices(o.client), c.newWatcher(o.client)
		o.enforcement = aggregated.NewEnforcement(o.services, c.extra.Enforcer.Conditional())
		if o.cluster, err = newCluster(c.kubeAPIServer, c.extra.KubeAPIServers); err != nil {
			return nil, err
		}
	}
	if config := c.innerDoorManifest(); config != nil {
		if o.prober, err = newProber(o.cluster, *config); err != nil {
			return nil, err
		}
	}
	if o.frontDoor != nil && o.frontDoor.LeavesConditions {
		if o.cluster == nil {
			return nil, errNoConditions
		}
		o.conditions = cluster.NewConditions(o.cluster)
	}
	return o, nil
}

var errNoCanaries = errors.New("the inner door needs a client of kube-apiserver")

// newProber returns a prober that finds out which kube-apiservers have the manifest.
func newProber(servers *cluster.Cluster, config manifest.Config) (*probe.Prober, error) {
	if servers == nil {
		return nil, errNoCanaries
	}
	digest, err := manifest.Digest(config)
	if err != nil {
		return nil, fmt.Errorf("manifest of the inner door: %w", err)
	}
	return probe.New(servers, config.Namespace, digest)
}

// innerDoor returns the inner door as a place. A review about every kube-apiserver also counts those that handle conditions: they need the inner door for
// resources with excluded fields.
func (o *otherServers) innerDoor() *place.InnerDoor {
	config := o.frontDoor
	return &place.InnerDoor{
		Listed:         func(r innerdoor.Resource) bool { return slices.Contains(config.InnerDoor.Resources, r) },
		LeavesOut:      config.InnerDoor.LeavesOut,
		IsLocal:        o.services.IsLocal,
		MissesWebhooks: config.MissesWebhooks,
		Canary: func(client *place.Client, a authorizer.Attributes) bool {
			return o.prober.IsCanary(client.Certificate, a)
		},
		Known: func(client *place.Client) bool {
			if client != nil {
				return o.prober.Known(client.Certificate)
			}
			lacking, _ := o.prober.Unknown()
			return o.prober.KnowsAll() && len(lacking) == 0
		},
	}
}

// runEnforcementConfigurations adds the controller that keeps the configurations up to date, and has the APIServices read while they are
// needed. It returns the controller.
func (c CompletedConfig) runEnforcementConfigurations(generic *genericapiserver.GenericAPIServer, client versioned.Interface, store controller.Store, o *otherServers) (*aggregated.Controller, error) {
	configurations, err := aggregated.NewController(aggregated.Config{
		Client: client, Enforcement: o.enforcement, FrontDoor: c.extra.FrontDoor != nil, StalenessBound: c.extra.PolicyStalenessBound, Store: store, End: c.extra.End,
	})
	if err != nil {
		return nil, err
	}
	if err := generic.AddReadyzChecks(configurations.Ready()); err != nil {
		return nil, fmt.Errorf("readiness of enforcement configurations: %w", err)
	}
	return configurations, generic.AddPostStartHook("proviso-enforcement-configurations", func(hook genericapiserver.PostStartHookContext) error {
		go configurations.Run(hook)
		if o.services != nil {
			// They are also read while it is not known whether there are configurations, so that a restart folds conditions for as short
			// as possible.
			go o.services.Run(hook, func() bool {
				return o.conditions != nil || o.prober != nil || c.extra.Barriers != nil || o.enforcement.Current() == nil || !o.enforcement.IsEmpty()
			})
		}
		return nil
	})
}
