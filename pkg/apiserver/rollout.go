/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	restclient "k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/barrier/rollout"
	"github.com/proviso-authz/proviso/pkg/cluster"
	"github.com/proviso-authz/proviso/pkg/place"
)

// rolloutPath is the path of the details of readiness about barriers. It has no influence on readiness: until barriers are loaded, the
// front door folds conditions.
const rolloutPath = "/readyz/barriers"

// newRollout returns what finds out which barriers the kube-apiservers have loaded.
func newRollout(config BarriersConfig, frontDoor bool, compiler *barrier.Compiler, kubeAPIServer *restclient.Config, servers *cluster.Cluster, moved func()) (*rollout.Rollout, error) {
	client, err := kubernetes.NewForConfig(restclient.CopyConfig(kubeAPIServer))
	if err != nil {
		return nil, fmt.Errorf("client of the rollout of barriers: %w", err)
	}
	stored, err := storedObjects(kubeAPIServer)
	if err != nil {
		return nil, err
	}
	return rollout.New(rollout.Config{
		Namespace: config.Namespace, Cluster: servers, FrontDoor: frontDoor, Stored: stored, Moved: moved,
		Compile: func(key engine.Key, spec *policyv1alpha1.AuthorizationPolicySpec) (*rollout.Compiled, error) {
			compiled, err := compiler.Compile(key, spec)
			if err != nil {
				return nil, err
			}
			return &rollout.Compiled{Policy: compiled.Policy, Binding: compiled.Binding, Sees: compiled.Sees}, nil
		},
		Number: func(ctx context.Context) (int64, error) {
			stored, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(ctx, barrier.SentinelName, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return 0, nil
			}
			if err != nil {
				return 0, err
			}
			number, _ := rollout.NumberOf(stored)
			return number, nil
		},
	})
}

// storedObjects returns a function that reads the metadata of all ValidatingAdmissionPolicies and bindings.
func storedObjects(kubeAPIServer *restclient.Config) (func(context.Context) (policies, bindings rollout.Stored, err error), error) {
	client, err := metadata.NewForConfig(restclient.CopyConfig(kubeAPIServer))
	if err != nil {
		return nil, fmt.Errorf("client of the metadata of barriers: %w", err)
	}
	read := func(ctx context.Context, resource string) (stored rollout.Stored, err error) {
		list, err := client.Resource(admissionregistrationv1.SchemeGroupVersion.WithResource(resource)).List(ctx, metav1.ListOptions{})
		if err != nil {
			return rollout.Stored{}, err
		}
		if stored.Version, err = strconv.ParseUint(list.ResourceVersion, 10, 64); err != nil {
			return rollout.Stored{}, err
		}
		stored.Objects = make(map[string]uint64, len(list.Items))
		for i := range list.Items {
			stored.Objects[list.Items[i].Name] = barrier.VersionOf(&list.Items[i])
		}
		return stored, nil
	}
	return func(ctx context.Context) (policies, bindings rollout.Stored, err error) {
		if policies, err = read(ctx, "validatingadmissionpolicies"); err == nil {
			bindings, err = read(ctx, "validatingadmissionpolicybindings")
		}
		return policies, bindings, err
	}, nil
}

// atAdmission returns what barriers refuse, or nil without barriers.
func (b *barriers) atAdmission() *place.Barriers {
	if b == nil || b.services == nil {
		return nil
	}
	return &place.Barriers{
		Covers: b.rollout.Covers, Audits: b.rollout.Audits, LeavesOut: b.compiler.LeavesOut, IsLocal: b.services.IsLocal,
		Known: func(client *place.Client) bool {
			if client == nil {
				return b.rollout.KnowsAll()
			}
			return b.rollout.Known(client.Certificate)
		},
		Canary: func(client *place.Client, a authorizer.Attributes) bool {
			return b.rollout.IsCanary(client.Certificate, a)
		},
	}
}

// isLoaded reports whether the barrier of a policy counts as loaded, and which kube-apiservers may lack it.
func (b *barriers) isLoaded(key engine.Key) (isLoaded bool, message string) {
	state := b.rollout.State(key)
	if state.Phase == rollout.Active {
		return true, state.Uncertified
	}
	return state.Loaded, state.Message
}

// followRollout has the rollout of barriers follow what is stored, and probe kube-apiservers, until ctx ends.
func (b *barriers) followRollout(ctx context.Context) {
	go b.rollout.Run(ctx)
	go b.rollout.RunSight(ctx)
	go b.observeRollout(ctx)
	if err := b.rollout.Follow(ctx, b.controller.Informers()...); err != nil {
		klog.FromContext(ctx).Error(err, "The front door leaves no conditions to barriers")
	}
}

// observeRollout has the statuses compared when the state of a barrier has changed, or the sight of all barriers.
func (b *barriers) observeRollout(ctx context.Context) {
	var before map[engine.Key]rollout.State
	blindBefore := ""
	b.moved.run(ctx, rolloutInterval, func() {
		now, blind := b.rollout.States(), b.rollout.Blind()
		if blind != blindBefore || !maps.EqualFunc(before, now, rollout.State.Equal) {
			b.changed.set()
		}
		before, blindBefore = now, blind
	})
}
