/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package registration

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

const (
	// servicesInterval is the time between two lists of all APIServices, which kube-apiserver answers from its cache. After another
	// server has taken over a version, writes may pass on conditions for about this time.
	servicesInterval = 5 * time.Second
	// maxServicesAge is how long a list of APIServices is used if later lists fail.
	maxServicesAge = 3 * servicesInterval
)

// Services lists the APIServices regularly, and reports which server serves each version. Its methods may be called concurrently.
type Services struct {
	client rest.Interface
	now    func() time.Time

	mu       sync.RWMutex
	services map[schema.GroupVersion]*apiService
	at       time.Time
}

// NewServices returns Services that know nothing yet. The client is a client of kube-apiserver.
func NewServices(client rest.Interface) *Services { return &Services{client: client, now: time.Now} }

// Run lists the APIServices regularly, while they are needed, until ctx ends.
func (s *Services) Run(ctx context.Context, areNeeded func() bool) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if !areNeeded() {
			return
		}
		if err := s.Look(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot find out which servers serve which versions")
		}
	}, servicesInterval)
}

// IsLocal reports whether kube-apiserver is known to serve a version itself.
func (s *Services) IsLocal(version schema.GroupVersion) bool {
	service := s.current()[version]
	//guard:registration-versions-other-servers
	return service != nil && service.Spec.Service == nil
}

// Groups returns the groups that have registered versions. It returns false if that is not known.
func (s *Services) Groups() (groups []string, isKnown bool) {
	current := s.current()
	seen := sets.New[string]()
	for version := range current {
		seen.Insert(version.Group)
	}
	return sets.List(seen), current != nil
}

// Remote returns the versions that kube-apiserver passes on to other servers, in order. It returns false if that is not known.
func (s *Services) Remote() (versions []schema.GroupVersion, isKnown bool) {
	current := s.current()
	for version, service := range current {
		if service.Spec.Service != nil {
			versions = append(versions, version)
		}
	}
	slices.SortFunc(versions, func(a, b schema.GroupVersion) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version))
	})
	return versions, current != nil
}

// Versions returns the versions of a group that are registered, and for each whether kube-apiserver serves it itself. It returns false
// if that is not known.
func (s *Services) Versions(group string) (versions map[string]bool, isKnown bool) {
	current := s.current()
	if current == nil {
		return nil, false
	}
	versions = map[string]bool{}
	for version, service := range current {
		if version.Group == group {
			versions[version.Version] = service.Spec.Service == nil
		}
	}
	return versions, true
}

// Serving is the result of comparing the APIService of a version with a Service.
type Serving string

// The values of Serving.
const (
	// ServingUnknown means that the APIServices cannot be read.
	ServingUnknown Serving = "Unknown"
	// ServingMissing means that there is no APIService.
	ServingMissing Serving = "Missing"
	// ServingKubeAPIServer means that the APIService belongs to kube-apiserver.
	ServingKubeAPIServer Serving = "KubeAPIServer"
	// ServingAnotherService means that the APIService names another Service.
	ServingAnotherService Serving = "AnotherService"
	// ServingUnavailable means that the APIService names the Service, and that kube-apiserver does not reach it.
	ServingUnavailable Serving = "Unavailable"
	// ServingRegistered means that kube-apiserver passes requests on to the Service.
	ServingRegistered Serving = "Registered"
)

// Serving compares the APIService of a version with a Service.
func (s *Services) Serving(version schema.GroupVersion, by *Service) Serving {
	current := s.current()
	if current == nil {
		return ServingUnknown
	}
	switch service := current[version]; {
	case service == nil:
		return ServingMissing
	//guard:registration-kube-apiserver-manages
	case service.Spec.Service == nil, service.isAutomanaged():
		return ServingKubeAPIServer
	//guard:registration-service-another
	case !service.Spec.Service.is(by):
		return ServingAnotherService
	//guard:registration-servers-not-available
	case !service.isAvailable():
		return ServingUnavailable
	}
	return ServingRegistered
}

// IsKnown reports whether the APIServices have ever been read.
func (s *Services) IsKnown() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.services != nil
}

// current returns the last result, or nil if it is too old.
func (s *Services) current() map[schema.GroupVersion]*apiService {
	s.mu.RLock()
	defer s.mu.RUnlock()
	//guard:registration-old-lists-versions
	if s.now().Sub(s.at) > maxServicesAge {
		return nil
	}
	return s.services
}

// apiServiceList is the part of a list of APIServices that is read.
type apiServiceList struct {
	Kind  string        `json:"kind"`
	Items []*apiService `json:"items"`
}

// Look lists the APIServices once. If that fails, the last list is used for up to maxServicesAge.
func (s *Services) Look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	at := s.now()
	raw, err := s.client.Get().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices").Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("list of APIServices: %w", err)
	}
	list := &apiServiceList{}
	//guard:registration-lists-none
	if err := json.Unmarshal(raw, list); err != nil || list.Kind != "APIServiceList" {
		return fmt.Errorf("list of APIServices: %w", errUnreadable)
	}
	services := make(map[schema.GroupVersion]*apiService, len(list.Items))
	for _, service := range list.Items {
		if service != nil {
			services[schema.GroupVersion{Group: service.Spec.Group, Version: service.Spec.Version}] = service
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.services, s.at = services, at
	return nil
}
