/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package kubeapiservers

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// MaxServers bounds the number of kube-apiservers. The others of a longer list are not probed.
const MaxServers = 64

// Config configures Servers. All fields are required.
type Config struct {
	// List returns the kube-apiservers, as https://host:port. Each address must lead to one server.
	List func(context.Context) ([]string, error)
	// Alive returns how many kube-apiservers are known to run, by the Leases that they renew.
	Alive func(context.Context) (int, error)
	// Client returns a client of a server that authenticates as Proviso. It is called once for each server.
	Client func(server string) (*http.Client, error)
	// Clock tells the time.
	Clock clock.PassiveClock
}

// Servers are the kube-apiservers of a cluster. Its methods may be called concurrently.
type Servers struct {
	config Config

	mu      sync.Mutex
	state   State
	clients map[string]*http.Client
}

// State is what is known of the kube-apiservers.
type State struct {
	// Listed are the addresses of the last list, sorted, as of ListedAt.
	Listed   []string
	ListedAt time.Time
	// Alive is how many kube-apiservers ran as of AliveAt.
	Alive   int
	AliveAt time.Time
}

// Addresses returns the servers to probe.
func (s State) Addresses() []string { return s.Listed[:min(len(s.Listed), MaxServers)] }

// New returns Servers that know nothing yet.
func New(config Config) *Servers { return &Servers{config: config, clients: map[string]*http.Client{}} }

// Look reads the list and the Leases. If one of them cannot be read, its last state stays.
func (s *Servers) Look(ctx context.Context) State {
	s.list(ctx)
	s.count(ctx)
	return s.State()
}

// State returns the result of the last calls of Look. It must not be changed.
func (s *Servers) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *Servers) list(ctx context.Context) {
	now := s.config.Clock.Now()
	addresses, err := s.config.List(ctx)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot list the kube-apiservers")
		return
	}
	addresses = slices.Clone(addresses)
	for i, address := range addresses {
		if written, err := Address(address); err == nil {
			addresses[i] = written
		}
	}
	slices.Sort(addresses)
	addresses = slices.Compact(addresses)
	if len(addresses) > MaxServers {
		klog.FromContext(ctx).Info("Too many kube-apiservers: some of them are not probed", "servers", len(addresses), "most", MaxServers)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Listed, s.state.ListedAt = addresses, now
}

// count reads how many servers run.
func (s *Servers) count(ctx context.Context) {
	now := s.config.Clock.Now()
	alive, err := s.config.Alive(ctx)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot find out how many kube-apiservers run")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Alive, s.state.AliveAt = alive, now
}

// Client returns the client of a server. It follows no redirects, because only the server itself counts.
func (s *Servers) Client(address string) (*http.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if client := s.clients[address]; client != nil {
		return client, nil
	}
	client, err := s.config.Client(address)
	if err != nil {
		return nil, err
	}
	own := *client
	//guard:kube-apiservers-redirects
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	s.clients[address] = &own
	return &own, nil
}

// Forget has the client of a server that is not needed any more made again, should it return.
func (s *Servers) Forget(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clients, address)
}
