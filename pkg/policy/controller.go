/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/controller"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
	"github.com/proviso-authz/proviso/pkg/policy/typechecking"
)

// Config is what a Controller needs.
type Config struct {
	// Client reaches the policies of this server.
	Client versioned.Interface
	// Compiler compiles them. It must be the one that also checks them when they are stored.
	Compiler *partial.Compiler
	// Source is where the snapshots go.
	Source *engine.Source
	// Types checks expressions against schemas. If nil, they are not checked against schemas.
	Types *typechecking.Checker
	// Server describes where requests are decided, for the status of policies.
	Server enforcementstatus.Server
	// Events receives an event when a policy stops working, and when one that did not work begins to. It may be nil.
	Events controller.Recorder
	// StalenessBound is how long the store may be out of reach before Allow policies grant
	// nothing. It must be positive.
	StalenessBound time.Duration
	// Store returns the store of a resource.
	Store func(resource string) controller.Store
	// End ends the process with an error. It is called if the store has gone back to an earlier revision.
	End func(cause error)
}

// Controller keeps a Source up to date with the policies that are stored, and writes their status. Run must be called
// once.
type Controller struct {
	*controller.Controller[engine.Key]
	config    Config
	builder   *engine.Builder
	informers [2]cache.SharedIndexInformer // cluster-wide and namespaced policies
	// pace is for statuses that change because other components evaluate other conditions than before.
	pace controller.Pace[engine.Key]
	// auditPace is for statuses that change because of what policies with the enforcement Audit would have decided.
	auditPace controller.Pace[engine.Key]

	mu      sync.Mutex
	dirty   map[engine.Key]bool
	results map[engine.Key]result
	// broken has the policies whose stored status said that they do not work, and has not said since that they do.
	broken map[engine.Key]types.UID

	// pending has the specifications of policies that wait to be compiled and fail closed until then. Only publish uses it.
	pending map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec
}

// result is the outcome of compiling a policy.
type result struct {
	// uid distinguishes the policy from an earlier one with the same name.
	uid  types.UID
	spec *policyv1alpha1.AuthorizationPolicySpec
	// failure is the error because of which the specification does not decide requests, or nil if it does. lastGood is true if
	// an earlier specification decides them instead.
	failure  error
	lastGood bool
	// reads is what the condition depends on, if it compiles.
	reads enforcementstatus.Reads
	// mistakes returns the mistakes that show without any server. Only the first call looks for them, which may take some tenths
	// of a second. It is nil if the specification does not compile.
	mistakes func() []policyv1alpha1.ExpressionWarning
	// counts are the counts of a policy with the enforcement Audit, and nil for other policies.
	counts *engine.AuditCounts
}

// NewController returns a Controller. It returns an error if config lacks a required part.
func NewController(config Config) (c *Controller, err error) {
	if config.Client == nil || config.Compiler == nil || config.Source == nil || config.Store == nil {
		return nil, errors.New("a controller of policies needs a client, a compiler, a source, and the stores")
	}
	c = &Controller{config: config, builder: engine.NewBuilder(), dirty: map[engine.Key]bool{}, results: map[engine.Key]result{}, broken: map[engine.Key]types.UID{}, pending: map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec{}}
	c.pace.Burst = controller.StatusBurst
	c.Controller, err = controller.New(controller.Config[engine.Key]{
		Name: "policies", QueueName: "policy_status", Objects: "policies",
		Staleness: config.Source, StalenessBound: config.StalenessBound,
		StaleMessage:     "Policies may be out of date: Allow policies grant nothing, and barriers stay as they are, until the store can be read",
		RecoveredMessage: "Policies are up to date again",
		End:              config.End, Published: c.isPublished, Publish: c.publish, WriteStatus: c.writeStatus,
	})
	if err != nil {
		return nil, err
	}
	c.informers[0], err = c.Follow(&policyv1alpha1.ClusterAuthorizationPolicy{}, config.Store("clusterauthorizationpolicies"), c.observe)
	if err != nil {
		return nil, err
	}
	c.informers[1], err = c.Follow(&policyv1alpha1.AuthorizationPolicy{}, config.Store("authorizationpolicies"), c.observe)
	return c, err
}

