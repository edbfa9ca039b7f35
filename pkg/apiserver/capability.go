/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/proviso-authz/proviso/pkg/frontdoor/capability"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/kubeapiservers"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
)

// capabilityPath is the path of the details about which kube-apiservers handle conditions. It has no influence on readiness.
const capabilityPath = "/readyz/conditions"

var errCapability = errors.New("without a client of kube-apiserver, Proviso cannot find out whether it handles conditions")

// newCapability returns the prober of the kube-apiservers that handle conditions, or nil if none gets any.
func (c CompletedConfig) newCapability() (*capability.Prober, error) {
	if c.extra.FrontDoor == nil || c.extra.FrontDoor.Conditions == nil {
		return nil, nil
	}
	if c.kubeAPIServer == nil {
		return nil, errCapability
	}
	client, err := kubernetes.NewForConfig(restclient.CopyConfig(c.kubeAPIServer))
	if err != nil {
		return nil, fmt.Errorf("client of kube-apiserver: %w", err)
	}
	config := c.extra.FrontDoor.Conditions
	list, clients := serversOf(c.kubeAPIServer, client, config.Servers)
	return capability.New(capability.Config{
		Servers: list, Alive: kubeapiservers.LeasesOf(client, clock.RealClock{}, kubeapiservers.AliveFor), Client: clients,
	})
}

// installCapability serves what is known of the kube-apiservers, and probes them while the server runs.
func (o *others) installCapability(generic *genericapiserver.GenericAPIServer) error {
	if o.capability == nil {
		return nil
	}
	generic.Handler.NonGoRestfulMux.Handle(capabilityPath, o.capability)
	return generic.AddPostStartHook("proviso-conditions", func(hook genericapiserver.PostStartHookContext) error {
		go o.capability.Run(hook)
		return nil
	})
}

// kubeAPIServers returns whether all kube-apiservers enforce conditions themselves, and the resources for which the front door sends them no
// conditions. It returns nil if the front door sends none at all. The front door sends no conditions about a resource either if it does not
// know which server serves the resource; that is a problem, too.
func (p *places) kubeAPIServers() *enforcementstatus.KubeAPIServers {
	if p.capability == nil {
		return nil
	}
	facts := &enforcementstatus.KubeAPIServers{}
	facts.Problem, facts.Probed = p.capability.Problem()
	groups, areKnown := p.services.Groups()
	for group := range p.versions {
		if !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
	}
	if p.readVersions(groups); !areKnown && facts.Problem == "" {
		facts.Problem = "which versions they serve themselves is not known"
	}
	if p.excluded != nil {
		facts.Excluded = p.excluded()
	}
	return facts
}

// excludedResources returns the resources about which kube-apiserver gets no conditions. Until mappings are loaded, these are all.
func (c CompletedConfig) excludedResources() []schema.GroupResource {
	if c.extra.Mappings == nil {
		return nil
	}
	table := c.extra.Mappings.Table()
	if table == nil {
		return []schema.GroupResource{{Group: "*", Resource: "*"}}
	}
	return table.Excluded()
}

// writesLeft returns the verbs of the writes whose conditions the front door leaves to kube-apiserver, for a resource or a subresource. The
// group and the resource may be *.
func writesLeft(group, resource, subresource string) []string {
	r := innerdoor.Resource{Group: group, Resource: resource, Subresource: subresource}
	concrete := r
	if group == "*" {
		concrete.Group = ""
	}
	if resource == "*" {
		concrete.Resource = "any"
	}
	if !concrete.IsListable() {
		return nil
	}
	return r.Verbs()
}
