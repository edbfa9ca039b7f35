/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// AdmissionRunner marks a storage all of whose writing methods call every validation
// callback that they are given, once for each object and before they write it, with what
// they are about to write. The handlers run validating admission in those callbacks.
type AdmissionRunner interface {
	// RunsValidatingAdmission does nothing.
	RunsValidatingAdmission()
}

// coverage says how admission sees a request.
type coverage uint8

const (
	// uncovered requests may pass admission by, so that conditions on them are folded.
	uncovered coverage = iota
	// written requests create, change or delete objects.
	written
	// connected requests connect to a subresource, by whatever method.
	connected
)

// endpoint is one resource or subresource in one version.
type endpoint struct {
	schema.GroupVersionResource
	subresource string
}

// classifier knows the endpoints behind which admission sees requests. The zero value
// knows none.
type classifier struct {
	mu        sync.RWMutex
	endpoints map[endpoint]map[string]coverage // by verb; "" is every verb
}

// Cover learns which endpoints of API groups enforce conditions: those whose storage is a
// genericregistry.Store or an AdmissionRunner, and those that are connected to, for which
// the handler itself runs admission. Conditions on everything else are folded.
func (e *Enforcer) Cover(groups ...*genericapiserver.APIGroupInfo) {
	for _, group := range groups {
		for version, storages := range group.VersionedResourcesStorageMap {
			for path, storage := range storages {
				resource, subresource := splitPath(path)
				e.classifier.add(endpoint{groupVersionResource(group, version, resource), subresource}, verbsOf(storage))
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

func splitPath(path string) (resource, subresource string) {
	for i := range len(path) {
		if path[i] == '/' {
			return path[:i], path[i+1:]
		}
	}
	return path, ""
}

// verbsOf returns the verbs of a storage on which admission sees every object.
func verbsOf(storage rest.Storage) map[string]coverage {
	if isConnection(storage) {
		return map[string]coverage{"": connected}
	}
	switch storage.(type) {
	case *genericregistry.Store, AdmissionRunner:
	default:
		return nil
	}
	verbs := map[string]coverage{}
	for verb, serves := range map[string]bool{
		"create":           implements[rest.Creater](storage) || implements[rest.NamedCreater](storage),
		"update":           implements[rest.Updater](storage),
		"patch":            implements[rest.Patcher](storage),
		"delete":           implements[rest.GracefulDeleter](storage),
		"deletecollection": implements[rest.CollectionDeleter](storage),
	} {
		if serves {
			verbs[verb] = written
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

func (c *classifier) add(e endpoint, verbs map[string]coverage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.endpoints == nil {
		c.endpoints = map[endpoint]map[string]coverage{}
	}
	c.endpoints[e] = verbs
}

// coverage says how admission sees a request. Questions about many kinds of requests are
// not covered.
func (c *classifier) coverage(a authorizer.Attributes) coverage {
	if !a.IsResourceRequest() || authorization.AsksAboutMany(a) {
		return uncovered
	}
	e := endpoint{schema.GroupVersionResource{Group: a.GetAPIGroup(), Version: a.GetAPIVersion(), Resource: a.GetResource()}, a.GetSubresource()}
	c.mu.RLock()
	defer c.mu.RUnlock()
	verbs := c.endpoints[e]
	if all, ok := verbs[""]; ok {
		return all
	}
	return verbs[a.GetVerb()]
}
