/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package registration observes which servers kube-apiserver calls, by the APIServices and its discovery: a Watcher for the
// versions of Proviso, and Services for all versions. kube-apiserver may serve authorization.k8s.io/v1alpha1 itself: then Proviso
// leaves the version alone. The package never writes an APIService.
//
// A version counts as served by Proviso only while that is known, so that the front door does not allow requests
// on conditions that no server behind kube-apiserver evaluates.
package registration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

const (
	// Interval is the time between two looks at the APIServices: a few small requests, and short enough to follow a
	// restart of kube-apiserver.
	Interval = 10 * time.Second
	// firstPause is the time between the first two looks, and between two looks after a change. It doubles up to Interval: the APIServices
	// are often written just after the server has started.
	firstPause = 250 * time.Millisecond
	// maxAge is how long the result of a look counts if later ones fail.
	maxAge = time.Minute
	// lookTimeout bounds one look.
	lookTimeout = 5 * time.Second
	// defaultPort is the port of an APIService that names none.
	defaultPort = 443
	// automanagedLabel is the label of the APIServices that kube-apiserver creates for what it serves itself.
	automanagedLabel = "kube-aggregator.kubernetes.io/automanaged"
)

// State says which server kube-apiserver calls for a version.
type State string

// The states.
const (
	// Unknown means that kube-apiserver has not answered yet, or not for some time, or that the APIService with the Service of
	// Proviso is missing.
	Unknown State = "unknown"
	// Proviso means that kube-apiserver passes requests on to Proviso.
	Proviso State = "proviso"
	// Unavailable means that kube-apiserver would pass requests on to Proviso, but cannot reach it.
	Unavailable State = "unavailable"
	// Missing means that there is no APIService, so that kube-apiserver answers 404.
	Missing State = "missing"
	// KubeAPIServer means that kube-apiserver serves the version itself, or owns its APIService.
	KubeAPIServer State = "kube_apiserver"
	// AnotherServer means that the APIService has another Service than the one of Proviso's policies.
	AnotherServer State = "another_server"
)

var states = []State{Unknown, Proviso, Unavailable, Missing, KubeAPIServer, AnotherServer}

// Result is the result of a look at one version.
type Result struct {
	State State
	// Message explains the state.
	Message string
}

// Watcher observes the versions. Its methods may be called concurrently.
type Watcher struct {
	client    rest.Interface
	reference schema.GroupVersion
	versions  []schema.GroupVersion
	now       func() time.Time

	mu      sync.RWMutex
	results map[schema.GroupVersion]looked
}

// looked is the result of the last look at a version that did not fail.
type looked struct {
	Result
	at time.Time
}

// New returns a watcher of reference and other versions of Proviso. reference is always installed with Proviso: its APIService tells which
// Service is Proviso's, unless as many other versions have another Service. The client is a client of kube-apiserver.
func New(client rest.Interface, reference schema.GroupVersion, others ...schema.GroupVersion) *Watcher {
	return &Watcher{client: client, reference: reference, versions: append(slices.Clone(others), reference), now: time.Now, results: map[schema.GroupVersion]looked{}}
}

