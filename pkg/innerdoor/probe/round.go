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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/kubeapiservers"
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
	// request has no namespace, which a round adds.
	request innerdoor.CanaryRequest
}

// canaries are the requests of a round. The first two are the same: if the server reuses answers, it asks about one of them
// only.
var canaries = []canary{
	{verb: "create", request: innerdoor.CanaryRequest{Method: http.MethodPost, Object: innerdoor.CanaryName}},
	{verb: "create", request: innerdoor.CanaryRequest{Method: http.MethodPost, Object: innerdoor.CanaryName}},
	{verb: "update", request: innerdoor.CanaryRequest{Method: http.MethodPut, Name: innerdoor.CanaryName, Object: innerdoor.CanaryName}},
	{verb: "delete", request: innerdoor.CanaryRequest{Method: http.MethodDelete, Name: innerdoor.CanaryName}},
	{verb: "deletecollection", request: innerdoor.CanaryRequest{
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

// run sends the canaries at the same time, so that a slow server answers all of them in one interval, except for equal ones, which are sent
// one after the other. What is news beats an answer that is late.
func (r *round) run(ctx context.Context, client *http.Client, server, namespace, digest string) outcome {
	var group sync.WaitGroup
	outcomes := make([]outcome, len(canaries))
	for i := range canaries {
		if i > 0 && canaries[i].verb == canaries[i-1].verb {
			continue // it follows the equal one
		}
		group.Go(func() {
			for ; ; i++ {
				outcomes[i] = r.send(ctx, client, server, namespace, digest, canaries[i])
				if i+1 == len(canaries) || canaries[i+1].verb != canaries[i].verb {
					return
				}
			}
		})
	}
	group.Wait()
	return cmp.Or(slices.MaxFunc(outcomes, func(a, b outcome) int { return a.weight() - b.weight() }), r.tied())
}

// weight orders the outcomes of canaries by what they say. Of equal ones the first counts.
func (o outcome) weight() int {
	switch {
	case o.result == "":
		return 0 // refused by the inner door
	case o.late:
		return 1
	}
	return 2
}

// send sends a canary. The outcome is zero if the inner door has refused it with the digest.
func (r *round) send(ctx context.Context, client *http.Client, server, namespace, digest string, c canary) outcome {
	c.request.Namespace = namespace
	request, err := c.request.For(ctx, server, r.nonce)
	if err != nil {
		return outcome{result: Failed, message: kubeapiservers.Shortened(fmt.Sprintf("%s: %v", c.verb, err))}
	}
	status, err := kubeapiservers.Send(client, request)
	if err != nil {
		return outcome{result: Failed, message: kubeapiservers.Shortened(fmt.Sprintf("%s: %v", c.verb, err)), answered: errors.Is(err, kubeapiservers.ErrNoStatus), late: isLate(nil, err)}
	}
	if kubeapiservers.Passed(status) {
		return outcome{result: Passed, message: c.verb + ": the server did not call the inner door"}
	}
	switch got, ok := innerdoor.CanaryDigestOf(status, r.nonce); {
	case !ok:
		return outcome{result: Failed, message: kubeapiservers.Shortened(fmt.Sprintf("%s: refused, but not by the inner door: %d %s", c.verb, status.Code, status.Message)), answered: true, late: isLate(status, nil)}
	case got != digest:
		return outcome{result: OtherManifest, message: kubeapiservers.Shortened(fmt.Sprintf("%s: the server has the manifest %s, and this replica has %s", c.verb, got, digest))}
	}
	return outcome{}
}

// tied returns the result of a round whose canaries were all refused by the inner door.
func (r *round) tied() outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	wanted, missing := map[string]int{}, []string{}
	for _, c := range canaries {
		if wanted[c.verb]++; r.asked[c.verb] < wanted[c.verb] {
			missing = append(missing, c.verb)
		}
	}
	switch {
	case len(r.certificates) > 1:
		return outcome{result: Contradictory, message: "the checks about its canaries arrived with several client certificates: does one address have several servers?"}
	case len(missing) == 1 && wanted[missing[0]] > 1:
		return outcome{result: Cached, message: "the server did not ask again: set cacheAuthorizedRequests to false"}
	case len(missing) > 0 || len(r.certificates) == 0 || r.certificates[0] == "":
		return outcome{result: Elsewhere, message: "the server calls the inner door, and another replica of Proviso answers its checks"}
	}
	return outcome{result: Good, message: "the server calls the inner door"}
}
