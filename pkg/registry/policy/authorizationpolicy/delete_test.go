/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationpolicy_test

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/test/testutil/store"
)

func finalized(m *metav1.ObjectMeta, _ *policy.AuthorizationPolicySpec) {
	m.Finalizers = []string{"example.com/f"}
}

func unfinalized(m *metav1.ObjectMeta, _ *policy.AuthorizationPolicySpec) { m.Finalizers = nil }

// TestFinalizers: a deletion is decided when it is asked for; who removes the last finalizer
// only completes it.
func TestFinalizers(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, f *fixture) {
		f.mustCreate(t, f.policy("one", policy.PolicyEffectDeny, finalized))
		f.chain.reset(nil, noOpinion)
		if err := deleting(f.ctx(t), f, nil); !apierrors.IsForbidden(err) {
			t.Errorf("delete: got %v, want 403", err)
		}
		now := metav1.Now()
		smuggle := func(m *metav1.ObjectMeta, _ *policy.AuthorizationPolicySpec) {
			m.Finalizers, m.DeletionTimestamp, m.DeletionGracePeriodSeconds = nil, &now, ptr.To[int64](0)
		}
		if err := updating(smuggle)(f.ctx(t), f, nil); !apierrors.IsInvalid(err) {
			t.Errorf("an update that marks the policy as deleted: got %v, want 422", err)
		}
		if err := updating(unfinalized)(f.ctx(t), f, nil); err != nil {
			t.Errorf("an update of the finalizers: got %v, want it to be done", err)
		}
		if f.dump(t) == "" {
			t.Fatal("the policy is gone, though nobody was allowed to delete it")
		}

		f.chain.reset(map[string]answer{"restrict": allow}, noOpinion)
		for _, write := range []error{updating(finalized)(f.ctx(t), f, nil), deleting(f.ctx(t), f, nil)} {
			if write != nil {
				t.Fatal(write)
			}
		}
		f.chain.reset(nil, noOpinion)
		if f.dump(t) == "" {
			t.Fatal("the policy did not wait for its finalizer")
		}
		if err := updating(unfinalized)(f.ctx(t), f, nil); err != nil {
			t.Errorf("removing the last finalizer: got %v, want it to be done", err)
		}
		if left := f.dump(t); left != "" {
			t.Errorf("left: %s, want nothing", left)
		}
	})
}

// TestDeletionOfAllowTakesNoRestrictionAlong: whoever deletes an Allow policy needs nothing,
// so that it must not become a Deny that goes with the last finalizer.
func TestDeletionOfAllowTakesNoRestrictionAlong(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, f *fixture) {
		f.mustCreate(t, f.policy("one", policy.PolicyEffectAllow, finalized))
		f.chain.reset(nil, noOpinion)
		if err := deleting(f.ctx(t), f, nil); err != nil {
			t.Fatal(err)
		}
		f.chain.reset(nil, allow)
		if err := updating(to(policy.PolicyEffectDeny))(f.ctx(t), f, nil); !apierrors.IsInvalid(err) {
			t.Errorf("got %v, want 422", err)
		}
	})
}

// TestUnsafeDeletes are of policies that cannot be read, and might restrict somebody.
func TestUnsafeDeletes(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, f *fixture) {
		client := store.Client(t)
		key := fmt.Sprintf("%s/%s/one", store.Prefix(t), f.resource)
		if f.namespaced {
			key = fmt.Sprintf("%s/%s/n/one", store.Prefix(t), f.resource)
		}
		if _, err := client.Put(t.Context(), key, "garbage"); err != nil {
			t.Fatal(err)
		}
		options := func() *metav1.DeleteOptions {
			return &metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: ptr.To(true)}
		}
		f.chain.reset(map[string]answer{"restrict": noOpinion}, allow)
		deleter := f.Policy.GetCorruptObjDeleter()
		if deleter == nil {
			t.Fatal("there is no unsafe deletion, so the test proves nothing")
		}
		if _, _, err := deleter.Delete(f.ctx(t), "one", nil, options()); !apierrors.IsForbidden(err) {
			t.Errorf("unsafe delete: got %v, want 403", err)
		}
		if _, _, err := f.Policy.Delete(f.ctx(t), "none", nil, options()); !apierrors.IsForbidden(err) {
			t.Errorf("unsafe delete of what is not there: got %v, want 403", err)
		}
		if _, err := f.Policy.DeleteCollection(f.ctx(t), nil, options(), nil); !apierrors.IsForbidden(err) {
			t.Errorf("unsafe deletecollection: got %v, want 403", err)
		}
		if got, err := client.Get(t.Context(), key); err != nil || got.Count != 1 {
			t.Fatalf("the policy is gone: %v, %v", got, err)
		}
		want := []string{
			"alice: restrict policy.proviso.dev/v1alpha1/" + f.resource + "  " + f.namespace() + "/one",
			"alice: restrict policy.proviso.dev/v1alpha1/" + f.resource + "  " + f.namespace() + "/none",
			"alice: restrict policy.proviso.dev/v1alpha1/" + f.resource + "  " + f.namespace() + "/",
		}
		if fmt.Sprint(f.chain.asked) != fmt.Sprint(want) {
			t.Errorf("asked %q, want %q", f.chain.asked, want)
		}
		f.chain.reset(map[string]answer{"restrict": allow}, noOpinion)
		if _, _, err := deleter.Delete(f.ctx(t), "one", nil, options()); err != nil {
			t.Errorf("unsafe delete with restrict: got %v, want it to be done", err)
		}
		if got, err := client.Get(t.Context(), key); err != nil || got.Count != 0 {
			t.Errorf("the policy is still there: %v, %v", got, err)
		}
	})
}