// Run looks at the APIServices until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	registerMetrics()
	pause := firstPause
	for ctx.Err() == nil {
		before := w.States()
		if err := w.Look(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot find out which server kube-apiserver calls for the resources of Proviso")
		}
		w.measure()
		pause = min(2*pause, Interval)
		if !maps.Equal(before, w.States()) {
			pause = firstPause
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Serves reports whether the APIService of a version is known to have the Service of Proviso: the state is Proviso or Unavailable.
// It returns false for versions that are not watched.
func (w *Watcher) Serves(version schema.GroupVersion) bool {
	state := w.Result(version).State
	return state == Proviso || state == Unavailable
}

// States returns the states of all versions.
func (w *Watcher) States() map[schema.GroupVersion]string {
	states := make(map[schema.GroupVersion]string, len(w.versions))
	for _, version := range w.versions {
		states[version] = string(w.Result(version).State)
	}
	return states
}

// Elsewhere reports whether kube-apiserver is known to pass requests about some of the versions of a group that Proviso serves to another server,
// or to serve them itself. Without versions, all count.
func (w *Watcher) Elsewhere(group string, versions []string) bool {
	return slices.ContainsFunc(w.versions, func(version schema.GroupVersion) bool {
		isNamed := version.Group == group && (len(versions) == 0 || slices.Contains(versions, "*") || slices.Contains(versions, version.Version))
		state := w.Result(version).State
		return isNamed && (state == KubeAPIServer || state == AnotherServer)
	})
}

// Result returns the result of the last look at a version.
func (w *Watcher) Result(version schema.GroupVersion) Result {
	w.mu.RLock()
	defer w.mu.RUnlock()
	last, ok := w.results[version]
	switch {
	case !ok:
		return Result{State: Unknown, Message: "kube-apiserver has not answered yet"}
	//guard:registration-old-results
	case w.now().Sub(last.at) > maxAge:
		return Result{State: Unknown, Message: "kube-apiserver has not answered since " + last.at.UTC().Format(time.RFC3339) + "; then: " + last.Message}
	}
	return last.Result
}

// ServeHTTP writes the results, one version a line.
func (w *Watcher) ServeHTTP(response http.ResponseWriter, _ *http.Request) {
	response.Header().Set("Content-Type", "text/plain; charset=utf-8")
	response.Header().Set("X-Content-Type-Options", "nosniff")
	for _, version := range w.versions {
		result := w.Result(version)
		_, _ = fmt.Fprintf(response, "%s: %s: %s\n", version, result.State, result.Message)
	}
}

// Look looks once at each version, and stores the results. If it fails for one version, that version keeps its last result, and
// the other versions get new ones. If the APIService of the reference cannot be read, all versions keep their last results.
func (w *Watcher) Look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var errs []error
	services := map[schema.GroupVersion]*apiService{}
	for _, version := range w.versions {
		service, err := w.read(ctx, version)
		if err != nil {
			errs = append(errs, err)
			if version == w.reference {
				return errors.Join(errs...)
			}
			continue
		}
		services[version] = service
	}
	//guard:registration-outvoted
	isDoubtful := w.isOutvoted(services)
	for _, version := range w.versions {
		service, ok := services[version]
		if !ok {
			continue
		}
		result := service.result(w.reference, services[w.reference])
		if isDoubtful && (result.State == Proviso || result.State == Unavailable) {
			result = Result{AnotherServer, fmt.Sprintf("the APIService has the Service %s/%s, and as many APIServices of Proviso have another one", service.Spec.Service.Namespace, service.Spec.Service.Name)}
		}
		if service == nil || service.Spec.Service == nil {
			// Proviso is not called, whatever discovery says.
			if served, err := w.isServed(ctx, version); err != nil {
				errs = append(errs, err)
			} else {
				result = result.withDiscovery(served)
			}
		}
		w.remember(ctx, version, result)
	}
	return errors.Join(errs...)
}

// isOutvoted reports whether as many versions have another Service as have the one of the reference. Then another server may have taken over the
// reference.
func (w *Watcher) isOutvoted(services map[schema.GroupVersion]*apiService) bool {
	type named struct {
		namespace, name string
		port            int32
	}
	votes := map[named]int{}
	nameOf := func(s *apiService) named {
		return named{s.Spec.Service.Namespace, s.Spec.Service.Name, ptr.Deref(s.Spec.Service.Port, defaultPort)}
	}
	for _, service := range services {
		if service != nil && service.Spec.Service != nil && !service.isAutomanaged() {
			votes[nameOf(service)]++
		}
	}
	reference := services[w.reference]
	if reference == nil || reference.Spec.Service == nil {
		return false
	}
	own := nameOf(reference)
	for other, n := range votes {
		if other != own && n >= votes[own] {
			return true
		}
	}
	return false
}

func (w *Watcher) remember(ctx context.Context, version schema.GroupVersion, result Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if before := w.results[version].Result; before != result {
		klog.FromContext(ctx).Info("Registration of Proviso", "version", version.String(), "state", result.State, "before", before.State, "message", result.Message)
	}
	w.results[version] = looked{result, w.now()}
}

// apiService is the part of an APIService that is read. Nil is a missing one.
type apiService struct {
	Metadata struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Group   string `json:"group"`
		Version string `json:"version"`
		// Service is nil for a version that kube-apiserver serves itself.
		Service *Service `json:"service"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// Service is a Service, as an APIService names it.
type Service struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Port is 443 by default.
	Port *int32 `json:"port"`
}

// is reports whether both name the same Service and port.
func (s *Service) is(other *Service) bool {
	return s.Namespace == other.Namespace && s.Name == other.Name && ptr.Deref(s.Port, defaultPort) == ptr.Deref(other.Port, defaultPort)
}

var errUnreadable = errors.New("the answer cannot be read")

// read reads the APIService of a version.
func (w *Watcher) read(ctx context.Context, version schema.GroupVersion) (*apiService, error) {
	raw, err := w.client.Get().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices", version.Version+"."+version.Group).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("APIService of %s: %w", version, err)
	}
	service := &apiService{}
	if err := json.Unmarshal(raw, service); err != nil || service.Metadata.Name == "" {
		return nil, fmt.Errorf("APIService of %s: %w", version, errUnreadable)
	}
	return service, nil
}

// isServed reports whether discovery has the version.
func (w *Watcher) isServed(ctx context.Context, version schema.GroupVersion) (bool, error) {
	_, err := w.client.Get().AbsPath("/apis", version.Group, version.Version).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("discovery of %s: %w", version, err)
	}
	return true, nil
}

// result returns the result for the APIService s. reference is the APIService with the Service of Proviso, or nil if it is
// missing, and in is its version.
func (s *apiService) result(in schema.GroupVersion, reference *apiService) Result {
	switch {
	case s == nil:
		return Result{Missing, "there is no APIService"}
	//guard:registration-apiservice-kube-apiserver
	case s.Spec.Service == nil:
		return Result{KubeAPIServer, "the APIService belongs to kube-apiserver"}
	//guard:registration-apiservice-kube-apiserver-restores
	case s.isAutomanaged():
		return Result{KubeAPIServer, "the APIService belongs to kube-apiserver, which restores it when it restarts: remove it from your manifests"}
	//guard:registration-no-service-compare
	case reference == nil || reference.Spec.Service == nil:
		return Result{Unknown, fmt.Sprintf("the APIService of %s, which names the Service of Proviso, is missing", in)}
	//guard:registration-another-server
	case !s.Spec.Service.is(reference.Spec.Service):
		return Result{AnotherServer, fmt.Sprintf("the APIService has the Service %s/%s, which is not the one of Proviso", s.Spec.Service.Namespace, s.Spec.Service.Name)}
	}
	if s.isAvailable() {
		return Result{Proviso, "kube-apiserver passes requests on to Proviso"}
	}
	return Result{Unavailable, "kube-apiserver does not reach Proviso: see the condition Available of the APIService"}
}

// isAvailable reports whether kube-apiserver reaches the server.
func (s *apiService) isAvailable() bool {
	return meta.IsStatusConditionTrue(s.Status.Conditions, "Available")
}

// isAutomanaged reports whether kube-apiserver manages the APIService.
func (s *apiService) isAutomanaged() bool {
	value := s.Metadata.Labels[automanagedLabel]
	return value == "onstart" || value == "true"
}

// withDiscovery adds what discovery shows about a version that Proviso is not called for.
func (r Result) withDiscovery(served bool) Result {
	if served {
		return Result{KubeAPIServer, r.Message + "; kube-apiserver serves the version itself"}
	}
	r.Message += "; kube-apiserver does not serve the version"
	return r
}
