/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/barrier/barriercontroller"
	"github.com/proviso-authz/proviso/pkg/barrier/rollout"
	"github.com/proviso-authz/proviso/pkg/controller"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
	"github.com/proviso-authz/proviso/pkg/policy"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
	"github.com/proviso-authz/proviso/pkg/registration"
)

// BarriersConfig configures the barriers that the server writes to kube-apiserver.
type BarriersConfig struct {
	// Namespace is the namespace of Proviso, which has the Lease of the replica that writes.
	Namespace string
	// Exempt are the users and groups whose requests no barrier refuses.
	Exempt manifest.Identities
}

const (
	// barrierClientQPS and barrierClientBurst are above the rate of writes that the controller allows itself.
	barrierClientQPS, barrierClientBurst = 500, 1000
	// barrierTimeout bounds one request to kube-apiserver.
	barrierTimeout = 10 * time.Second
	// barrierStatusInterval is the least time between two comparisons of all statuses because barriers have changed.
	barrierStatusInterval = 200 * time.Millisecond
	// rolloutInterval is the least time between two looks at the rollout of all barriers.
	rolloutInterval = 200 * time.Millisecond
)

// barriers writes barriers, and says what they enforce. It is nil if the server writes none.
type barriers struct {
	config   BarriersConfig
	compiler *barrier.Compiler
	services *registration.Services
	// frontDoor says that the front door is enabled. It leaves conditions to the barriers that are active.
	frontDoor bool
	// rollout knows which barriers the kube-apiservers have loaded.
	rollout    *rollout.Rollout
	controller *barriercontroller.Controller
	// changed says that statuses are to be compared, and moved that the rollout may have.
	changed, moved signal
	// own observes which server kube-apiserver calls for the resources of this server.
	own *registration.Watcher
	// registered has the last known versions of other servers.
	registered atomic.Pointer[[]schema.GroupVersion]
}

var errBarriers = errors.New("barriers need a client of kube-apiserver")

// newBarriers returns barriers without a controller.
func (c CompletedConfig) newBarriers(others *otherServers) (*barriers, error) {
	if c.extra.Barriers == nil {
		return nil, nil
	}
	if c.kubeAPIServer == nil || c.generic.SharedInformerFactory == nil {
		return nil, errBarriers
	}
	compiler, err := barrier.NewCompiler(barrier.Config{Policies: c.policies, Exempt: c.extra.Barriers.Exempt})
	if err != nil {
		return nil, fmt.Errorf("compiler of barriers: %w", err)
	}
	moved := newSignal()
	loaded, err := newRollout(*c.extra.Barriers, c.extra.FrontDoor != nil, compiler, c.kubeAPIServer, others.cluster, moved.set)
	if err != nil {
		return nil, err
	}
	return &barriers{config: *c.extra.Barriers, compiler: compiler, services: others.services, own: others.own, frontDoor: c.extra.FrontDoor != nil, rollout: loaded, changed: newSignal(), moved: moved}, nil
}

// run adds the controller that writes barriers while the server runs. It does nothing without barriers. recheck compares the statuses of
// all policies. mappings is nil if the server stores none.
func (b *barriers) run(c CompletedConfig, generic *genericapiserver.GenericAPIServer, client versioned.Interface, policies, mappings controller.Stored, recheck func()) error {
	if b == nil {
		return nil
	}
	barriercontroller.RegisterMetrics()
	clientConfig := restclient.CopyConfig(c.kubeAPIServer)
	clientConfig.QPS, clientConfig.Burst, clientConfig.Timeout = barrierClientQPS, barrierClientBurst, barrierTimeout
	kubeAPIServer, err := kubernetes.NewForConfig(clientConfig)
	if err != nil {
		return fmt.Errorf("client of barriers: %w", err)
	}
	config := barriercontroller.Config{
		Client: client, KubeAPIServer: kubeAPIServer, Informers: c.generic.SharedInformerFactory, Policies: policies, Compile: b.compiler.Compile,
		Namespace: b.config.Namespace, Changed: b.changed.set,
	}
	if mappings != nil {
		config.Mappings, config.CompileMapping = mappings, b.compiler.CompileMapping
	}
	if b.controller, err = barriercontroller.New(config); err != nil {
		return err
	}
	generic.Handler.NonGoRestfulMux.Handle(rolloutPath, b.rollout)
	return generic.AddPostStartHook("proviso-barriers", func(hook genericapiserver.PostStartHookContext) error {
		go func() {
			if c.waitForPolicies(hook) {
				go b.followRollout(hook)
				go b.changed.run(hook, barrierStatusInterval, recheck)
				b.controller.Run(hook)
			}
		}()
		return nil
	})
}

