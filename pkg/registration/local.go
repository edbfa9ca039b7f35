/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package registration

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

const (
	// localInterval is the time between two looks at all APIServices. kube-apiserver answers from its cache. It bounds how long
	// writes may pass on conditions after another server has taken over a version.
	localInterval = 5 * time.Second
	// maxLocalAge is how long the result of a look counts if later ones fail.
	maxLocalAge = 3 * localInterval
)

// Locals observes which versions kube-apiserver serves itself. Its methods may be called concurrently.
type Locals struct {
	client rest.Interface
	now    func() time.Time

	mu       sync.RWMutex
	versions map[schema.GroupVersion]bool
	at       time.Time
}

// NewLocals returns Locals that know nothing yet. The client is a client of kube-apiserver.
func NewLocals(client rest.Interface) *Locals { return &Locals{client: client, now: time.Now} }

// Run looks at the APIServices until ctx ends.
func (l *Locals) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := l.Look(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot find out which versions kube-apiserver serves itself")
		}
	}, localInterval)
}

// IsLocal reports whether kube-apiserver is known to serve a version itself.
func (l *Locals) IsLocal(version schema.GroupVersion) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.versions[version] && l.now().Sub(l.at) <= maxLocalAge
}

// apiServiceList is the part of a list of APIServices that is read.
type apiServiceList struct {
	metav1.TypeMeta `json:",inline"`

	Items []struct {
		Spec struct {
			Group   string            `json:"group"`
			Version string            `json:"version"`
			Service *serviceReference `json:"service"`
		} `json:"spec"`
	} `json:"items"`
}

// Look looks once at all APIServices, and remembers the result. If it fails, the last result stays for some time.
func (l *Locals) Look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	at := l.now()
	raw, err := l.client.Get().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices").Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("list of APIServices: %w", err)
	}
	list := &apiServiceList{}
	if err := json.Unmarshal(raw, list); err != nil || list.Kind != "APIServiceList" {
		return fmt.Errorf("list of APIServices: %w", errUnreadable)
	}
	versions := make(map[schema.GroupVersion]bool, len(list.Items))
	for i := range list.Items {
		spec := &list.Items[i].Spec
		if spec.Service == nil {
			versions[schema.GroupVersion{Group: spec.Group, Version: spec.Version}] = true
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.versions, l.at = versions, at
	return nil
}
