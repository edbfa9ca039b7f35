/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/cluster"
)

const (
	// firstPause is the time between rounds after a new number. kube-apiserver loads barriers once a second. After quickRounds it doubles up to the interval.
	firstPause  = 300 * time.Millisecond
	quickRounds = 15
	// LeftFor is for how long a server counts after it has left the list, or has renewed its Lease. A server that was stalled may come
	// back with an old state.
	LeftFor = 5 * time.Minute
	// maxMarks bounds the numbers of the sentinel that are remembered.
	maxMarks = 64
	// maxTexts bounds the texts of one barrier that servers may have. With more, none is active.
	maxTexts = 16
)

// Compiled is a policy as it is compiled to a barrier.
type Compiled struct {
	// Policy and Binding are nil if no rule can be translated.
	Policy  *admissionregistrationv1.ValidatingAdmissionPolicy
	Binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding
	// Sees reports whether the barrier evaluates the policy for a request of one of its subjects.
	Sees func(authorizer.Attributes) bool
}

// Config configures a Rollout.
type Config struct {
	// Namespace has the Leases of the probes: the namespace of Proviso.
	Namespace string
	// Compile compiles a Deny policy as the replica does that writes barriers. If it returns an error, the barrier stays as it was.
	Compile func(engine.Key, *policyv1alpha1.AuthorizationPolicySpec) (*Compiled, error)
	// Cluster has the kube-apiservers.
	Cluster *cluster.Cluster
	// Number reads the number of the binding of the sentinel that is stored now.
	Number func(context.Context) (int64, error)
	// Stored reads what kube-apiserver stores of both kinds now.
	Stored func(context.Context) (policies, bindings Stored, err error)
	// FrontDoor says that the front door is enabled. Servers are then probed as the canary, too, which ties them to their client certificates.
	FrontDoor bool
	// Moved is called after the state of a barrier may have changed: after each round, after a comparison, and after an object has changed. It must not block.
	Moved func()
}

// Rollout knows which barriers are active. Its methods may be called concurrently, except for Round.
type Rollout struct {
	config  Config
	cluster *cluster.Cluster
	loop    *cluster.Loop
	// measured are the servers that metrics have. Only Round uses it.
	measured map[string]bool

	mu sync.RWMutex
	// entries are the Deny policies. byID has them by the ID of their condition.
	entries map[engine.Key]*entry
	byID    map[string]*entry
	// policies and bindings are the stored objects, by name.
	policies map[string]*admissionregistrationv1.ValidatingAdmissionPolicy
	bindings map[string]*admissionregistrationv1.ValidatingAdmissionPolicyBinding
	// sentinel has the numbers of the sentinel that have been seen, in ascending order.
	sentinel []mark
	// numbers are the numbers of the binding of the sentinel that have been seen, in ascending order.
	numbers []int64
	// last is the number of the last mark, or 0. entered is the greatest number that a text that is active needs.
	last, entered int64
	servers       map[string]*server
	// nonces has the nonces of the probes as the canary that are running, with the certificates with which their checks have arrived, at most two.
	nonces map[string][]string
	// wantedAt is when Known has asked for a round.
	wantedAt time.Time
	// cause is why servers that are listed may not be all, or empty. It changes with each round.
	cause string
	// synced says that all objects have been received once.
	synced bool
	sight  sight
}

// New returns a Rollout that knows nothing. It returns an error if config is incomplete.
func New(config Config) (*Rollout, error) {
	if config.Namespace == "" || config.Compile == nil || config.Cluster == nil || config.Number == nil || config.Stored == nil || config.Moved == nil {
		return nil, errors.New("the rollout of barriers needs Namespace, Compile, Cluster, Number, Stored and Moved")
	}
	return &Rollout{
		config: config, cluster: config.Cluster, loop: config.Cluster.NewLoop(0), cause: causeNotListed,
		entries: map[engine.Key]*entry{}, byID: map[string]*entry{}, servers: map[string]*server{}, nonces: map[string][]string{},
		policies: map[string]*admissionregistrationv1.ValidatingAdmissionPolicy{}, bindings: map[string]*admissionregistrationv1.ValidatingAdmissionPolicyBinding{},
	}, nil
}

