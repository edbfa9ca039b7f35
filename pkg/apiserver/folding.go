/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/proviso-authz/proviso/pkg/frontdoor/capability"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor/probe"
	"github.com/proviso-authz/proviso/pkg/kubeapiservers"
	"github.com/proviso-authz/proviso/pkg/place"
	"github.com/proviso-authz/proviso/pkg/registration"
)

// probesPath is the path of the details of readiness about the inner door. It has no influence on readiness: without the inner door,
// the front door folds conditions.
const probesPath = "/readyz/inner-door"

// FoldingConfig configures which writes pass the front door on conditions that the inner door evaluates.
type FoldingConfig struct {
	// Resources are the resources of the manifest.
	Resources []innerdoor.Resource
	// LeavesOut reports whether the manifest leaves out a user.
	LeavesOut func(user.Info) bool
	// Digest is the digest of the manifest.
	Digest string
	// Namespace is the namespace of Proviso, which has the ConfigMap of the canaries.
	Namespace string
	// MissesWebhooks says that the manifest leaves out writes that other authorizers of kube-apiserver allow, and that there are webhooks,
	// which may deny them. Writes then do not pass on conditions.
	MissesWebhooks bool
	// Servers are the addresses of the kube-apiservers, https://host:port. If there are none, the endpoints of the Service
	// kubernetes are.
	Servers []string
	// Interval is the time between canaries. If zero, it is probe.DefaultInterval.
	Interval time.Duration
}

// folding is what the front door needs to let writes pass on conditions.
type folding struct {
	config FoldingConfig
	prober *probe.Prober
	// services are the APIServices.
	services *registration.Services
}

var errFolding = errors.New("writes cannot pass on conditions without a client of kube-apiserver")

// newFolding returns the folding of a front door. kubeAPIServer is the client configuration of kube-apiserver, as Proviso.
func newFolding(config FoldingConfig, kubeAPIServer *restclient.Config, services *registration.Services) (*folding, error) {
	if kubeAPIServer == nil || services == nil {
		return nil, errFolding
	}
	client, err := kubernetes.NewForConfig(restclient.CopyConfig(kubeAPIServer))
	if err != nil {
		return nil, fmt.Errorf("client of the inner door: %w", err)
	}
	list, clients := serversOf(kubeAPIServer, client, config.Servers)
	prober, err := probe.New(probe.Config{
		Namespace: config.Namespace, Digest: config.Digest, Interval: config.Interval, Servers: list, Alive: kubeapiservers.LeasesOf(client, clock.RealClock{}, kubeapiservers.AliveFor),
		Client: clients,
	})
	if err != nil {
		return nil, err
	}
	return &folding{config: config, prober: prober, services: services}, nil
}

// serversOf returns functions that list the kube-apiservers, which are given or else the endpoints of the Service kubernetes, and that
// return a client of each.
func serversOf(kubeAPIServer *restclient.Config, client kubernetes.Interface, given []string) (list func(context.Context) ([]string, error), clients func(string) (*http.Client, error)) {
	list, sharesName := kubeapiservers.EndpointsOf(client), true
	if len(given) > 0 {
		list, sharesName = func(context.Context) ([]string, error) { return slices.Clone(given), nil }, false
	}
	return list, func(server string) (*http.Client, error) { return clientOf(kubeAPIServer, server, sharesName) }
}

// clientOf returns a client of one kube-apiserver. Endpoints of a Service are addresses, and their certificates may be for the name of
// the Service only.
func clientOf(kubeAPIServer *restclient.Config, server string, sharesName bool) (*http.Client, error) {
	config := restclient.CopyConfig(kubeAPIServer)
	if sharesName && config.ServerName == "" {
		host, err := url.Parse(config.Host)
		if err != nil {
			return nil, fmt.Errorf("address of kube-apiserver: %w", err)
		}
		config.ServerName = host.Hostname()
	}
	config.Host = server
	return restclient.HTTPClientFor(config)
}

// innerDoor returns the inner door as a place. Kube-apiservers that handle conditions do without it.
func (f *folding) innerDoor(capability *capability.Prober) *place.InnerDoor {
	return &place.InnerDoor{
		Listed:         func(r innerdoor.Resource) bool { return slices.Contains(f.config.Resources, r) },
		LeavesOut:      f.config.LeavesOut,
		IsLocal:        f.services.IsLocal,
		MissesWebhooks: f.config.MissesWebhooks,
		Known: func(client *place.Client) bool {
			if client != nil {
				return f.prober.Known(client.Certificate)
			}
			lacking, isProbed := f.prober.Unknown()
			return isProbed && !slices.ContainsFunc(lacking, func(server string) bool { return capability == nil || !capability.Handles(server) })
		},
	}
}

// newFolding returns the folding of the front door, or nil if it has none.
func (c CompletedConfig) newFolding(services *registration.Services) (*folding, error) {
	if c.extra.FrontDoor == nil || c.extra.FrontDoor.Folding == nil {
		return nil, nil
	}
	return newFolding(*c.extra.FrontDoor.Folding, c.kubeAPIServer, services)
}

// install serves the states of the kube-apiservers, and probes them from the start of the server. It does nothing without a folding.
func (f *folding) install(generic *genericapiserver.GenericAPIServer) error {
	if f == nil {
		return nil
	}
	generic.Handler.NonGoRestfulMux.Handle(probesPath, f.prober)
	return generic.AddPostStartHook("proviso-inner-door", func(hook genericapiserver.PostStartHookContext) error {
		go f.prober.Run(hook)
		return nil
	})
}
