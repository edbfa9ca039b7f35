/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proviso-authz/proviso/pkg/cluster"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
)

// Result is the result of a round of canaries at one server.
type Result string

// The results. A server calls the inner door if the result is Good or Elsewhere.
const (
	// Good means that all canaries were refused by the inner door, and all checks arrived at this replica.
	Good Result = "good"
	// Elsewhere means that all canaries were refused by the inner door, but other replicas answered some or all checks.
	Elsewhere Result = "elsewhere"
	// Passed means that the server did not refuse a canary: it does not call the inner door.
	Passed Result = "passed"
	// OtherManifest means that the server has another manifest than this replica.
	OtherManifest Result = "other_manifest"
	// Failed means that the server did not answer, or refused a canary for another reason.
	Failed Result = "failed"
	// Cached means that the server reuses answers of the front door.
	Cached Result = "cached"
	// Contradictory means that the checks about the canaries of one server arrived with several certificates.
	Contradictory Result = "contradictory"
)

var results = []Result{Good, Elsewhere, Passed, OtherManifest, Failed, Cached, Contradictory}

// callsInnerDoor reports whether the server was found to call the inner door.
func (r Result) callsInnerDoor() bool { return r == Good || r == Elsewhere }

// canary is one request of a round.
type canary struct {
	verb string
	// times is how often a round sends it.
	times int
	// request has no namespace, which a round adds.
	request innerdoor.CanaryRequest
}

// canaries are the requests of a round. One is sent twice: if the server reuses answers, it asks about it only once.
var canaries = []canary{
	{verb: "create", times: 2, request: innerdoor.CanaryRequest{Method: http.MethodPost, Object: innerdoor.CanaryName}},
	{verb: "update", times: 1, request: innerdoor.CanaryRequest{Method: http.MethodPut, Name: innerdoor.CanaryName, Object: innerdoor.CanaryName}},
	{verb: "delete", times: 1, request: innerdoor.CanaryRequest{Method: http.MethodDelete, Name: innerdoor.CanaryName}},
	{verb: "deletecollection", times: 1, request: innerdoor.CanaryRequest{
		Method: http.MethodDelete, Query: url.Values{"fieldSelector": {"metadata.name=" + innerdoor.CanaryName}},
	}},
}

// round is one round at one server.
type round struct {
	nonce string

	mu sync.Mutex
	// asked counts the checks that have arrived at this replica, by verb.
	asked map[string]int
	// certificates are those with which they arrived, at most two.
	certificates []string
}

func newRound() *round { return &round{nonce: innerdoor.NewNonce(), asked: map[string]int{}} }

// arrived records a check of the front door about a canary of the round.
func (r *round) arrived(verb, certificate string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked[verb]++
	if len(r.certificates) < 2 && !slices.Contains(r.certificates, certificate) {
		r.certificates = append(r.certificates, certificate)
	}
}

// certificate returns the certificate with which all checks arrived, or "" if there is none, or several.
func (r *round) certificate() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.certificates) != 1 {
		return ""
	}
	return r.certificates[0]
}

// outcome is the result of a round, with a text that explains it.
type outcome struct {
	result  Result
	message string
	// answered says that the round failed because of an answer that does not come from the inner door.
	answered bool
	// late says that the round failed because an answer took too long.
	late bool
}

// isLate reports whether a canary was not answered in time, by the client or by kube-apiserver.
func isLate(status *metav1.Status, err error) bool {
	if err != nil {
		timeout, ok := errors.AsType[net.Error](err)
		return ok && timeout.Timeout()
	}
	return status.Reason == metav1.StatusReasonTimeout
}

// weight orders the outcomes of canaries by what they say. Of equal ones the first counts.
func (o outcome) weight() int {
	switch {
	case o.result == "" || o.result.callsInnerDoor():
		return 0 // refused by the inner door
	case o.late:
		return 1
	}
	return news
}

// news is the weight of an answer that does not come from the inner door with the digest of this replica.
const news = 2

// run sends the canaries at the same time, so that a slow server answers all of them within one round. What is news beats an answer that is
// late. After a time, news are not kept waiting for the other answers.
func (p *Prober) run(ctx context.Context, r *round, server string, waited <-chan time.Time) outcome {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		canary int
		outcome
	}
	answers := make(chan answer, len(canaries))
	for i, c := range canaries {
		go func() {
			var o outcome
			for sent := 0; sent < c.times && o.weight() == 0; sent++ {
				o = p.send(ctx, r, server, c)
			}
			answers <- answer{i, o}
		}()
	}
	outcomes, last := make([]outcome, len(canaries)), outcome{}
	//guard:probe-news-beside-silence
	for left := len(canaries); left > 0 && (waited != nil || last.weight() < news); {
		select {
		case a := <-answers:
			outcomes[a.canary], left = a.outcome, left-1
			last = slices.MaxFunc(outcomes, func(a, b outcome) int { return a.weight() - b.weight() })
		case <-waited:
			waited = nil
		}
	}
	return cmp.Or(last, r.tied())
}

// send sends a canary. The outcome is zero if the inner door has refused it with the digest.
func (p *Prober) send(ctx context.Context, r *round, server string, c canary) outcome {
	c.request.Namespace = p.namespace
	status, err := p.cluster.Send(c.request.For(ctx, server, r.nonce))
	if err != nil {
		return outcome{result: Failed, message: cluster.Shortened(fmt.Sprintf("%s: %v", c.verb, err)), answered: errors.Is(err, cluster.ErrNoStatus), late: isLate(nil, err)}
	}
	//guard:probe-canary-passed
	if cluster.Passed(status) {
		return outcome{result: Passed, message: c.verb + ": the server did not call the inner door"}
	}
	switch got, ok := innerdoor.CanaryDigestOf(status, r.nonce); {
	//guard:probe-refusal-something-else
	case !ok:
		return outcome{result: Failed, message: cluster.Shortened(fmt.Sprintf("%s: refused, but not by the inner door: %d %s", c.verb, status.Code, status.Message)), answered: true, late: isLate(status, nil)}
	//guard:probe-another-manifest
	case got != p.digest:
		return outcome{result: OtherManifest, message: cluster.Shortened(fmt.Sprintf("%s: the server has the manifest %s, and this replica has %s", c.verb, got, p.digest))}
	}
	return outcome{}
}

// tied returns the result of a round whose canaries were all refused by the inner door.
func (r *round) tied() outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	missing, again := 0, false
	for _, c := range canaries {
		for sent := range c.times {
			if r.asked[c.verb] <= sent {
				missing, again = missing+1, sent > 0
			}
		}
	}
	switch {
	//guard:probe-several-certificates
	case len(r.certificates) > 1:
		return outcome{result: Contradictory, message: "the checks about its canaries arrived with several client certificates: does one address have several servers?"}
	//guard:probe-reused-answers
	case missing == 1 && again:
		return outcome{result: Cached, message: "the server did not ask again: set cacheAuthorizedRequests to false"}
	//guard:probe-checks-other-replicas-answer
	case missing > 0 || len(r.certificates) == 0 || r.certificates[0] == "":
		return outcome{result: Elsewhere, message: "the server calls the inner door, and another replica of Proviso answers its checks"}
	}
	return outcome{result: Good, message: "the server calls the inner door"}
}
