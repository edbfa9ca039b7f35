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
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/discovery"
	restclient "k8s.io/client-go/rest"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/registration"
)

// registrationPath is the path of the details of readiness about the groups of reviews. It has no influence on readiness: each group
// works without the other.
const registrationPath = "/readyz/review-groups"

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

// runRegistration starts to observe which server kube-apiserver calls for reviews. It returns nil without a client.
func (c CompletedConfig) runRegistration(client restclient.Interface, generic *genericapiserver.GenericAPIServer) (*registration.Watcher, error) {
	if client == nil {
		return nil, nil
	}
	watcher := registration.New(client, policyv1alpha1.SchemeGroupVersion, reviewVersions...)
	generic.Handler.NonGoRestfulMux.Handle(registrationPath, watcher)
	return watcher, generic.AddPostStartHook("proviso-registration", func(hook genericapiserver.PostStartHookContext) error {
		go watcher.Run(hook)
		return nil
	})
}

// enforcesBehind returns a function that reports whether this server enforces the conditions on a request that kube-apiserver has
// authorized: this server must cover the request, and kube-apiserver must pass the request on to it. If kube-apiserver serves the
// reviews of a group itself, no server evaluates conditions on them. Without a watcher, the function returns false for all reviews.
func (c CompletedConfig) enforcesBehind(watcher *registration.Watcher) func(authorizer.Attributes) bool {
	return func(a authorizer.Attributes) bool {
		version := schema.GroupVersion{Group: a.GetAPIGroup(), Version: a.GetAPIVersion()}
		if watcher == nil && slices.Contains(reviewVersions, version) {
			return false
		}
		return c.extra.Enforcer.Covers(a) && (watcher == nil || watcher.Serves(version))
	}
}

// servesBehind returns a function that reports whether kube-apiserver passes a request on to this server, whether or not it enforces
// conditions on the request.
func (c CompletedConfig) servesBehind(watcher *registration.Watcher) func(authorizer.Attributes) bool {
	return func(a authorizer.Attributes) bool {
		version := schema.GroupVersion{Group: a.GetAPIGroup(), Version: a.GetAPIVersion()}
		if watcher == nil && slices.Contains(reviewVersions, version) {
			return false
		}
		return slices.Contains(c.extra.Enforcer.Versions(a), version.Version) && (watcher == nil || watcher.Serves(version))
	}
}
