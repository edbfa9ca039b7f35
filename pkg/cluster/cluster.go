/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// MaxServers bounds the number of kube-apiservers. The others of a longer list are not probed.
	MaxServers = 64
	// DefaultInterval is the time between two rounds of canaries. What a server does not do any more is noticed within it.
	DefaultInterval = 5 * time.Second
	// boundIntervals is for how many intervals a fact counts.
	boundIntervals = 3
	// clientsFor is how long the client of a server is kept after its last use.
	clientsFor = time.Hour
)

// Config configures a Cluster. Servers, Renewed and Client are required.
type Config struct {
	// Servers returns the kube-apiservers, as https://host:port. Each address must lead to one server.
	Servers func(context.Context) ([]string, error)
	// Renewed returns when each kube-apiserver that has a Lease has renewed it.
	Renewed func(context.Context) ([]time.Time, error)
	// Client returns a client of a server that authenticates as Proviso.
	Client func(server string) (*http.Client, error)
	// Interval is the time between two rounds. If zero, DefaultInterval is.
	Interval time.Duration
	// Clock tells the time. If nil, the real time is used.
	Clock clock.WithTicker
}

// Cluster has the kube-apiservers of a cluster. Its methods may be called concurrently.
type Cluster struct {
	Config

	mu      sync.Mutex
	state   State
	clients map[string]*usedClient
}

// State is what is known of the kube-apiservers. It must not be changed.
type State struct {
	// Listed are the addresses of the last list, sorted, as of ListedAt.
	Listed   []string
	ListedAt time.Time
	// Renewed are the times at which kube-apiservers have renewed their Leases, as of RenewedAt.
	Renewed   []time.Time
	RenewedAt time.Time
}

// Addresses returns the servers to probe.
func (s State) Addresses() []string { return s.Listed[:min(len(s.Listed), MaxServers)] }

// Alive returns how many kube-apiservers had renewed their Lease within a time.
func (s State) Alive(within time.Duration) (alive int) {
	for _, at := range s.Renewed {
		if s.RenewedAt.Sub(at) <= within {
			alive++
		}
	}
	return alive
}

// New returns a Cluster about which nothing is known yet. It returns an error if config is incomplete.
func New(config Config) (*Cluster, error) {
	if config.Servers == nil || config.Renewed == nil || config.Client == nil || config.Interval < 0 {
		return nil, errors.New("probes of kube-apiservers need Servers, Renewed and Client, and no negative interval")
	}
	if config.Interval == 0 {
		config.Interval = DefaultInterval
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	return &Cluster{Config: config, clients: map[string]*usedClient{}}, nil
}

// State returns what the last looks have found.
func (c *Cluster) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// look reads the list and the Leases. If one of them cannot be read, its last state stays.
func (c *Cluster) look(ctx context.Context) {
	at := c.Clock.Now()
	listed, err := c.Servers(ctx)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot list the kube-apiservers")
	} else {
		listed = writtenOnce(listed)
		if len(listed) > MaxServers {
			klog.FromContext(ctx).Info("Too many kube-apiservers: some of them are not probed", "servers", len(listed), "most", MaxServers)
		}
		c.mu.Lock()
		if !at.Before(c.state.ListedAt) {
			c.state.Listed, c.state.ListedAt = listed, at
		}
		c.mu.Unlock()
	}
	at = c.Clock.Now()
	renewed, err := c.Renewed(ctx)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot find out how many kube-apiservers run")
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !at.Before(c.state.RenewedAt) {
		c.state.Renewed, c.state.RenewedAt = renewed, at
	}
}

// writtenOnce returns each address once, sorted.
func writtenOnce(addresses []string) []string {
	addresses = slices.Clone(addresses)
	for i, address := range addresses {
		if written, err := Address(address); err == nil {
			addresses[i] = written
		}
	}
	slices.Sort(addresses)
	return slices.Compact(addresses)
}

// IsFresh reports whether a fact of some time counts.
func (c *Cluster) IsFresh(at time.Time) bool {
	//guard:cluster-old-facts
	return !at.IsZero() && c.Clock.Since(at) <= boundIntervals*c.Interval
}

// words are what Gap says: that the servers cannot be listed, that their Leases cannot be read, that none is alive, and that more are alive than
// are listed.
type words [4]string

var gapWords = words{
	"the kube-apiservers cannot be listed", "the Leases of the kube-apiservers cannot be read", "no kube-apiserver has renewed its Lease lately",
	"%d kube-apiservers have renewed a Lease lately, and the addresses of %d are known",
}

// Gap says why a kube-apiserver that has renewed its Lease within a time may be missing in the list. It returns "" if none is.
func (c *Cluster) Gap(s State, within time.Duration) string { return c.gap(s, within, gapWords) }

func (c *Cluster) gap(s State, within time.Duration, say words) string {
	switch alive := s.Alive(within); {
	//guard:cluster-old-list
	case !c.IsFresh(s.ListedAt):
		return say[0]
	//guard:cluster-old-leases
	case !c.IsFresh(s.RenewedAt):
		return say[1]
	//guard:cluster-no-lease
	case alive < 1:
		return say[2]
	//guard:cluster-servers-not-listed
	case len(s.Listed) < alive:
		return fmt.Sprintf(say[3], alive, len(s.Listed))
	}
	return ""
}

// Follow adds the listed servers to what is kept of each server, and drops servers that are not listed and that may go.
func Follow[T any](s State, kept map[string]*T, mayGo func(*T) bool) {
	for _, address := range s.Addresses() {
		if kept[address] == nil {
			kept[address] = new(T)
		}
	}
	maps.DeleteFunc(kept, func(address string, of *T) bool {
		//guard:cluster-servers-have-left
		return !slices.Contains(s.Listed, address) && mayGo(of)
	})
}

// usedClient is a client of a server, and when it was used last.
type usedClient struct {
	http.Client

	at time.Time
}

// client returns the client of a server. It follows no redirects, because only the server itself counts.
func (c *Cluster) client(address string) (*http.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Clock.Now()
	maps.DeleteFunc(c.clients, func(_ string, used *usedClient) bool { return now.Sub(used.at) > clientsFor })
	if c.clients[address] == nil {
		client, err := c.Client(address)
		if err != nil {
			return nil, err
		}
		own := &usedClient{Client: *client}
		//guard:kube-apiservers-redirects
		own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		c.clients[address] = own
	}
	c.clients[address].at = now
	return &c.clients[address].Client, nil
}
