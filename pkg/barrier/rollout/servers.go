/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rollout

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/cluster"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
)

const (
	// maxNumbers bounds how many numbers one server is probed for in a round.
	maxNumbers = 16
	// maxPassed is how often in a row a server may let all probes pass while it may be behind all numbers that are probed.
	maxPassed = 3

	causeNotListed = "the kube-apiservers cannot be listed"
)

// server is a kube-apiserver.
type server struct {
	// shown is the greatest number of the sentinel that the server has shown, or 0.
	shown int64
	// passed counts the rounds in a row in which the server let all probes pass.
	passed int
	// listedAt is when the server was listed last.
	listedAt time.Time
	// last is the result of the last round.
	last result
	// canary is what the last probe as the canary has shown.
	canary canary
}

// result is the result of a round at one server.
type result struct {
	outcome outcome
	// message says why the server has not shown the last number.
	message string
}

// Run probes all servers again and again until ctx ends: quickly while a server has not shown the last number, and otherwise at
// intervals.
func (r *Rollout) Run(ctx context.Context) {
	registerMetrics()
	pause, quick := firstPause, 0
	r.loop.Run(ctx, func(ctx context.Context, isWanted bool) time.Duration {
		if isWanted {
			pause, quick = firstPause, quickRounds
		}
		r.Round(ctx)
		r.config.Moved()
		switch {
		case !r.isBehind():
			return r.cluster.Interval
		case quick > 0:
			quick--
		default:
			pause *= 2
		}
		pause = min(pause, r.cluster.Interval)
		return pause
	})
}

// isBehind reports whether a server has not shown the last number.
func (r *Rollout) isBehind() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, s := range r.servers {
		if s.shown < r.last {
			return true
		}
	}
	return false
}

// Round probes all servers once, each for at most an interval. The list is read again after a second, since rounds may follow each other more
// quickly.
func (r *Rollout) Round(ctx context.Context) {
	r.cluster.Round(ctx, r, r.cluster.Interval, time.Second)
	r.measure()
}

// Servers implements cluster.Canary. It returns the servers that count.
func (r *Rollout) Servers() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, state := r.cluster.Clock.Now(), r.cluster.State()
	cluster.Follow(state, r.servers, func(s *server) bool { return now.Sub(s.listedAt) > LeftFor })
	for _, address := range state.Addresses() {
		r.servers[address].listedAt = state.ListedAt
	}
	//guard:rollout-servers-may-be-missing
	r.cause = r.cluster.Gap(state, LeftFor)
	switch listed := len(state.Listed); {
	case listed == 0:
		r.cause = causeNotListed
	case listed > cluster.MaxServers:
		r.cause = cmp.Or(r.cause, fmt.Sprintf("there are more than %d kube-apiservers", cluster.MaxServers))
	}
	r.settleAll()
	return slices.Sorted(maps.Keys(r.servers))
}

// numbersFor returns the numbers for which a server is probed, in ascending order: one of them is loaded, unless the server has lost
// the sentinel or is further behind. isAll says that it is not further behind.
func (r *Rollout) numbersFor(address string) (numbers []int64, isAll bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s := r.servers[address]
	if s == nil {
		return nil, false
	}
	if s.shown > 0 {
		numbers = append(numbers, s.shown)
	}
	for _, number := range r.numbers {
		if number > s.shown {
			numbers = append(numbers, number)
		}
	}
	if len(numbers) <= maxNumbers {
		return numbers, true
	}
	return append(numbers[:1:1], numbers[len(numbers)-maxNumbers+1:]...), false
}

// Probe implements cluster.Canary. It probes a server for the numbers, until it refuses one. A server takes up numbers in ascending order, and so
// do the probes: a server that changes meanwhile refuses one of them, unless its number is greater than all.
func (r *Rollout) Probe(ctx context.Context, address string) {
	numbers, isAll := r.numbersFor(address)
	if len(numbers) == 0 {
		return
	}
	for _, number := range numbers {
		refusedWith, found := r.send(ctx, address, number, "")
		if found.outcome != passed {
			if found.outcome == loaded {
				r.certify(ctx, address, number)
			}
			//guard:rollout-number-policy
			r.ended(ctx, address, min(number, refusedWith), found)
			return
		}
	}
	stored, err := r.config.Number(ctx)
	found := result{passed, "it does not refuse the probe"}
	switch {
	case err != nil:
		//guard:rollout-cannot-compared
		found = result{failed, cluster.Shortened("the number of the sentinel cannot be read: " + err.Error())}
	//guard:rollout-replica-behind
	case stored > numbers[len(numbers)-1]: // the server may be ahead of this replica
		if refusedWith, ahead := r.send(ctx, address, stored, ""); ahead.outcome != passed {
			r.ended(ctx, address, min(stored, refusedWith), ahead)
			return
		}
		found = result{behind, "it has not loaded one of the last numbers"}
	case !isAll:
		found = result{behind, "it has not loaded one of the last numbers"}
	}
	r.ended(ctx, address, 0, found)
}

