/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rollout

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/cluster"
)

const (
	// sightInterval is the time between two comparisons of what this replica has received with what is stored, and retryInterval the time
	// before another one if they differ.
	sightInterval = 10 * time.Second
	retryInterval = time.Second
	// maxSightAge is how long a comparison counts.
	maxSightAge = 3 * sightInterval
)

// Stored is what kube-apiserver stores of one kind at one time.
type Stored struct {
	// Version is the resource version of the list.
	Version uint64
	// Objects are the resource versions of all objects, by name.
	Objects map[string]uint64
}

// sight is what the last comparisons have shown. Without them a replica whose watch has ended would take barriers for active that others have
// changed.
type sight struct {
	// at is when the last comparison without a difference began. It is zero before the first one.
	at time.Time
	// problem is why a later one has failed, in words for authors of policies. detail has the name of what differs, or the error.
	problem, detail string
}

// RunSight compares regularly what is received with what is stored, until ctx ends.
func (r *Rollout) RunSight(ctx context.Context) {
	r.cluster.NewLoop(0).Run(ctx, func(ctx context.Context, _ bool) time.Duration {
		if r.Compare(ctx) {
			return sightInterval
		}
		return retryInterval
	})
}

// Compare compares what is received with what is stored, once. It returns false if they differ, as for a moment after a change, or if what is stored
// cannot be read.
func (r *Rollout) Compare(ctx context.Context) bool {
	at := r.cluster.Clock.Now()
	ctx, cancel := context.WithTimeout(ctx, sightInterval)
	defer cancel()
	policies, bindings, err := r.config.Stored(ctx)
	defer r.config.Moved()
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.sight.problem
	r.sight.problem, r.sight.detail = "", ""
	if err != nil {
		r.sight.problem, r.sight.detail = "they cannot be read", cluster.Shortened(err.Error())
	} else if !r.synced {
		r.sight.problem = "they have not been received yet"
	} else if name := cmp.Or(differenceOf(r.policies, policies), differenceOf(r.bindings, bindings)); name != "" {
		r.sight.problem, r.sight.detail = "another state is stored than was received", name
	}
	if r.sight.problem == "" {
		r.sight.at = at
	} else if r.sight.problem != before {
		klog.FromContext(ctx).Info("The barriers that were received are not known to be those that are stored", "message", r.sight.problem, "detail", r.sight.detail)
	}
	r.settleAll()
	return r.sight.problem == ""
}

// differenceOf returns the first name of a barrier or of the sentinel whose object was received and stored in different states, or "". Objects of other
// tools change as often as these like, and do not count. An object that was received after the list was read is newer, and no difference.
func differenceOf[T metav1.Object](received map[string]T, stored Stored) string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(received)), maps.Keys(stored.Objects))
	slices.Sort(names)
	for _, name := range names {
		if name != barrier.SentinelName && !slices.ContainsFunc(barrier.NameSuffixes(), func(suffix string) bool { return strings.HasSuffix(name, suffix) }) {
			continue
		}
		version, isStored := stored.Objects[name]
		switch object, ok := received[name]; {
		//guard:rollout-sight-missed
		case isStored && (!ok || barrier.VersionOf(object) < version):
			return name
		//guard:rollout-sight-gone
		case !isStored && ok && barrier.VersionOf(object) <= stored.Version:
			return name
		}
	}
	return ""
}

// Blind returns why nothing is known about the barriers that kube-apiserver stores, or "".
func (r *Rollout) Blind() string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.blind()
}

// blind returns why nothing is known about what is stored, or "".
func (r *Rollout) blind() string {
	switch {
	case r.sight.at.IsZero() && r.sight.problem == "":
		return "the ValidatingAdmissionPolicies have not been compared yet"
	case r.sight.at.IsZero(), r.cluster.Clock.Since(r.sight.at) > maxSightAge:
		return "the ValidatingAdmissionPolicies that kube-apiserver stores are not known: " + cmp.Or(r.sight.problem, "they were not compared in time")
	}
	return ""
}
