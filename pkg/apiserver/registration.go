/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/discovery"
	restclient "k8s.io/client-go/rest"

	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/registration"
)

// apiServices returns a client of APIServices, or nil if the server has no client of kube-apiserver.
func (c CompletedConfig) apiServices() (restclient.Interface, error) {
	if c.kubeAPIServer == nil {
		return nil, nil
	}
	client, err := discovery.NewDiscoveryClientForConfig(restclient.CopyConfig(c.kubeAPIServer))
	if err != nil {
		return nil, fmt.Errorf("client of APIServices: %w", err)
	}
	return client.RESTClient(), nil
}

// newWatcher returns what observes which server kube-apiserver calls for the resources of this server.
func (c CompletedConfig) newWatcher(client restclient.Interface) *registration.Watcher {
	versions := slices.Clone(reviewVersions)
	if c.extra.EnableDemoAPI {
		versions = append(versions, demov1alpha1.SchemeGroupVersion)
	}
	return registration.New(client, policyv1alpha1.SchemeGroupVersion, versions...)
}

// enforcesBehind returns a function that reports whether this server enforces the conditions on a request that kube-apiserver has
// authorized: this server must cover the request, and kube-apiserver must pass the request on to it. If another server serves the
// version, no server evaluates conditions on it. Without a watcher, the function returns false for all reviews.
func (c CompletedConfig) enforcesBehind(watcher *registration.Watcher) func(authorizer.Attributes) bool {
	return behind(watcher, c.extra.Enforcer.Covers)
}

// servesBehind returns a function that reports whether kube-apiserver passes a request on to this server, whether or not it enforces
// conditions on the request.
func (c CompletedConfig) servesBehind(watcher *registration.Watcher) func(authorizer.Attributes) bool {
	return behind(watcher, func(a authorizer.Attributes) bool {
		return slices.Contains(c.extra.Enforcer.Versions(a), a.GetAPIVersion())
	})
}

// behind returns a function that reports whether kube-apiserver passes a request on to this server, and handles returns true for it. Without a
// watcher it returns false for all reviews.
func behind(watcher *registration.Watcher, handles func(authorizer.Attributes) bool) func(authorizer.Attributes) bool {
	return func(a authorizer.Attributes) bool {
		version := schema.GroupVersion{Group: a.GetAPIGroup(), Version: a.GetAPIVersion()}
		if watcher == nil && slices.Contains(reviewVersions, version) {
			return false
		}
		//guard:front-door-reviews-kube-apiserver
		return handles(a) && (watcher == nil || watcher.Serves(version))
	}
}