// observe notes that a policy has changed.
func (c *Controller) observe(obj any) {
	key, p, ok := policyOf(obj)
	if !ok {
		utilruntime.HandleError(fmt.Errorf("not a policy: %T", obj))
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dirty[key] = true
	c.noteEffect(key, p)
}

func (c *Controller) isPublished() bool { return c.config.Source.Snapshot() != nil }

// policyOf returns the key and the content of a policy of either kind.
func policyOf(obj any) (engine.Key, *content, bool) {
	switch p := obj.(type) {
	case *policyv1alpha1.ClusterAuthorizationPolicy:
		return engine.Key{Name: p.Name}, &content{meta: &p.ObjectMeta, spec: &p.Spec, status: &p.Status}, true
	case *policyv1alpha1.AuthorizationPolicy:
		return engine.Key{Namespace: p.Namespace, Name: p.Name}, &content{meta: &p.ObjectMeta, spec: &p.Spec, status: &p.Status}, true
	default:
		return engine.Key{}, nil, false
	}
}

// content is what policies of both kinds have. It belongs to the informer's cache and must
// not be changed.
type content struct {
	meta   *metav1.ObjectMeta
	spec   *policyv1alpha1.AuthorizationPolicySpec
	status *policyv1alpha1.AuthorizationPolicyStatus
}

// isOf reports whether r is the result for the current uid and specification of p.
func (r result) isOf(p *content) bool {
	return r.uid == p.meta.UID && apiequality.Semantic.DeepEqual(r.spec, p.spec)
}

// get returns a policy from the cache, or nil.
func (c *Controller) get(key engine.Key) *content {
	informer, name := c.informers[0], key.Name
	if key.Namespace != "" {
		informer, name = c.informers[1], key.Namespace+"/"+key.Name
	}
	obj, exists, err := informer.GetIndexer().GetByKey(name)
	if err != nil || !exists {
		return nil
	}
	_, p, _ := policyOf(obj)
	return p
}

// takeDirty returns the policies that have changed since the last call. Until the first snapshot is published, it returns
// all policies in the caches: the informers have synced, but may still have to report objects.
func (c *Controller) takeDirty() map[engine.Key]bool {
	first := !c.isPublished()
	c.mu.Lock()
	defer c.mu.Unlock()
	dirty := c.dirty
	c.dirty = map[engine.Key]bool{}
	for _, informer := range c.informers {
		if !first {
			break
		}
		for _, obj := range informer.GetStore().List() {
			if key, _, ok := policyOf(obj); ok {
				dirty[key] = true
			}
		}
	}
	return dirty
}

// compile compiles a policy. It returns false if its specification has not changed since it was last compiled. If
// compilation fails, compile returns the last good compilation, or a policy that fails closed if there is none. The last
// good compilation of a deleted policy is never used for a new policy with the same name, nor is the last good compilation of a policy
// whose enforcement has changed: a policy that is to be enforced would decide nothing.
func (c *Controller) compile(ctx context.Context, key engine.Key, p *content) (compiled *engine.Policy, cost uint64, ok bool) {
	c.mu.Lock()
	before, known := c.results[key]
	c.mu.Unlock()
	if known && before.isOf(p) {
		return nil, 0, false
	}
	next := result{uid: p.meta.UID, spec: p.spec}
	compiled, cost, err := compile(key, p.spec, c.config.Compiler)
	if err != nil {
		compileFailures.Inc()
		next.failure = err
		hasGood := known && before.uid == p.meta.UID && (before.failure == nil || before.lastGood)
		compiled = engine.Broken(key, p.spec, err)
		//guard:policy-last-good-compilation-audit
		if last := c.builder.Get(key); last != nil && hasGood && (last.AuditCounts() == nil) == (compiled.AuditCounts() == nil) {
			compiled, next.lastGood = last, true
		}
		klog.FromContext(ctx).Error(err, "Policy cannot be compiled", "policy", klog.KRef(key.Namespace, key.Name), "lastGoodInForce", next.lastGood)
	}
	if next.failure == nil {
		next.reads = readsOf(compiled.Expression())
		next.mistakes = sync.OnceValue(func() []policyv1alpha1.ExpressionWarning {
			return mistakesOf(ctx, c.config.Server, key.Namespace, next.spec, compiled.Expression())
		})
	}
	next.counts = compiled.AuditCounts()
	c.mu.Lock()
	c.results[key] = next
	c.mu.Unlock()
	return compiled, cost, true
}

func (c *Controller) forget(key engine.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.results, key)
	delete(c.broken, key)
	c.pace.Forget(key)
	c.auditPace.Forget(key)
}
