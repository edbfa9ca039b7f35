/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationpolicy_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/test/testutil/store"
)

// held is a checker that does not return for conditions "hold" until it is opened.
type held struct {
	open     chan struct{}
	checking atomic.Int64
	most     atomic.Int64
}

func (h *held) Check(_ engine.Key, spec *policy.AuthorizationPolicySpec) ([]string, field.ErrorList) {
	if spec.Condition != "hold" {
		return nil, nil
	}
	defer h.checking.Add(-1)
	for n := h.checking.Add(1); ; {
		if most := h.most.Load(); n <= most || h.most.CompareAndSwap(most, n) {
			break
		}
	}
	<-h.open
	return nil, nil
}

func (h *held) CheckChange(engine.Key, *policy.AuthorizationPolicySpec, *policy.AuthorizationPolicySpec) field.ErrorList {
	return nil
}

func (h *held) Warn(context.Context, engine.Key, *policy.AuthorizationPolicySpec) []string {
	return nil
}

func (h *held) ChecksForOthers(*policy.AuthorizationPolicySpec, string) bool { return false }

// TestFloodOfWrites has one author write more policies than may wait, in dry runs. The rest is refused at once, and others write.
func TestFloodOfWrites(t *testing.T) {
	t.Parallel()
	const sent, fit = 60, 2 + 32
	for name, namespaced := range map[string]bool{"cluster": false, "namespaced": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &held{open: make(chan struct{})}
			f := newFixtureWith(t, namespaced, h)
			flooding := f.ctx(t)
			other := genericapirequest.WithUser(f.anonymous(t), &user.DefaultInfo{Name: "bob"})
			if namespaced {
				other = genericapirequest.WithNamespace(other, "other")
			}
			create := func(ctx context.Context, name, condition string) error {
				obj := f.policy(name, policy.PolicyEffectAllow, func(m *metav1.ObjectMeta, s *policy.AuthorizationPolicySpec) {
					m.Namespace, s.Condition = genericapirequest.NamespaceValue(ctx), condition
				})
				_, err := f.Objects.Create(ctx, obj, rest.ValidateAllObjectFunc, &metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				return err
			}
			results := store.Flood(t, sent, fit, func(i int) error { return create(flooding, fmt.Sprintf("p%d", i), "hold") })
			if err := create(other, "one", "true"); err != nil {
				t.Errorf("another author: %v", err)
			}
			_, _, err := f.Objects.Update(flooding, "p", rest.DefaultUpdatedObjectInfo(f.policy("p", policy.PolicyEffectAllow, nil)), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, true, &metav1.UpdateOptions{})
			if !apierrors.IsTooManyRequests(err) {
				t.Errorf("an update in the flood: got %v, want 429", err)
			}
			close(h.open)
			for range fit {
				if err := <-results; err != nil {
					t.Errorf("one that waited: %v", err)
				}
			}
			if most := h.most.Load(); most > 2 {
				t.Errorf("got %d checks for one author at a time, want at most 2", most)
			}
			if _, err := f.create(flooding, f.policy("after", policy.PolicyEffectAllow, nil)); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// TestFloodOfWritesInManyNamespaces has one author write policies in five namespaces. Others write in other namespaces meanwhile.
func TestFloodOfWritesInManyNamespaces(t *testing.T) {
	t.Parallel()
	h := &held{open: make(chan struct{})}
	f := newFixtureWith(t, true, h)
	create := func(ctx context.Context, namespace, condition string) error {
		obj := f.policy("p", policy.PolicyEffectAllow, func(m *metav1.ObjectMeta, s *policy.AuthorizationPolicySpec) {
			m.Namespace, s.Condition = namespace, condition
		})
		_, err := f.Objects.Create(genericapirequest.WithNamespace(ctx, namespace), obj, rest.ValidateAllObjectFunc, &metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	const sent = 5 * 4
	flooding := f.ctx(t)
	results := store.Flood(t, sent, sent, func(i int) error { return create(flooding, fmt.Sprint("n", i%5), "hold") })
	for h.checking.Load() < 4 {
		runtime.Gosched()
	}
	other := genericapirequest.WithUser(f.anonymous(t), &user.DefaultInfo{Name: "bob"})
	if err := create(other, "other", "true"); err != nil {
		t.Errorf("another author: %v", err)
	}
	close(h.open)
	for range sent {
		if err := <-results; err != nil {
			t.Errorf("one that waited: %v", err)
		}
	}
	if most := h.most.Load(); most > 4 {
		t.Errorf("got %d checks for one author at a time, want at most 4", most)
	}
}
