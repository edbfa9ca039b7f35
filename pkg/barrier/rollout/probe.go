/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rollout

import (
	"context"
	"fmt"
	"math"
	"net/http"

	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/cluster"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
)

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
