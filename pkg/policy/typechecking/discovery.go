/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package typechecking

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// discoveryExpiry is how long the list of resources is used. New CustomResourceDefinitions are seen after that time.
// Reading the list takes two requests.
const discoveryExpiry = time.Minute

// Discovery knows the kinds and the schemas that servers publish. It differs from a
// RESTMapper in that it takes names as they are, and that a group whose server is down is
// an error rather than unknown. It keeps lists of resources for a minute, and no schemas.
// It is safe for concurrent use.
type Discovery struct {
	servers []*server
}

var (
	_ Kinds                   = (*Discovery)(nil)
	_ resolver.SchemaResolver = (*Discovery)(nil)
)

// NewDiscovery makes a Discovery of servers that may publish the same things: Proviso
// itself and kube-apiserver. The schema of a kind comes from the first that has it. The
// clients should have a timeout, since nothing else ends a call.
func NewDiscovery(clients ...discovery.DiscoveryInterface) *Discovery {
	d := &Discovery{}
	for _, client := range clients {
		d.servers = append(d.servers, &server{
			schemas: resolver.ClientDiscoveryResolver{Discovery: client},
			cache:   memory.NewMemCacheClient(client).(cachedDiscovery),
		})
	}
	return d
}

// KindsFor returns the kinds of a resource on all servers, and beside them an error if
// there may be more.
func (d *Discovery) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	var found []schema.GroupVersionKind
	var errs []error
	for _, s := range d.servers {
		kinds, err := s.kindsFor(resource)
		if err != nil {
			errs = append(errs, err)
		}
		for _, kind := range kinds {
			if !slices.Contains(found, kind) {
				found = append(found, kind)
			}
		}
	}
	return found, errors.Join(errs...)
}

// ResolveSchema returns the schema of a kind. The error wraps resolver.ErrSchemaNotFound
// if every server said that it has none.
func (d *Discovery) ResolveSchema(kind schema.GroupVersionKind) (*spec.Schema, error) {
	var errs []error
	for _, s := range d.servers {
		found, err := s.schemas.ResolveSchema(kind)
		if err == nil {
			return found, nil
		}
		if !errors.Is(err, resolver.ErrSchemaNotFound) {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return nil, fmt.Errorf("cannot resolve %s: %w", kind, resolver.ErrSchemaNotFound)
}

// Missing returns an error if Published may lack resources of a version: a server does not answer, or it reports that the server
// behind it is down. The error is the cause.
func (d *Discovery) Missing(version schema.GroupVersion) error {
	var errs []error
	for _, s := range d.servers {
		_, stale, err := s.groups()
		errs = append(errs, err, stale[version])
	}
	return errors.Join(errs...)
}

// cachedDiscovery is what a cache in memory can do: its aggregated form also lists the
// versions whose server is down, which are in no group.
type cachedDiscovery interface {
	discovery.CachedDiscoveryInterface
	discovery.AggregatedDiscoveryInterface
}

type server struct {
	schemas resolver.ClientDiscoveryResolver
	cache   cachedDiscovery

	mu      sync.Mutex
	fetched time.Time
}

// groups returns the groups, and why versions are not known. It fetches all lists again if they are older than discoveryExpiry.
func (s *server) groups() (*metav1.APIGroupList, map[schema.GroupVersion]error, error) {
	s.mu.Lock()
	if time.Since(s.fetched) >= discoveryExpiry {
		s.cache.Invalidate()
		s.fetched = time.Now()
	}
	s.mu.Unlock()
	groups, _, stale, err := s.cache.GroupsAndMaybeResources()
	return groups, stale, err
}

func (s *server) kindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	groups, stale, err := s.groups()
	if err != nil || groups == nil {
		return nil, err
	}
	var found []schema.GroupVersionKind
	var errs []error
	for version, err := range stale {
		if version.Group == resource.Group && (resource.Version == "" || version.Version == resource.Version) {
			errs = append(errs, err)
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	for _, version := range versionsOf(groups, resource) {
		list, err := s.cache.ServerResourcesForGroupVersion(version.String())
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", version, err))
			continue
		}
		for i := range list.APIResources {
			if list.APIResources[i].Name == resource.Resource {
				found = append(found, kindOf(version, &list.APIResources[i]))
			}
		}
	}
	return found, errors.Join(errs...)
}

// versionsOf returns the versions of the group of a resource in which to look for it.
func versionsOf(groups *metav1.APIGroupList, resource schema.GroupVersionResource) []schema.GroupVersion {
	var versions []schema.GroupVersion
	for i := range groups.Groups {
		if groups.Groups[i].Name != resource.Group {
			continue
		}
		for _, v := range groups.Groups[i].Versions {
			if resource.Version == "" || resource.Version == v.Version {
				versions = append(versions, schema.GroupVersion{Group: resource.Group, Version: v.Version})
			}
		}
	}
	return versions
}

// kindOf returns the kind of a resource, which may be of another group and version.
func kindOf(version schema.GroupVersion, resource *metav1.APIResource) schema.GroupVersionKind {
	if resource.Version != "" {
		version = schema.GroupVersion{Group: resource.Group, Version: resource.Version}
	}
	return version.WithKind(resource.Kind)
}
