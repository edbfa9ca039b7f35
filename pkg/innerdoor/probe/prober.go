/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package probe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/kubeapiservers"
)

const (
	// DefaultInterval is the time between two rounds. A manifest that is taken away is noticed within it.
	DefaultInterval = 5 * time.Second

	// boundIntervals is for how many intervals the result of a round counts.
	boundIntervals = 3
	// roundIntervals is how many intervals a round may take, and how many rounds run at the same time. A server that is overloaded needs more
	// than one. A round that begins an interval after a good one ends before the good one stops to count.
	roundIntervals = boundIntervals - 1
	// maxJitter is the part of the interval by which rounds may be early, so that replicas do not probe at the same time.
	maxJitter = 0.2
	// wantedInterval is the least time between rounds if requests arrive with a certificate that is not known.
	wantedInterval = time.Second
	// memory is for how long a server counts as having another certificate than others after it was last tied to one.
	memory = time.Hour
)

// Config configures a Prober.
type Config struct {
	// Namespace has the ConfigMap of the canaries: the namespace of Proviso.
	Namespace string
	// Digest is the digest of the manifest of this replica.
	Digest string
	// Servers returns the kube-apiservers, as https://host:port. Each address must lead to one server.
	Servers func(context.Context) ([]string, error)
	// Alive returns how many kube-apiservers are known to run, by the Leases that they renew.
	Alive func(context.Context) (int, error)
	// Client returns a client of a server that authenticates as Proviso. It is called once for each server.
	Client func(server string) (*http.Client, error)
	// Interval is the time between two rounds. If zero, DefaultInterval is.
	Interval time.Duration
	// Clock tells the time. If nil, the real time is used.
	Clock clock.WithTicker
}

// Prober probes kube-apiservers. Its methods may be called concurrently.
type Prober struct {
	config Config
	// cluster finds the servers.
	cluster *kubeapiservers.Servers
	// wanted asks for a round before its time.
	wanted chan struct{}
	// one has rounds find the servers, and set the metrics, one after the other.
	one sync.Mutex
	// measured are the servers that metrics have.
	measured map[string]bool

	mu sync.Mutex
	// rounds are those that are running, by nonce.
	rounds map[string]*round
	// servers are all servers that were ever listed, and not forgotten.
	servers map[string]*server
	// listed are the addresses of the last list, as of listedAt.
	listed   []string
	listedAt time.Time
	// probed says that a round has ended in which servers were listed.
	probed bool
	// alive is how many kube-apiservers run, as of aliveAt.
	alive   int
	aliveAt time.Time
}

// server is a kube-apiserver.
type server struct {
	// last is the outcome of the last round, which began at lastAt.
	last   outcome
	lastAt time.Time
	// certificate is the one of the last round whose checks arrived at this replica, which began at tiedAt.
	certificate string
	tiedAt      time.Time
}

// New returns a Prober. It returns an error if config is incomplete.
func New(config Config) (*Prober, error) {
	if config.Namespace == "" || config.Digest == "" || config.Servers == nil || config.Alive == nil || config.Client == nil {
		return nil, errors.New("a probe of the inner door needs Namespace, Digest, Servers, Alive and Client")
	}
	if config.Interval < 0 {
		return nil, fmt.Errorf("the interval of the probe of the inner door is %s", config.Interval)
	}
	if config.Interval == 0 {
		config.Interval = DefaultInterval
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	cluster := kubeapiservers.New(kubeapiservers.Config{List: config.Servers, Alive: config.Alive, Client: config.Client, Clock: config.Clock})
	return &Prober{config: config, cluster: cluster, wanted: make(chan struct{}, 1), rounds: map[string]*round{}, servers: map[string]*server{}}, nil
}

// Run probes all servers again and again until ctx ends. A round begins when its time has come, even if the one before has not ended: a server
// that is slow must not keep another one from being probed.
func (p *Prober) Run(ctx context.Context) {
	registerMetrics()
	var running errgroup.Group
	running.SetLimit(roundIntervals)
	for ctx.Err() == nil {
		began := p.config.Clock.Now()
		running.Go(func() error {
			p.Round(ctx)
			return nil
		})
		p.pause(ctx, began)
	}
	_ = running.Wait() // no function returns an error
}

// pause waits until the next round: for the interval, or less if a round is wanted.
func (p *Prober) pause(ctx context.Context, began time.Time) {
	early := time.Duration(rand.Float64() * maxJitter * float64(p.config.Interval)) //nolint:gosec // no secret
	timer := p.config.Clock.NewTimer(p.config.Interval - early - p.config.Clock.Since(began))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C():
		return
	case <-p.wanted:
	}
	soon := p.config.Clock.NewTimer(min(wantedInterval, p.config.Interval) - p.config.Clock.Since(began))
	defer soon.Stop()
	select {
	case <-ctx.Done():
	case <-soon.C():
	}
}

