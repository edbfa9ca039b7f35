/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package aggregated watches EnforcementConfigurations, reports for which requests another aggregated server enforces conditions, and
// writes the status of the configurations.
//
// Invariants:
//
//   - A request counts as enforced only in a version whose APIService is known to name the Service of a configuration, and to be
//     available. While the APIServices or the store cannot be read, no request counts.
//   - Only writes count, and for a subresource only update and patch, because a POST may open a connection.
//   - A configuration that is being deleted does not count.
//
// It must not import packages that decide.
package aggregated

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/freshness"
	"github.com/proviso-authz/proviso/pkg/registration"
)

// Services reports which server serves a version. *registration.Services implements it.
type Services interface {
	// Serving compares the server of a version with a Service.
	Serving(version schema.GroupVersion, by *registration.Service) registration.Serving
	// IsKnown reports whether the APIServices have ever been read.
	IsKnown() bool
}

// The verbs that pass on conditions.
var (
	resourceVerbs    = []string{"create", "update", "patch", "delete", "deletecollection"}
	subresourceVerbs = []string{"update", "patch"}
)

// configuration is an EnforcementConfiguration that is stored. It is immutable.
type configuration = policyv1alpha1.EnforcementConfiguration

// Enforcement reports for which requests other servers enforce conditions. Its methods may be called concurrently.
type Enforcement struct {
	freshness.Source[[]*configuration]
	services    Services
	conditional bool
}

// NewEnforcement returns an Enforcement without configurations. Without services, no server is known. conditional says that requests may pass on conditions
// at all; otherwise no configuration counts.
func NewEnforcement(services Services, conditional bool) *Enforcement {
	return &Enforcement{services: services, conditional: conditional}
}

// servingUnconditionally says that requests do not pass on conditions.
const servingUnconditionally registration.Serving = policyv1alpha1.ReasonConditionsDisabled

// publish replaces the configurations.
func (e *Enforcement) publish(stored []*configuration) {
	published := make([]*configuration, 0, len(stored))
	for _, c := range stored {
		published = append(published, c.DeepCopy())
	}
	slices.SortFunc(published, func(a, b *configuration) int { return strings.Compare(a.Name, b.Name) })
	e.Store(&published)
}

// all returns the configurations by name, none if they have not been read.
func (e *Enforcement) all() []*configuration { return ptr.Deref(e.Current(), nil) }

// IsEmpty reports whether there are no configurations.
func (e *Enforcement) IsEmpty() bool { return len(e.all()) == 0 }

// IsRead reports whether the configurations have been read, and the APIServices if there are configurations. Without Services it does
// not wait for APIServices.
func (e *Enforcement) IsRead() bool {
	return e.services == nil || e.Current() != nil && (e.IsEmpty() || e.services.IsKnown())
}

// Enforces reports whether another server enforces conditions on a request that kube-apiserver passes on.
func (e *Enforcement) Enforces(a authorizer.Attributes) bool {
	//guard:aggregated-configurations-stale
	return e.Stale() == "" && e.about(a, func(c *configuration) bool { return e.serving(c, a.GetAPIVersion()) == registration.ServingRegistered }) != nil
}

// Configuration returns the name of a configuration that is about a request, whether or not it counts, or "".
func (e *Enforcement) Configuration(a authorizer.Attributes) string {
	if found := e.about(a, func(*configuration) bool { return true }); found != nil {
		return found.Name
	}
	return ""
}

// about returns the first configuration that is about a request and meets a condition, or nil.
func (e *Enforcement) about(a authorizer.Attributes, is func(*configuration) bool) *configuration {
	if !a.IsResourceRequest() {
		return nil
	}
	path := a.GetResource()
	if a.GetSubresource() != "" {
		path += "/" + a.GetSubresource()
	}
	for _, c := range e.all() {
		if c.Spec.APIGroup != a.GetAPIGroup() {
			continue
		}
		//guard:aggregated-verbs
		if slices.Contains(c.Spec.Resources, path) && slices.Contains(verbsOf(path), a.GetVerb()) && slices.Contains(c.Spec.APIVersions, a.GetAPIVersion()) && is(c) {
			return c
		}
	}
	return nil
}

// verbsOf returns the verbs of requests for a resource, or a subresource, that pass on conditions.
func verbsOf(path string) []string {
	switch _, subresource, isSubresource := strings.Cut(path, "/"); {
	//guard:aggregated-finalizers
	case subresource == "finalizers": // kube-apiserver and components ask about it, and send no request
		return nil
	//guard:aggregated-subresources
	case isSubresource:
		return subresourceVerbs
	}
	return resourceVerbs
}

// serving compares the server of a version with the Service of a configuration.
func (e *Enforcement) serving(c *configuration, version string) registration.Serving {
	switch {
	//guard:aggregated-configurations-being-deleted
	case c.DeletionTimestamp != nil:
		return registration.ServingUnknown
	//guard:aggregated-gate
	case !e.conditional:
		return servingUnconditionally
	case e.services == nil:
		return registration.ServingUnknown
	}
	service := &registration.Service{Namespace: c.Spec.Service.Namespace, Name: c.Spec.Service.Name, Port: &c.Spec.Service.Port}
	return e.services.Serving(schema.GroupVersion{Group: c.Spec.APIGroup, Version: version}, service)
}

// Resource is a resource, or a subresource, of a configuration in one version.
type Resource struct {
	// Configuration is the name of the configuration.
	Configuration string
	Version       string
	Resource      schema.GroupResource
	Subresource   string
	Verbs         []string
	// Serving is the result of comparing the APIService of the version with the configuration.
	Serving registration.Serving
	// IsEnforced is true if conditions on these requests are enforced.
	IsEnforced bool
}

// Resources returns the resources of all configurations, by name.
func (e *Enforcement) Resources() []Resource {
	isStale := e.Stale() != ""
	var resources []Resource
	for _, c := range e.all() {
		for _, version := range c.Spec.APIVersions {
			serving := e.serving(c, version)
			isEnforced := !isStale && serving == registration.ServingRegistered
			for _, path := range c.Spec.Resources {
				resource, subresource, _ := strings.Cut(path, "/")
				resources = append(resources, Resource{
					Configuration: c.Name, Version: version, Resource: schema.GroupResource{Group: c.Spec.APIGroup, Resource: resource}, Subresource: subresource,
					Verbs: verbsOf(path), Serving: serving, IsEnforced: isEnforced,
				})
			}
		}
	}
	return resources
}
