/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/pkg/innerdoor"
)

// maxShown bounds how many servers a problem names.
const maxShown = 3

// conditionsCanary would update a ConfigMap, if the front door did not deny it.
var conditionsCanary = innerdoor.CanaryRequest{
	Method: http.MethodPut, Namespace: innerdoor.ConditionsCanaryNamespace, Name: innerdoor.ConditionsCanaryName, Object: innerdoor.ConditionsCanaryName,
}

// conditionsWords are the words of Problem, which speaks of the kube-apiservers as they.
var conditionsWords = words{"they cannot be listed", "their Leases cannot be read", "none has renewed its Lease lately", "%d run, and the addresses of %d are known"}

// Conditions finds out which kube-apiservers handle conditional decisions. The status of policies then says that kube-apiserver enforces conditions
// itself. The canary is a request that the front door denies. The reason says whether the review of the request had the options for conditions, and comes
// back in the answer of kube-apiserver. It does not matter which replica has answered the review, and which client certificates the kube-apiservers have.
// Its methods may be called concurrently, except for Round.
type Conditions struct {
	cluster *Cluster

	mu    sync.Mutex
	state State
	// servers has the last outcome of each server.
	servers map[string]handling
	// probed says that a round has ended.
	probed bool
}

// handling is the outcome of the last canary at a server, which was sent at a time.
type handling struct {
	handles bool
	message string
	at      time.Time
}

// NewConditions returns Conditions that know nothing yet.
func NewConditions(c *Cluster) *Conditions {
	return &Conditions{cluster: c, servers: map[string]handling{}}
}

// Run probes all servers again and again until ctx ends.
func (p *Conditions) Run(ctx context.Context) {
	p.cluster.NewLoop(0).Run(ctx, func(ctx context.Context, _ bool) time.Duration {
		p.Round(ctx)
		return p.cluster.Early()
	})
}

// Round probes all servers once, for at most an interval.
func (p *Conditions) Round(ctx context.Context) {
	p.cluster.Round(ctx, p, p.cluster.Interval, 0)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probed = true
}

// Servers implements Canary.
func (p *Conditions) Servers() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = p.cluster.State()
	maps.DeleteFunc(p.servers, func(address string, _ handling) bool { return !slices.Contains(p.state.Listed, address) })
	return p.state.Addresses()
}

// Probe implements Canary.
func (p *Conditions) Probe(ctx context.Context, address string) {
	result := handling{at: p.cluster.Clock.Now()}
	result.handles, result.message = p.send(ctx, address)
	p.mu.Lock()
	defer p.mu.Unlock()
	if before := p.servers[address]; before.handles != result.handles || before.message != result.message {
		klog.FromContext(ctx).Info("Probed whether a kube-apiserver handles conditions", "server", address, "handles", result.handles, "message", result.message)
	}
	p.servers[address] = result
}

// send sends a canary to a server. The message explains the result.
func (p *Conditions) send(ctx context.Context, address string) (handles bool, message string) {
	nonce := innerdoor.NewNonce()
	status, err := p.cluster.Send(conditionsCanary.For(ctx, address, nonce))
	if err != nil {
		return false, Shortened(err.Error())
	}
	switch handles, isAnswer := innerdoor.ConditionsCanaryAnswer(status, nonce); {
	case handles:
		return true, "the server handles conditions"
	case isAnswer:
		return false, "the server sends reviews without the options for conditions"
	case Passed(status):
		return false, "the server allowed the canary: it does not ask the front door"
	}
	// The nonce differs each time, and would make each message a new one.
	return false, Shortened(fmt.Sprintf("refused, but not by the front door: %d %s", status.Code, strings.ReplaceAll(status.Message, nonce, "…")))
}

// Handles reports whether the kube-apiserver with an address is known to handle conditions.
func (p *Conditions) Handles(address string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.handles(address)
}

func (p *Conditions) handles(address string) bool {
	s := p.servers[address]
	//guard:conditions-old-results
	return s.handles && p.cluster.IsFresh(s.at)
}

// Problem returns why not every kube-apiserver is known to handle conditions, or "" if all are. It contains no times, and returns false
// until the first round has ended.
func (p *Conditions) Problem() (problem string, isProbed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.probed {
		return "they have not been probed yet", false
	}
	//guard:conditions-servers-may-be-missing
	if gap := p.cluster.gap(p.state, AliveFor, conditionsWords); gap != "" {
		return gap, true
	}
	var lacking []string
	for _, address := range p.state.Listed {
		//guard:conditions-servers-do-not-handle
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
func (p *Conditions) ServeHTTP(response http.ResponseWriter, _ *http.Request) {
	WriteText(response, p.write)
}

func (p *Conditions) write(response io.Writer) {
	if problem, _ := p.Problem(); problem != "" {
		_, _ = fmt.Fprintf(response, "not every kube-apiserver is known to handle conditions: %s\n", problem)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, address := range p.state.Listed {
		word := "not known"
		if p.handles(address) {
			word = "handles conditions"
		}
		_, _ = fmt.Fprintf(response, "%s: %s: %s\n", address, word, p.servers[address].message)
	}
}