// waitForPolicies waits until policies may be loaded. It returns false if ctx ends before.
func (c CompletedConfig) waitForPolicies(ctx context.Context) bool {
	if c.extra.LoadPolicies == nil {
		return true
	}
	select {
	case <-c.extra.LoadPolicies:
		return true
	case <-ctx.Done():
		return false
	}
}

// checker returns a checker that warns about barriers, too.
func (b *barriers) checker(checker *policy.Checker) *policy.Checker {
	if b == nil {
		return checker
	}
	return checker.WithBarriers(b.compiler, b.overWork)
}

// overWork returns why the work of a new barrier, or of a new text of one, exceeds the bound for one write, or "".
func (b *barriers) overWork(changed *barrier.Barrier) string {
	if b.controller == nil {
		return ""
	}
	return b.controller.OverWork(changed)
}

// describe returns what the barrier of a policy enforces, or nil if it is not known. If isStored is false, the policy is about to be written.
func (b *barriers) describe(namespace, name string, spec *policyv1alpha1.AuthorizationPolicySpec, isStored bool) *enforcementstatus.Barrier {
	key := engine.Key{Namespace: namespace, Name: name}
	compiled, err := b.compiler.Compile(key, spec)
	if err == nil && !isStored {
		return b.described(compiled.Report, policyv1alpha1.ResultEnforced, "")
	}
	if b.controller != nil {
		if state, ok := b.controller.State(barriercontroller.Key{Key: key}); ok {
			result, message := b.resultOf(key, state)
			if err == nil && result == policyv1alpha1.ResultEnforced {
				// The controller and the rollout hear of a change of the policy separately, and may still be about the text before.
				if !b.rollout.IsAbout(key, compiled.Policy, compiled.Binding) {
					return b.described(compiled.Report, policyv1alpha1.ResultPending, "the barrier of an earlier text of the policy is loaded")
				}
				message = cmp.Or(message, fmt.Sprintf("it takes at most %v for an object of %s", compiled.Cost(), barrier.CostSize))
			}
			return b.described(state.Report, result, message)
		}
	}
	if err != nil {
		return nil
	}
	return b.described(compiled.Report, policyv1alpha1.ResultPending, "the barrier is about to be written")
}

// areKnown reports whether describe knows the state of the barriers of stored policies.
func (b *barriers) areKnown() bool {
	return b.controller != nil && b.controller.IsKnown() && (b.services == nil || b.otherVersions() != nil)
}

// otherVersions returns the last known versions that kube-apiserver passes on to other servers, Proviso included, or nil if none were ever known.
func (b *barriers) otherVersions() *[]schema.GroupVersion {
	if registered, isKnown := b.services.Remote(); isKnown {
		b.registered.Store(&registered)
	}
	return b.registered.Load()
}

// resultOf returns the result of a barrier, and its explanation.
func (b *barriers) resultOf(key engine.Key, state barriercontroller.State) (policyv1alpha1.EnforcementResult, string) {
	switch state.Phase {
	case barriercontroller.Pending:
		return policyv1alpha1.ResultPending, state.Message
	case barriercontroller.Written:
		isLoaded, message := b.isLoaded(key)
		if !isLoaded {
			return policyv1alpha1.ResultPending, message
		}
		return policyv1alpha1.ResultEnforced, cmp.Or(message, state.Warning)
	default:
		return policyv1alpha1.ResultNotEnforced, state.Message
	}
}

// described describes a barrier from its report.
func (b *barriers) described(report []barrier.RuleReport, result policyv1alpha1.EnforcementResult, message string) *enforcementstatus.Barrier {
	described := &enforcementstatus.Barrier{Result: result, Message: message, Remote: b.remote}
	for _, r := range report {
		described.Parts = append(described.Parts, enforcementstatus.BarrierPart{Rule: r.Rule, Resources: r.Resources, Verbs: r.Verbs, Reason: r.Reason})
	}
	return described
}

// remote returns a group if another server serves some of its versions, also those that the rule does not name, in which a barrier denies; and for
// the group * all such groups. It returns none if that was never known.
func (b *barriers) remote(group string) (groups []string) {
	if b.services == nil {
		return nil
	}
	registered := b.otherVersions()
	if registered == nil {
		return nil
	}
	for _, version := range *registered {
		//guard:barriers-own-groups-elsewhere
		isOther := !MayServe(version.Group) || b.own != nil && b.own.Elsewhere(version.Group, nil)
		if (group == version.Group || group == "*") && isOther && !slices.Contains(groups, version.Group) {
			groups = append(groups, version.Group)
		}
	}
	return groups
}
