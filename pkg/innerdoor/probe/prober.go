/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package probe

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/pkg/cluster"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
)

const (
	// roundIntervals is how many intervals a round may take, and how many rounds run at the same time. A server that is overloaded needs more
	// than one. A round that begins an interval after a good one ends before the good one stops to count.
	roundIntervals = 2
	// wantedInterval is the least time between rounds if requests arrive with a certificate that is not known.
	wantedInterval = time.Second
	// memory is for how long a server counts as having another certificate than others after it was last tied to one.
	memory = time.Hour
)

// Prober probes kube-apiservers. Its methods may be called concurrently.
type Prober struct {
	cluster *cluster.Cluster
	loop    *cluster.Loop
	// namespace has the ConfigMap of the canaries, and digest is the digest of the manifest of this replica.
	namespace, digest string
	// measuring has rounds set the metrics one after the other. measured are the servers that metrics have.
	measuring sync.Mutex
	measured  map[string]bool

	mu sync.Mutex
	// rounds are those that are running, by nonce.
	rounds map[string]*round
	// servers are all servers that were ever listed, and not forgotten.
	servers map[string]*server
	// state has the servers of the last list.
	state cluster.State
	// probed says that a round has ended in which servers were listed.
	probed bool
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

// New returns a Prober. namespace has the ConfigMap of the canaries: the namespace of Proviso. digest is the digest of the manifest of this replica.
func New(c *cluster.Cluster, namespace, digest string) (*Prober, error) {
	if namespace == "" || digest == "" {
		return nil, errors.New("a probe of the inner door needs a namespace and a digest")
	}
	return &Prober{
		cluster: c, loop: c.NewLoop(min(wantedInterval, c.Interval)), namespace: namespace, digest: digest, rounds: map[string]*round{}, servers: map[string]*server{},
	}, nil
}

// Run probes all servers again and again until ctx ends. A round begins when its time has come, even if the one before has not ended: a server
// that is slow must not keep another one from being probed.
func (p *Prober) Run(ctx context.Context) {
	registerMetrics()
	var running errgroup.Group
	running.SetLimit(roundIntervals)
	p.loop.Run(ctx, func(ctx context.Context, _ bool) time.Duration {
		running.Go(func() error {
			p.Round(ctx)
			return nil
		})
		return p.cluster.Early()
	})
	_ = running.Wait() // no function returns an error
}

// Round probes all servers once, and takes at most roundIntervals.
func (p *Prober) Round(ctx context.Context) {
	p.cluster.Round(ctx, p, roundIntervals*p.cluster.Interval, 0)
	p.mu.Lock()
	p.probed = p.probed || len(p.state.Listed) > 0
	p.mu.Unlock()
	p.measure()
}

// Servers implements cluster.Canary.
func (p *Prober) Servers() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = p.cluster.State()
	cluster.Follow(p.state, p.servers, func(s *server) bool { return p.state.ListedAt.Sub(s.tiedAt) > memory })
	return p.state.Addresses()
}

// Probe implements cluster.Canary. It makes a round at a server.
func (p *Prober) Probe(ctx context.Context, address string) {
	began, r := p.cluster.Clock.Now(), newRound()
	p.mu.Lock()
	p.rounds[r.nonce] = r
	p.mu.Unlock()
	waited := p.cluster.Clock.NewTimer(p.cluster.Interval)
	defer waited.Stop()
	result := p.run(ctx, r, address, waited.C())
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
	if s == nil { // it has left the list meanwhile
		return
	}
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
	nonce, ok := innerdoor.CanaryOf(attributes, p.namespace)
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