// Round probes all servers once, and takes at most roundIntervals.
func (p *Prober) Round(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, roundIntervals*p.config.Interval)
	defer cancel()
	p.look(ctx)
	kubeapiservers.Each(ctx, p.addresses(), p.probe)
	p.mu.Lock()
	p.probed = p.probed || len(p.listed) > 0
	p.mu.Unlock()
	p.measure()
}

// look finds the servers. If they cannot be listed, the last list stays, and counts for some time.
func (p *Prober) look(ctx context.Context) {
	p.one.Lock()
	defer p.one.Unlock()
	state := p.cluster.Look(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listed, p.listedAt, p.alive, p.aliveAt = state.Listed, state.ListedAt, state.Alive, state.AliveAt
	for _, address := range state.Addresses() {
		if p.servers[address] == nil {
			p.servers[address] = &server{}
		}
	}
	for address, s := range p.servers {
		if !slices.Contains(p.listed, address) && p.listedAt.Sub(s.tiedAt) > memory {
			delete(p.servers, address)
			p.cluster.Forget(address)
		}
	}
}

// addresses returns the servers to probe.
func (p *Prober) addresses() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.listed[:min(len(p.listed), kubeapiservers.MaxServers)])
}

// probe makes a round at a server.
func (p *Prober) probe(ctx context.Context, address string) {
	began, r := p.config.Clock.Now(), newRound()
	client, err := p.cluster.Client(address)
	if err != nil {
		p.ended(ctx, address, began, r, outcome{result: Failed, message: kubeapiservers.Shortened(err.Error())})
		return
	}
	p.mu.Lock()
	p.rounds[r.nonce] = r
	p.mu.Unlock()
	waited := p.config.Clock.NewTimer(p.config.Interval)
	defer waited.Stop()
	result := r.run(ctx, client, address, p.config.Namespace, p.config.Digest, waited.C())
	p.mu.Lock()
	delete(p.rounds, r.nonce)
	p.mu.Unlock()
	p.ended(ctx, address, began, r, result)
}

// ended records the outcome of a round.
func (p *Prober) ended(ctx context.Context, address string, began time.Time, r *round, result outcome) {
	rounds.WithLabelValues(string(result.result)).Inc()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.servers[address]
	if s.last != result {
		klog.FromContext(ctx).Info("Probed the inner door", "server", address, "result", result.result, "before", s.last.result, "message", result.message)
	}
	//guard:probe-results-older-rounds
	if s.learnsNothing(result, r.certificate()) || began.Before(s.lastAt) && result.weight() < news {
		return
	}
	//guard:late-answers-extend-nothing
	s.last, s.lastAt = result, began
	// A round that is not good ties, too: the certificate is not known then.
	//guard:probe-certificates-rounds-other-replicas-answer
	if certificate := r.certificate(); certificate != "" && result.result != Elsewhere && !began.Before(s.tiedAt) {
		s.certificate, s.tiedAt = certificate, began
	}
}

// learnsNothing reports whether a round says nothing new about a server that is known to call the inner door: an answer took too long, as
// while the server is overloaded. What was known then counts to the end of its bound, and is not extended. Without this, a user who
// overloads a kube-apiserver would close permission on conditions for all others.
func (s *server) learnsNothing(result outcome, certificate string) bool {
	//guard:late-answers-another-certificate
	return result.late && s.last.result.callsInnerDoor() && (certificate == "" || certificate == s.certificate)
}

// IsCanary reports whether attributes are of a canary, of this replica or of another one, which must be allowed. It records with
// which certificate the check has arrived.
func (p *Prober) IsCanary(certificate string, attributes authorizer.Attributes) bool {
	nonce, ok := innerdoor.CanaryOf(attributes, p.config.Namespace)
	if !ok {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.rounds[nonce]; r != nil {
		r.arrived(attributes.GetVerb(), certificate)
	}
	return true
}