// ended records the result of a round at a server.
func (r *Rollout) ended(ctx context.Context, address string, number int64, found result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.servers[address]
	if s == nil {
		return
	}
	before := *s
	s.passed++
	switch {
	case found.outcome == failed:
		s.passed = before.passed
	case found.outcome == loaded:
		s.passed = 0
		//guard:rollout-server-has-gone-back
		if number < s.shown {
			r.end(ctx, address, fmt.Sprintf("it has shown the number %d, and %d before", number, s.shown))
		}
		if s.shown = number; number < r.last {
			found = result{behind, "it has not loaded the newest version yet"}
		}
	case found.outcome == passed || s.passed >= maxPassed:
		found.outcome = passed
		//guard:rollout-server-lets-probes-pass
		if s.shown = 0; before.shown > 0 || before.last.outcome != passed {
			r.end(ctx, address, found.message)
		}
	}
	probes.WithLabelValues(string(found.outcome)).Inc()
	if found != before.last {
		klog.FromContext(ctx).Info("Probed which barriers are loaded", "server", address, "result", found.outcome, "before", before.last.outcome, "message", found.message)
	}
	s.last = found
	r.settleAll()
}

// end ends what is active: a server does not enforce it.
func (r *Rollout) end(ctx context.Context, address, message string) {
	for _, e := range r.entries {
		if len(e.active) > 0 {
			klog.FromContext(ctx).Info("No barrier is active any more", "server", address, "message", message)
			break
		}
	}
	for _, e := range r.entries {
		e.active = nil
	}
	r.entered = 0
}

// outcome is the outcome of a probe.
type outcome string

const (
	// loaded means that the sentinel refused the probe.
	loaded outcome = "loaded"
	// behind means that the server has not loaded the last number yet.
	behind outcome = "behind"
	// passed means that the server did not refuse the probe: it enforces no barrier.
	passed outcome = "passed"
	// failed means that the server did not answer, or refused the probe for another reason.
	failed outcome = "failed"
)

var outcomes = []outcome{loaded, behind, passed, failed}

// leaseName is the name of the Lease of the probes. It is never stored.
const leaseName = "proviso-barriers-probe"

// send sends a probe for a number. If the sentinel refuses it, refusedWith is the number in the message.
func (r *Rollout) send(ctx context.Context, server string, number int64, nonce string) (refusedWith int64, found result) {
	status, err := r.cluster.Send(newProbe(ctx, server, r.config.Namespace, number, nonce))
	if err != nil {
		return 0, result{failed, cluster.Shortened(err.Error())}
	}
	//guard:rollout-probes-passed
	if cluster.Passed(status) {
		return math.MaxInt64, result{passed, ""}
	}
	//guard:rollout-refusals-others
	if refusedWith, ok := barrier.NumberIn(status.Message); ok && status.Code == http.StatusForbidden {
		return refusedWith, result{loaded, ""}
	}
	return 0, result{failed, cluster.Shortened(fmt.Sprintf("refused, but not by the sentinel: %d %s", status.Code, status.Message))}
}

// newProbe returns a dry run of the creation of a Lease. With a nonce it is sent as the canary.
func newProbe(ctx context.Context, server, namespace string, number int64, nonce string) (*http.Request, error) {
	lease := fmt.Sprintf(`{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": %q, "namespace": %q, "labels": {%q: "%d"}}}`, leaseName, namespace, barrier.RolloutLabel, number)
	request, err := innerdoor.NewDryRun(ctx, http.MethodPost, server, "apis/coordination.k8s.io/v1/namespaces/"+namespace+"/leases", nil, lease)
	if err == nil && nonce != "" {
		innerdoor.AsCanary(request, nonce)
	}
	return request, err
}
