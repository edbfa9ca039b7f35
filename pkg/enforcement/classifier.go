/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"net/http"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// AdmissionRunner marks a storage all of whose writing methods call every validation
// callback that they are given, once for each object and before they write it, with what
// they are about to write; also where it turns out that nothing is to be written, but the
// object is returned. The handlers run validating admission in those callbacks.
type AdmissionRunner interface {
	// RunsValidatingAdmission does nothing.
	RunsValidatingAdmission()
}

// endpoint is one resource or subresource in one version.
type endpoint struct {
	schema.GroupVersionResource
	subresource string
}

// coverage says which requests for an endpoint admission sees. The zero value sees none.
type coverage struct {
	// connected says that every request for the endpoint connects to it, whatever its verb.
	connected bool
	// verbs are those on which admission sees every object. Conditions on others are folded.
	verbs sets.Set[string]
}

// classifier knows the endpoints behind which admission sees requests. The zero value
// knows none.
type classifier struct {
	mu        sync.RWMutex
	endpoints map[endpoint]coverage
}

// Cover learns which endpoints of API groups enforce conditions: those whose storage is a
// genericregistry.Store or an AdmissionRunner, and those that are connected to, for which
// the handler itself runs admission. Conditions on everything else are folded.
func (e *Enforcer) Cover(groups ...*genericapiserver.APIGroupInfo) {
	for _, group := range groups {
		for version, storages := range group.VersionedResourcesStorageMap {
			for path, storage := range storages {
				resource, subresource, _ := strings.Cut(path, "/")
				e.classifier.add(endpoint{groupVersionResource(group, version, resource), subresource}, coverageOf(storage))
			}
		}
	}
}

func groupVersionResource(group *genericapiserver.APIGroupInfo, version, resource string) schema.GroupVersionResource {
	name := ""
	if len(group.PrioritizedVersions) > 0 {
		name = group.PrioritizedVersions[0].Group
	}
	return schema.GroupVersionResource{Group: name, Version: version, Resource: resource}
}

// coverageOf says on which requests for a storage admission sees every object.
func coverageOf(storage rest.Storage) coverage {
	if isConnection(storage) {
		return coverage{connected: true, verbs: connectVerbs(storage.(rest.Connecter))}
	}
	switch storage.(type) {
	case *genericregistry.Store, AdmissionRunner:
	default:
		return coverage{}
	}
	verbs := sets.Set[string]{}
	for verb, serves := range map[string]bool{
		"create":           implements[rest.Creater](storage) || implements[rest.NamedCreater](storage),
		"update":           implements[rest.Updater](storage),
		"patch":            implements[rest.Patcher](storage),
		"delete":           implements[rest.GracefulDeleter](storage),
		"deletecollection": implements[rest.CollectionDeleter](storage),
	} {
		if serves {
			verbs.Insert(verb)
		}
	}
	if store, ok := storage.(*genericregistry.Store); ok {
		if _, graceful := store.DeleteStrategy.(rest.RESTGracefulDeleteStrategy); graceful {
			// It answers a second deletion, which changes nothing, with the object and without
			// admission.
			verbs.Delete("delete", "deletecollection")
		}
	}
	return coverage{verbs: verbs}
}

// connectVerbs returns the verbs of requests that connect, and the create that they need as
// well. A method that has no verb, such as OPTIONS, is not among them.
func connectVerbs(storage rest.Connecter) sets.Set[string] {
	verbs := sets.New("create")
	for _, method := range storage.ConnectMethods() {
		switch method {
		case http.MethodGet, http.MethodHead:
			verbs.Insert("get")
		case http.MethodPut:
			verbs.Insert("update")
		case http.MethodPatch:
			verbs.Insert("patch")
		case http.MethodDelete:
			verbs.Insert("delete")
		}
	}
	return verbs
}

// isConnection reports whether a storage is connected to, and nothing else: then every
// request for it is a connection.
func isConnection(storage rest.Storage) bool {
	return implements[rest.Connecter](storage) &&
		!implements[rest.Getter](storage) && !implements[rest.GetterWithOptions](storage) && !implements[rest.Lister](storage) &&
		!implements[rest.Watcher](storage) && !implements[rest.Creater](storage) && !implements[rest.NamedCreater](storage) &&
		!implements[rest.Updater](storage) && !implements[rest.GracefulDeleter](storage) && !implements[rest.CollectionDeleter](storage)
}

func implements[T any](storage rest.Storage) bool {
	_, ok := storage.(T)
	return ok
}

func (c *classifier) add(e endpoint, seen coverage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.endpoints == nil {
		c.endpoints = map[endpoint]coverage{}
	}
	c.endpoints[e] = seen
}

// covers reports whether admission sees a request. Questions about many kinds of requests
// are not covered.
func (c *classifier) covers(a authorizer.Attributes) bool {
	return a.IsResourceRequest() && !authorization.AsksAboutMany(a) && c.coverage(a).verbs.Has(a.GetVerb())
}

// connects reports whether a request connects, even if its verb is not covered.
func (c *classifier) connects(a authorizer.Attributes) bool {
	return a.IsResourceRequest() && c.coverage(a).connected
}

func (c *classifier) coverage(a authorizer.Attributes) coverage {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.endpoints[endpoint{schema.GroupVersionResource{Group: a.GetAPIGroup(), Version: a.GetAPIVersion(), Resource: a.GetResource()}, a.GetSubresource()}]
}

// coversSome reports whether admission sees some of the requests that attributes with *
// stand for.
func (c *classifier) coversSome(a authorizer.Attributes) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for e, seen := range c.endpoints {
		if !matches(a.GetAPIGroup(), e.Group) || !matches(a.GetAPIVersion(), e.Version) ||
			!matches(a.GetResource(), e.Resource) || !matches(a.GetSubresource(), e.subresource) {
			continue
		}
		if seen.verbs.Has(a.GetVerb()) || a.GetVerb() == "*" && seen.verbs.Len() > 0 {
			return true
		}
	}
	return false
}

func matches(pattern, value string) bool { return pattern == "*" || pattern == value }
