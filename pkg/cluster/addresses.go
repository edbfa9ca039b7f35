/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// leasePrefix begins the names of the Leases of kube-apiservers, in leaseNamespace.
	leasePrefix    = "apiserver-"
	leaseNamespace = metav1.NamespaceSystem
	// AliveFor is how long a kube-apiserver counts as running after it renewed its Lease. It renews it every ten seconds.
	AliveFor = time.Minute
)

// EndpointsOf returns a function for Config.Servers that lists the endpoints of the Service kubernetes.
func EndpointsOf(client kubernetes.Interface) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		slices, err := client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=kubernetes"})
		if err != nil {
			return nil, fmt.Errorf("endpoints of the Service kubernetes: %w", err)
		}
		var servers []string
		for i := range slices.Items {
			servers = append(servers, serversOf(&slices.Items[i])...)
		}
		return servers, nil
	}
}

// serversOf returns the addresses of an EndpointSlice. Endpoints that are not ready count: their servers may still ask.
func serversOf(slice *discoveryv1.EndpointSlice) []string {
	var servers []string
	for _, port := range slice.Ports {
		if port.Port == nil || port.Name != nil && *port.Name != "" && *port.Name != "https" {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			for _, address := range endpoint.Addresses {
				servers = append(servers, "https://"+net.JoinHostPort(address, strconv.Itoa(int(*port.Port))))
			}
		}
	}
	return servers
}

var errAddress = errors.New("must be https://host:port")

// Address returns the address of a server in one way to write it, so that one server does not count as two: in lower case, with
// the port, and without a dot or a slash at its end. It returns an error for other texts.
func Address(text string) (string, error) {
	address, err := url.Parse(text)
	if err != nil || address.Scheme != "https" || address.User != nil || strings.Trim(address.Path, "/") != "" || address.RawQuery != "" || address.ForceQuery || address.Fragment != "" {
		return "", errAddress
	}
	//guard:kube-apiservers-ways-write-one-address
	host, port := strings.TrimSuffix(strings.ToLower(address.Hostname()), "."), address.Port()
	if host == "" || strings.HasSuffix(address.Host, ":") {
		return "", errAddress
	}
	if port == "" {
		port = "443"
	}
	return "https://" + net.JoinHostPort(host, port), nil
}

// LeasesOf returns a function for Config.Renewed that reads the Leases of kube-apiservers.
func LeasesOf(client kubernetes.Interface) func(context.Context) ([]time.Time, error) {
	return func(ctx context.Context) ([]time.Time, error) {
		leases, err := client.CoordinationV1().Leases(leaseNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("leases of kube-apiservers: %w", err)
		}
		var renewed []time.Time
		for i := range leases.Items {
			if lease := &leases.Items[i]; strings.HasPrefix(lease.Name, leasePrefix) && lease.Spec.RenewTime != nil {
				renewed = append(renewed, lease.Spec.RenewTime.Time)
			}
		}
		return renewed, nil
	}
}
