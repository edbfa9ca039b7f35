/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"net/http"
	"slices"
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

// AdmissionRunner marks a storage whose write methods call every validation callback once per
// object, before writing, with the object to be written. This includes writes that turn out to be
// no-ops and return the object. The handlers run validating admission in those callbacks.
type AdmissionRunner interface {
	// RunsValidatingAdmission has no effect; declaring it marks the storage.
	RunsValidatingAdmission()
}

// endpoint is one resource or subresource in one version.
type endpoint struct {
	schema.GroupVersionResource
	subresource string
}

// coverage holds the requests for an endpoint that reach admission. The zero value covers none.
type coverage struct {
	// connected is true if every request for the endpoint is a connection, whatever its verb.
	connected bool
	// verbs are the verbs for which admission sees every object. For other verbs, conditions are
	// folded.
	verbs sets.Set[string]
	// others are the other verbs that the endpoint serves, as far as its storage shows them.
	others sets.Set[string]
}

// classifier records the endpoints whose requests reach admission. The zero value has none.
type classifier struct {
	mu        sync.RWMutex
	endpoints map[endpoint]coverage
}

// Cover registers the endpoints of API groups on which conditions are enforced: endpoints whose
// storage is a genericregistry.Store or an AdmissionRunner, and connections, for which the handler
// itself runs admission. On all other endpoints conditions are folded, and also for reads, and for
// deletions from a Store that deletes gracefully.
func (e *Enforcer) Cover(groups ...*genericapiserver.APIGroupInfo) {
	for _, group := range groups {
		for version, storages := range group.VersionedResourcesStorageMap {
			for path, storage := range storages {
				resource, subresource, _ := strings.Cut(path, "/")
				e.classifier.add(endpoint{GroupVersionResource: groupVersionResource(group, version, resource), subresource: subresource}, coverageOf(storage))
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

// coverageOf returns the coverage of a storage, by the interfaces that the storage implements.
func coverageOf(storage rest.Storage) coverage {
	if isConnection(storage) {
		return coverage{connected: true, verbs: connectVerbs(storage.(rest.Connecter))}
	}
	verbs := served(map[string]bool{
		"create":           implements[rest.Creater](storage) || implements[rest.NamedCreater](storage),
		"update":           implements[rest.Updater](storage),
		"patch":            implements[rest.Patcher](storage),
		"delete":           implements[rest.GracefulDeleter](storage),
		"deletecollection": implements[rest.CollectionDeleter](storage),
	})
	others := served(map[string]bool{
		"get":   implements[rest.Getter](storage) || implements[rest.GetterWithOptions](storage),
		"list":  implements[rest.Lister](storage),
		"watch": implements[rest.Watcher](storage),
	})
	switch storage := storage.(type) {
	case *genericregistry.Store:
		if _, graceful := storage.DeleteStrategy.(rest.RESTGracefulDeleteStrategy); graceful {
			// The store answers a second deletion, which changes nothing, with the object and
			// without running admission.
			verbs.Delete("delete", "deletecollection")
			others.Insert("delete", "deletecollection")
		}
	case AdmissionRunner:
	default:
		return coverage{others: verbs.Union(others)}
	}
	return coverage{verbs: verbs, others: others}
}

func served(verbs map[string]bool) sets.Set[string] {
	found := sets.Set[string]{}
	for verb, isServed := range verbs {
		if isServed {
			found.Insert(verb)
		}
	}
	return found
}

// connectVerbs returns the verbs that the methods of a connection map to, and create, which a
// connection also needs. Methods without a verb, such as OPTIONS, are left out.
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

// isConnection reports whether the storage serves connections and nothing else, so that every request for it
// is a connection.
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

// covers reports whether admission sees the request. It returns false for attributes that stand
// for several kinds of requests.
func (c *classifier) covers(a authorizer.Attributes) bool {
	return a.IsResourceRequest() && !authorization.HasWildcards(a) && c.coverage(a).verbs.Has(a.GetVerb())
}

// connects reports whether the request is a connection, even if its verb is not covered.
func (c *classifier) connects(a authorizer.Attributes) bool {
	return a.IsResourceRequest() && c.coverage(a).connected
}

func (c *classifier) coverage(a authorizer.Attributes) coverage {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.endpoints[endpoint{GroupVersionResource: schema.GroupVersionResource{Group: a.GetAPIGroup(), Version: a.GetAPIVersion(), Resource: a.GetResource()}, subresource: a.GetSubresource()}]
}

// some returns the verbs of the endpoints that match attributes, whose group, resource and subresource may be *, in the given
// versions, or in all versions if none is given. covered has the verbs of requests that reach admission, and others the verbs of
// requests that are served and do not. The verb and the version of the attributes are ignored.
func (c *classifier) some(a authorizer.Attributes, versions []string) (covered, others sets.Set[string]) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	covered, others = sets.New[string](), sets.New[string]()
	for e, seen := range c.endpoints {
		if !matches(a.GetAPIGroup(), e.Group) || !matches(a.GetResource(), e.Resource) || !matches(a.GetSubresource(), e.subresource) {
			continue
		}
		if len(versions) > 0 && !slices.ContainsFunc(versions, func(version string) bool { return matches(version, e.Version) }) {
			continue
		}
		covered.Insert(seen.verbs.UnsortedList()...)
		others.Insert(seen.others.UnsortedList()...)
	}
	return covered, others
}

// versions returns the versions of the endpoints with the group, resource and subresource of attributes, in alphabetical order.
func (c *classifier) versions(a authorizer.Attributes) []string {
	if !a.IsResourceRequest() {
		return nil
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	var versions []string
	for e := range c.endpoints {
		if e.Group == a.GetAPIGroup() && e.Resource == a.GetResource() && e.subresource == a.GetSubresource() {
			versions = append(versions, e.Version)
		}
	}
	slices.Sort(versions)
	return versions
}

func matches(pattern, value string) bool { return pattern == "*" || pattern == value }