// Covers reports whether a barrier that is active refuses a request if the policy denies it. The policy is the one from which the
// condition with the ID comes. It presumes that kube-apiserver serves the request itself, and that barriers do not leave out the user.
func (r *Rollout) Covers(conditionID string, a authorizer.Attributes) bool {
	return r.holds(conditionID, func(e *entry) bool {
		//guard:rollout-sight-lost
		return e.covers(a) && r.blind() == ""
	})
}

// Audits reports whether the barrier of a policy in Audit evaluates the policy for a request, on the terms of Covers. kube-apiserver may not have
// loaded the barrier yet.
func (r *Rollout) Audits(conditionID string, a authorizer.Attributes) bool {
	return r.holds(conditionID, func(e *entry) bool {
		//guard:rollout-enforced-barrier-sees-not-audited
		return e.wanted != nil && e.wanted.exists() && !e.wanted.refuses() && e.wanted.sees(a)
	})
}

// holds reports whether something holds of the policy from which a condition comes. It does not if that panics.
func (r *Rollout) holds(conditionID string, of func(*entry) bool) (holds bool) {
	defer func() {
		if panicked := recover(); panicked != nil {
			klog.Background().Error(errPanicked, "A barrier covers no requests", "condition", conditionID, "panic", panicked)
			//guard:rollout-panics
			holds = false
		}
	}()
	r.mu.RLock()
	defer r.mu.RUnlock()
	e := r.byID[conditionID]
	return e != nil && of(e)
}

var errPanicked = errors.New("the barrier of a policy panicked")

// SetPolicy records a policy that is stored. A policy with another effect than Deny has no barrier.
func (r *Rollout) SetPolicy(key engine.Key, spec *policyv1alpha1.AuthorizationPolicySpec) {
	if spec.Effect != policyv1alpha1.PolicyEffectDeny {
		r.DeletePolicy(key)
		return
	}
	compiled, err := r.compile(key, spec)
	defer r.config.Moved()
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[key]
	if e == nil {
		e = &entry{key: key}
		r.entries[key], r.byID[key.ConditionID()] = e, e
	}
	if e.broken = err != nil; e.broken {
		return
	}
	e.want(&text{Compiled: compiled, subjects: engine.SubjectsOf(spec)})
	e.receive(r.policies, r.bindings)
	r.settle(e)
}

// compile is Config.Compile, and returns an error if it panics.
func (r *Rollout) compile(key engine.Key, spec *policyv1alpha1.AuthorizationPolicySpec) (compiled *Compiled, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			compiled, err = nil, fmt.Errorf("%w: %v", errPanicked, panicked)
		}
	}()
	return r.config.Compile(key, spec)
}

// DeletePolicy records that a policy is not stored any more.
func (r *Rollout) DeletePolicy(key engine.Key) {
	defer r.config.Moved()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.entries, key)
	delete(r.byID, key.ConditionID())
}

// change changes a stored object.
func (r *Rollout) change(name string, change func()) {
	defer r.config.Moved()
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	if name == barrier.SentinelName {
		r.see()
		r.mark()
		r.settleAll()
		return
	}
	for _, e := range r.entries {
		if e.name() == name {
			e.receive(r.policies, r.bindings)
			r.settle(e)
		}
	}
}

// SetSynced records that all stored objects have been received. Before, no barrier is active.
func (r *Rollout) SetSynced() {
	defer r.config.Moved()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.synced = true
	r.settleAll()
}

// see records the number of the binding of the sentinel: the one with which a Lease is refused.
func (r *Rollout) see() {
	number, ok := NumberOf(r.bindings[barrier.SentinelName])
	if !ok || len(r.numbers) > 0 && r.numbers[len(r.numbers)-1] == number {
		return
	}
	r.numbers = slices.DeleteFunc(r.numbers, func(known int64) bool { return known >= number })
	r.numbers = append(r.numbers, number)
	r.numbers = r.numbers[max(0, len(r.numbers)-maxMarks):]
}

