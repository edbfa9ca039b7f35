/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"

	"github.com/proviso-authz/proviso/pkg/cluster"
)

// newCluster returns what finds the kube-apiservers: those that are given, or else the endpoints of the Service kubernetes.
func newCluster(kubeAPIServer *restclient.Config, given []string) (*cluster.Cluster, error) {
	client, err := kubernetes.NewForConfig(restclient.CopyConfig(kubeAPIServer))
	if err != nil {
		return nil, fmt.Errorf("client of kube-apiserver: %w", err)
	}
	servers, sharesName := cluster.EndpointsOf(client), true
	if len(given) > 0 {
		servers, sharesName = func(context.Context) ([]string, error) { return slices.Clone(given), nil }, false
	}
	return cluster.New(cluster.Config{
		Servers: servers, Renewed: cluster.LeasesOf(client), Client: func(server string) (*http.Client, error) { return clientOf(kubeAPIServer, server, sharesName) },
	})
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

// run has everything found out about the cluster while the server runs, and serves the details. They have no influence on readiness: without the inner
// door, the front door folds conditions, and each group of Proviso works without the others.
func (o *otherServers) run(generic *genericapiserver.GenericAPIServer) error {
	observe := func(name, path string, of interface {
		http.Handler
		Run(context.Context)
	}) error {
		generic.Handler.NonGoRestfulMux.Handle(path, of)
		return generic.AddPostStartHook(name, func(hook genericapiserver.PostStartHookContext) error {
			go of.Run(hook)
			return nil
		})
	}
	if o.own != nil {
		if err := observe("proviso-registration", "/readyz/review-groups", o.own); err != nil {
			return err
		}
	}
	if o.prober != nil {
		if err := observe("proviso-inner-door", "/readyz/inner-door", o.prober); err != nil {
			return err
		}
	}
	if o.conditions != nil {
		return observe("proviso-conditions", "/readyz/conditions", o.conditions)
	}
	return nil
}
