/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rollout

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/innerdoor"
)

// wantedInterval is the least time between rounds because requests arrive with a certificate that is not known.
const wantedInterval = time.Second

// canary is what a probe as the canary has shown of a server.
type canary struct {
	// certificate is the client certificate of the last such probe whose check arrived at this replica and that the sentinel refused, or empty.
	certificate string
	// refusal says why the sentinel did not refuse the last one. It is empty if it did.
	refusal string
}

// String describes it for the details of readiness.
func (c canary) String() string {
	switch {
	case c.refusal != "":
		return "the last probe as " + innerdoor.CanaryUser + " failed: " + c.refusal
	case c.certificate != "":
		return "known"
	}
	return "not known: its checks arrive at another replica of Proviso, if any"
}

// canaryOf returns the nonce of attributes that are of a probe as the canary. It returns false for all other attributes.
func canaryOf(a authorizer.Attributes, namespace string) (nonce string, ok bool) {
	who := a.GetUser()
	//guard:rollout-canaries-other-namespaces
	if who == nil || !a.IsResourceRequest() || a.GetVerb() != "create" || a.GetAPIGroup() != "coordination.k8s.io" || a.GetAPIVersion() != "v1" || a.GetResource() != "leases" ||
		a.GetSubresource() != "" || a.GetName() != "" || a.GetNamespace() != namespace {
		return "", false
	}
	return innerdoor.CanaryNonceOf(who.GetName(), who.GetExtra())
}

// IsCanary reports whether a request is a probe as the canary, of this replica or of another one. The front door must allow it, so that it reaches the
// sentinel. IsCanary records with which certificate the check has arrived.
func (r *Rollout) IsCanary(certificate string, a authorizer.Attributes) bool {
	nonce, ok := canaryOf(a, r.config.Namespace)
	if !ok {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	//guard:rollout-nonces-others
	if seen, isOurs := r.nonces[nonce]; isOurs && len(seen) < 2 && !slices.Contains(seen, certificate) {
		r.nonces[nonce] = append(seen, certificate)
	}
	return true
}

// Known reports whether the kube-apiserver with a client certificate is probed: its sentinel has refused a probe. If no server has
// the certificate, Known asks for a round before its time.
func (r *Rollout) Known(certificate string) bool {
	//guard:rollout-no-certificate
	if certificate == "" {
		return false
	}
	if r.isTied(certificate) {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.cluster.Clock.Now(); now.Sub(r.wantedAt) >= wantedInterval {
		r.wantedAt = now
		r.loop.Want()
	}
	return false
}

// KnowsAll returns false if the certificate of a server cannot be known, as State says. If the checks of a server arrive at another replica, that replica knows it.
func (r *Rollout) KnowsAll() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.uncertified() == ""
}

// isTied reports whether a server is tied to a certificate.
func (r *Rollout) isTied(certificate string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, s := range r.servers {
		if s.canary.certificate == certificate {
			return true
		}
	}
	return false
}

// certify sends a probe as the canary, for a number that the server has loaded. If the sentinel refuses it, its check has come from this server, and ties the server
// to the client certificate, unless the server lacks a text that is active. It does nothing without the front door.
func (r *Rollout) certify(ctx context.Context, address string, number int64) {
	if !r.config.FrontDoor {
		return
	}
	nonce := innerdoor.NewNonce()
	r.mu.Lock()
	r.nonces[nonce] = nil
	r.mu.Unlock()
	refusedWith, found := r.send(ctx, address, number, nonce)
	r.mu.Lock()
	defer r.mu.Unlock()
	certificates := r.nonces[nonce]
	delete(r.nonces, nonce)
	s := r.servers[address]
	if s == nil {
		return
	}
	switch s.canary.refusal = strings.ReplaceAll(found.message, nonce, "…"); {
	case found.outcome == passed:
		//guard:rollout-certificates-servers-let-probes-pass
		s.canary.refusal = "the sentinel does not refuse it"
	//guard:rollout-several-certificates
	case found.outcome == loaded && len(certificates) == 1 && min(number, refusedWith) >= r.entered:
		s.canary.certificate = certificates[0]
	}
}

// uncertified says for which servers the client certificate cannot be known. It returns "" if there is none.
func (r *Rollout) uncertified() string {
	var servers []string
	for _, address := range slices.Sorted(maps.Keys(r.servers)) {
		if s := r.servers[address]; s.canary.refusal != "" && s.canary.certificate == "" {
			servers = append(servers, address)
		}
	}
	if len(servers) == 0 {
		return ""
	}
	return "the front door denies what the policy could deny at " + strings.Join(servers[:min(len(servers), maxCauses)], ", ") + ", because the client certificate is not known"
}
