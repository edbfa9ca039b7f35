/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/metricset"
)

// The states that a policy is counted under.
const (
	stateReady    = "ready"
	stateLastGood = "last_good" // an earlier compilation is in force
	stateBroken   = "broken"    // fails closed
)

var (
	metricSet metricset.Set

	policies = metricSet.GaugeVec("proviso_policy_policies", []string{"state"},
		"Number of policies by state: ready, last_good (does not compile, an earlier compilation is used) or broken (does not compile, fails closed).")
	compileFailures = metricSet.Counter("proviso_policy_compile_failures_total",
		"Number of times that a stored policy could not be compiled.")
	snapshotRevision = metricSet.Gauge("proviso_policy_snapshot_revision",
		"Revision of the snapshot of policies that decides, counted from the start of the process.")
	snapshotTimestamp = metricSet.Gauge("proviso_policy_snapshot_timestamp_seconds",
		"Time at which the snapshot of policies that decides was made, in seconds since the epoch.")
)

const helpOfEvaluations = "Number of times that a decision or the enforcement of conditions evaluated a policy that matches a request, by policy, by the effect of the policy, and by result: true (its condition is true, or it has none), false, residual (it depends on data that is not known yet) or error. A ClusterAuthorizationPolicy has no policy_namespace. Policies beyond a bound are counted together, under the name _other."

const helpOfAudited = "Number of requests that match a policy with the enforcement Audit, by policy, by the effect of the policy, and by result: true (the policy would have applied), false, residual (not known, because the request was refused before its object was read, or the time for policies with the enforcement Audit was over) or error. A ClusterAuthorizationPolicy has no policy_namespace. Policies beyond a bound are counted together, under the name _other."

// evaluations is collected from the counts of the policies, so that it has no series of deleted policies.
var evaluations = metrics.NewDesc("proviso_policy_evaluations_total",
	helpOfEvaluations,
	[]string{"policy_namespace", "policy", "effect", "result"}, nil, metrics.ALPHA, "")

// audited is collected like evaluations.
var audited = metrics.NewDesc("proviso_policy_audited_requests_total",
	helpOfAudited,
	[]string{"policy_namespace", "policy", "effect", "result"}, nil, metrics.ALPHA, "")

// compilations is collected from the compilers.
var compilations = metrics.NewDesc("proviso_policy_compilations_total",
	"Number of times that a condition or a barrier of a policy was compiled, by part: condition or barrier. A part is cached while a component uses it. Barriers are counted if the server writes them.",
	[]string{"part"}, nil, metrics.ALPHA, "")

// notEffective is collected from the latest Controller.
var notEffective = metrics.NewDesc("proviso_policy_not_effective", "Number of policies whose condition Effective is not True, without those with the enforcement Audit.", nil, nil, metrics.ALPHA, "")

// collector collects the metrics that have a Desc.
type collector struct {
	metrics.BaseStableCollector

	// conditions and barriers are the compilers of the latest Checker.
	conditions atomic.Pointer[partial.Compiler]
	barriers   atomic.Pointer[barrier.Compiler]
	// tallies and audits are the counts of the latest Controller.
	tallies, audits atomic.Pointer[engine.Tallies]
	controller      atomic.Pointer[Controller]
}

var collected collector

// DescribeWithStability implements metrics.StableCollector.
func (*collector) DescribeWithStability(ch chan<- *metrics.Desc) {
	ch <- evaluations
	ch <- audited
	ch <- compilations
	ch <- notEffective
}

// CollectWithStability implements metrics.StableCollector.
func (c *collector) CollectWithStability(ch chan<- metrics.Metric) {
	collect(ch, evaluations, c.tallies.Load())
	collect(ch, audited, c.audits.Load())
	if compiler := c.conditions.Load(); compiler != nil {
		ch <- metrics.NewLazyConstMetric(compilations, metrics.CounterValue, float64(compiler.Compiled()), "condition")
	}
	if compiler := c.barriers.Load(); compiler != nil {
		ch <- metrics.NewLazyConstMetric(compilations, metrics.CounterValue, float64(compiler.Compiled()), "barrier")
	}
	if controller := c.controller.Load(); controller != nil {
		ch <- metrics.NewLazyConstMetric(notEffective, metrics.GaugeValue, float64(controller.notEffective()))
	}
}

func collect(ch chan<- metrics.Metric, desc *metrics.Desc, tallies *engine.Tallies) {
	if tallies == nil {
		return
	}
	for _, n := range tallies.Counts() {
		ch <- metrics.NewLazyConstMetric(desc, metrics.CounterValue, float64(n.Value), n.Policy.Namespace, n.Policy.Name, string(n.Effect), n.Result)
	}
}

// RegisterMetrics registers the metrics of the package, once.
var RegisterMetrics = sync.OnceFunc(func() {
	metricSet.Register()
	legacyregistry.CustomMustRegister(&collected)
})

// measure sets the metrics for a snapshot that has been published: the number of policies by state, the counts of
// evaluations, the revision and the time.
func (c *Controller) measure(snapshot *engine.Snapshot) {
	counts := map[string]int{stateReady: 0, stateLastGood: 0, stateBroken: 0}
	c.mu.Lock()
	for _, r := range c.results {
		switch {
		case r.failure == nil:
			counts[stateReady]++
		case r.lastGood:
			counts[stateLastGood]++
		default:
			counts[stateBroken]++
		}
	}
	c.mu.Unlock()
	for state, n := range counts {
		policies.WithLabelValues(state).Set(float64(n))
	}
	collected.tallies.Store(c.builder.Tallies())
	collected.audits.Store(c.builder.Audits())
	collected.controller.Store(c)
	snapshotRevision.Set(float64(snapshot.Revision()))
	snapshotTimestamp.SetToCurrentTime()
}

func (c *Controller) notEffective() (n int) {
	for _, informer := range c.informers {
		for _, object := range informer.GetStore().List() {
			if _, p, _ := policyOf(object); p.spec.Enforcement != policyv1alpha1.PolicyEnforcementAudit && !meta.IsStatusConditionTrue(p.status.Conditions, policyv1alpha1.PolicyEffective) {
				n++
			}
		}
	}
	return n
}
