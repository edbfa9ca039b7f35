/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package capability

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/kubeapiservers"
)

const (
	// DefaultInterval is the time between two rounds. A kube-apiserver that stops to handle conditions is noticed within it.
	DefaultInterval = 5 * time.Second

	// boundIntervals is for how many intervals the result of a round counts.
	boundIntervals = 3
	// maxJitter is the part of the interval by which rounds may be late, so that replicas do not probe at the same time.
	maxJitter = 0.2
	// maxShown bounds how many servers a problem names.
	maxShown = 3
)

// canary would update a ConfigMap, if the front door did not deny it.
var canary = innerdoor.CanaryRequest{
	Method: http.MethodPut, Namespace: innerdoor.ConditionsCanaryNamespace, Name: innerdoor.ConditionsCanaryName, Object: innerdoor.ConditionsCanaryName,
}

// Config configures a Prober.
type Config struct {
	// Servers returns the kube-apiservers, as https://host:port. Each address must lead to one server.
	Servers func(context.Context) ([]string, error)
	// Alive returns how many kube-apiservers are known to run, by the Leases that they renew.
	Alive func(context.Context) (int, error)
	// Client returns a client of a server that authenticates as Proviso. It is called once for each server.
	Client func(server string) (*http.Client, error)
	// Interval is the time between two rounds. If zero, DefaultInterval is.
	Interval time.Duration
	// Clock tells the time. If nil, the real time is used.
	Clock clock.PassiveClock
}

// Prober probes kube-apiservers. Its methods may be called concurrently, except for Round.
type Prober struct {
	config  Config
	cluster *kubeapiservers.Servers

	mu    sync.Mutex
	state kubeapiservers.State
	// servers has the last outcome of each server.
	servers map[string]outcome
	// probed says that a round has ended.
	probed bool
}

// outcome is the outcome of the last canary at a server, which was sent at a time.
type outcome struct {
	handles bool
	message string
	at      time.Time
}

// New returns a Prober. It returns an error if config is incomplete.
func New(config Config) (*Prober, error) {
	if config.Servers == nil || config.Alive == nil || config.Client == nil || config.Interval < 0 {
		return nil, errors.New("a probe of conditions needs Servers, Alive and Client, and no negative interval")
	}
	if config.Interval == 0 {
		config.Interval = DefaultInterval
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	cluster := kubeapiservers.New(kubeapiservers.Config{List: config.Servers, Alive: config.Alive, Client: config.Client, Clock: config.Clock})
	return &Prober{config: config, cluster: cluster, servers: map[string]outcome{}}, nil
}

// Run probes all servers again and again until ctx ends.
func (p *Prober) Run(ctx context.Context) {
	wait.JitterUntilWithContext(ctx, p.Round, p.config.Interval, maxJitter, false)
}

// Round probes all servers once, for at most an interval.
func (p *Prober) Round(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, p.config.Interval)
	defer cancel()
	state := p.cluster.Look(ctx)
	p.mu.Lock()
	p.state = state
	for address := range p.servers {
		if !slices.Contains(state.Listed, address) {
			delete(p.servers, address)
			p.cluster.Forget(address)
		}
	}
	p.mu.Unlock()
	kubeapiservers.Each(ctx, state.Addresses(), p.probe)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probed = true
}

// probe sends a canary to a server, and records the outcome.
func (p *Prober) probe(ctx context.Context, address string) {
	result := outcome{at: p.config.Clock.Now()}
	result.handles, result.message = p.send(ctx, address)
	p.mu.Lock()
	defer p.mu.Unlock()
	if before := p.servers[address]; before.handles != result.handles || before.message != result.message {
		klog.FromContext(ctx).Info("Probed whether a kube-apiserver handles conditions", "server", address, "handles", result.handles, "message", result.message)
	}
	p.servers[address] = result
}

// send sends a canary to a server. The message explains the result.
func (p *Prober) send(ctx context.Context, address string) (handles bool, message string) {
	client, err := p.cluster.Client(address)
	if err != nil {
		return false, kubeapiservers.Shortened(err.Error())
	}
	nonce := innerdoor.NewNonce()
	request, err := canary.For(ctx, address, nonce)
	if err != nil {
		return false, kubeapiservers.Shortened(err.Error())
	}
	status, err := kubeapiservers.Send(client, request)
	if err != nil {
		return false, kubeapiservers.Shortened(err.Error())
	}
	switch handles, isAnswer := innerdoor.ConditionsCanaryAnswer(status, nonce); {
	case handles:
		return true, "the server handles conditions"
	case isAnswer:
		return false, "the server sends reviews without the options for conditions"
	case kubeapiservers.Passed(status):
		return false, "the server allowed the canary: it does not ask the front door"
	}
	// The nonce differs each time, and would make each message a new one.
	return false, kubeapiservers.Shortened(fmt.Sprintf("refused, but not by the front door: %d %s", status.Code, strings.ReplaceAll(status.Message, nonce, "…")))
}

// Handles reports whether the kube-apiserver with an address is known to handle conditions.
func (p *Prober) Handles(address string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.handles(address)
}

func (p *Prober) handles(address string) bool {
	o := p.servers[address]
	//guard:capability-old-results
	return o.handles && p.isFresh(o.at)
}

// isFresh reports whether a time is within the bound.
func (p *Prober) isFresh(at time.Time) bool {
	return !at.IsZero() && p.config.Clock.Since(at) <= boundIntervals*p.config.Interval
}

// Problem returns why not every kube-apiserver is known to handle conditions, or "" if all are. It contains no times, and returns false
// until the first round has ended.
func (p *Prober) Problem() (problem string, isProbed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.probed:
		return "they have not been probed yet", false
	//guard:capability-old-list
	case !p.isFresh(p.state.ListedAt):
		return "they cannot be listed", true
	//guard:capability-unread-leases
	case !p.isFresh(p.state.AliveAt):
		return "their Leases cannot be read", true
	//guard:capability-no-leases
	case p.state.Alive < 1:
		return "none has renewed its Lease lately", true
	//guard:capability-servers-not-listed
	case len(p.state.Listed) < p.state.Alive:
		return fmt.Sprintf("%d run, and the addresses of %d are known", p.state.Alive, len(p.state.Listed)), true
	}
	var lacking []string
	for _, address := range p.state.Listed {
		//guard:capability-servers-do-not-handle
		if !p.handles(address) {
			lacking = append(lacking, address)
		}
	}
	shown := strings.Join(lacking[:min(len(lacking), maxShown)], ", ")
	if more := len(lacking) - maxShown; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return shown, true
}

// ServeHTTP writes what is known of the servers, one server a line.
func (p *Prober) ServeHTTP(response http.ResponseWriter, _ *http.Request) {
	response.Header().Set("Content-Type", "text/plain; charset=utf-8")
	response.Header().Set("X-Content-Type-Options", "nosniff")
	if problem, _ := p.Problem(); problem != "" {
		_, _ = fmt.Fprintf(response, "not every kube-apiserver is known to handle conditions: %s\n", problem)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, address := range p.state.Listed {
		word, o := "not known", p.servers[address]
		if p.handles(address) {
			word = "handles conditions"
		}
		_, _ = fmt.Fprintf(response, "%s: %s: %s\n", address, word, o.message)
	}
}
