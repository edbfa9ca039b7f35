/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"fmt"

	genericapiserver "k8s.io/apiserver/pkg/server"
	restclient "k8s.io/client-go/rest"

	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/aggregated"
	"github.com/proviso-authz/proviso/pkg/cluster"
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
	// conditionalWrites is nil if the front door lets no writes pass on conditions.
	conditionalWrites *conditionalWrites
	// cluster has the kube-apiservers. It is nil without a client.
	cluster *cluster.Cluster
	// conditions has the kube-apiservers that handle conditions. It is nil if none gets any.
	conditions *cluster.Conditions
}

func (c CompletedConfig) newOtherServers() (o *otherServers, err error) {
	o = &otherServers{}
	if o.client, err = c.apiServices(); err != nil {
		return nil, err
	}
	if o.client == nil {
		o.enforcement = aggregated.NewEnforcement(nil)
	} else {
		o.services, o.own = registration.NewServices(o.client), c.newWatcher(o.client)
		o.enforcement = aggregated.NewEnforcement(o.services)
		if o.cluster, err = newCluster(c.kubeAPIServer, c.extra.KubeAPIServers); err != nil {
			return nil, err
		}
	}
	if frontDoor := c.extra.FrontDoor; frontDoor != nil && frontDoor.ConditionalWrites != nil {
		if o.conditionalWrites, err = newConditionalWrites(*frontDoor.ConditionalWrites, o.cluster, o.services); err != nil {
			return nil, err
		}
	}
	if c.extra.FrontDoor != nil && c.extra.FrontDoor.Conditions != nil {
		if o.cluster == nil {
			return nil, errNoConditions
		}
		o.conditions = cluster.NewConditions(o.cluster)
	}
	return o, nil
}

// runEnforcementConfigurations adds the controller that keeps the configurations up to date, and has the APIServices read while they are
// needed. It returns the controller.
func (c CompletedConfig) runEnforcementConfigurations(generic *genericapiserver.GenericAPIServer, client versioned.Interface, current revision, o *otherServers) (*aggregated.Controller, error) {
	configurations, err := aggregated.NewController(aggregated.Config{
		Client: client, Enforcement: o.enforcement, FrontDoor: c.extra.FrontDoor != nil, StalenessBound: c.extra.PolicyStalenessBound, Revision: current, End: c.extra.End,
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
				leaves := c.extra.FrontDoor != nil && c.extra.FrontDoor.Conditions != nil
				return leaves || o.conditionalWrites != nil || c.extra.Barriers != nil || o.enforcement.Current() == nil || !o.enforcement.IsEmpty()
			})
		}
		return nil
	})
}