// mark records the number of the sentinel, if both objects are stored as they must be. Otherwise the last number stays: probes tell
// whether servers still have it.
func (r *Rollout) mark() {
	policy, binding := r.policies[barrier.SentinelName], r.bindings[barrier.SentinelName]
	if policy == nil || binding == nil {
		return
	}
	number, ok := barrier.NumberOf(policy)
	if !ok {
		return
	}
	wantedPolicy, wantedBinding := barrier.Sentinel(r.config.Namespace, number)
	extent, ok := barrier.ExtentOf(policy)
	// In the history before a restore, greater resource versions were stored than now.
	r.sentinel = slices.DeleteFunc(r.sentinel, func(known mark) bool {
		//guard:rollout-versions-before-restore
		return known.extent.Policies > extent.Policies || known.extent.Bindings > extent.Bindings
	})
	//guard:rollout-sentinel-says-too-much
	if !ok || !extent.IsBefore(policy, binding) || !barrier.EqualPolicies(policy, wantedPolicy) || !barrier.EqualBindings(binding, wantedBinding) {
		return
	}
	//guard:rollout-lower-number
	if number < r.last {
		// The store of kube-apiserver was restored, or the sentinel was forged. Earlier answers of servers are about another history.
		for _, s := range r.servers {
			s.shown = 0
		}
		for _, e := range r.entries {
			e.active = nil
		}
		r.entered = 0
	}
	// A mark with the same number or a greater one says nothing any more.
	r.sentinel = slices.DeleteFunc(r.sentinel, func(known mark) bool { return known.number >= number })
	r.sentinel = append(r.sentinel, mark{number, extent})
	r.sentinel = r.sentinel[max(0, len(r.sentinel)-maxMarks):]
	if number != r.last {
		r.last = number
		r.loop.Want()
	}
}

func (r *Rollout) settleAll() {
	for _, e := range r.entries {
		r.settle(e)
	}
}

// settle has the wanted text of an entry come into force if all servers have loaded it.
func (r *Rollout) settle(e *entry) {
	if e.isActive() {
		return
	}
	if message, _ := r.obstacle(e); message == "" {
		e.active = []*text{e.wanted}
		r.entered = max(r.entered, r.after(e))
	}
}

// Follow has the objects of informers recorded, and waits until all that are stored have been. The informers are of both kinds of
// policies, ValidatingAdmissionPolicies and their bindings. They must run.
func (r *Rollout) Follow(ctx context.Context, informers ...cache.SharedIndexInformer) error {
	var synced []cache.InformerSynced
	for _, informer := range informers {
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: r.set, UpdateFunc: func(_, object any) { r.set(object) }, DeleteFunc: r.remove,
		})
		if err != nil {
			return fmt.Errorf("informer of the rollout of barriers: %w", err)
		}
		synced = append(synced, registration.HasSynced)
	}
	if cache.WaitForCacheSync(ctx.Done(), synced...) {
		r.SetSynced()
	}
	return nil
}

func (r *Rollout) set(object any) {
	switch o := object.(type) {
	case *policyv1alpha1.ClusterAuthorizationPolicy:
		r.SetPolicy(engine.Key{Name: o.Name}, &o.Spec)
	case *policyv1alpha1.AuthorizationPolicy:
		r.SetPolicy(engine.Key{Namespace: o.Namespace, Name: o.Name}, &o.Spec)
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		r.change(o.Name, func() { r.policies[o.Name] = o })
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		r.change(o.Name, func() { r.bindings[o.Name] = o })
	}
}

func (r *Rollout) remove(object any) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	switch o := object.(type) {
	case *policyv1alpha1.ClusterAuthorizationPolicy:
		r.DeletePolicy(engine.Key{Name: o.Name})
	case *policyv1alpha1.AuthorizationPolicy:
		r.DeletePolicy(engine.Key{Namespace: o.Namespace, Name: o.Name})
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		r.change(o.Name, func() { delete(r.policies, o.Name) })
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		r.change(o.Name, func() { delete(r.bindings, o.Name) })
	}
}
