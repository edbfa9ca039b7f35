/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

// notServed is the answer of a kube-apiserver that does not know the resource.
var notServed = apierrors.NewGenericServerResponse(404, "list", admissionregistrationv1.Resource("mutatingadmissionpolicies"), "", "", 0, true)

// TestMutatingPoliciesOfAnOldKubeAPIServer has the informers of the admission plugin on a kube-apiserver that does not serve their
// resources: they sync, without objects, and have the objects after an upgrade.
func TestMutatingPoliciesOfAnOldKubeAPIServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(
			&admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "one"}},
			&admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "one"}})
		answer := atomic.Pointer[error]{}
		set := func(err error) { answer.Store(&err) }
		fail := func(clienttesting.Action) (bool, runtime.Object, error) {
			err := *answer.Load()
			return err != nil, nil, err
		}
		for _, resource := range []string{"mutatingadmissionpolicies", "mutatingadmissionpolicybindings"} {
			client.PrependReactor("list", resource, fail)
			client.PrependWatchReactor(resource, func(a clienttesting.Action) (bool, watch.Interface, error) {
				failed, _, err := fail(a)
				return failed, nil, err
			})
		}
		factory := informers.NewSharedInformerFactory(client, 0)
		addMutatingPolicies(factory)
		// These are the informers that the plugin uses.
		policies, bindings := factory.Admissionregistration().V1().MutatingAdmissionPolicies(), factory.Admissionregistration().V1().MutatingAdmissionPolicyBindings()
		have := func(when string, isSynced bool, want int) {
			t.Helper()
			if p, b := policies.Informer().HasSynced(), bindings.Informer().HasSynced(); p != isSynced || b != isSynced {
				t.Errorf("%s: synced: %t, %t, want %t", when, p, b, isSynced)
			}
			if p, b := len(policies.Informer().GetStore().List()), len(bindings.Informer().GetStore().List()); p != want || b != want {
				t.Errorf("%s: got %d policies and %d bindings, want %d", when, p, b, want)
			}
		}
		set(notServed)
		ctx, stop := context.WithCancel(t.Context())
		factory.StartWithContext(ctx)
		defer factory.Shutdown()
		defer stop()
		time.Sleep(time.Minute)
		have("not served", true, 0)
		client.ClearActions()
		time.Sleep(time.Hour)
		have("not served for an hour", true, 0)
		if n := len(client.Actions()); n > 2000 {
			t.Errorf("in an hour kube-apiserver got %d requests", n)
		}

		set(nil)
		time.Sleep(10 * time.Minute)
		have("after an upgrade", true, 1)
	})
}

// failing is a client that always fails.
type failing struct{ err error }

func (f failing) List(context.Context, metav1.ListOptions) (*admissionregistrationv1.MutatingAdmissionPolicyList, error) {
	return nil, f.err
}

func (f failing) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return nil, f.err
}

// TestOnlyAMissingResourceIsEmpty lists with other errors, which must not look like an empty list.
func TestOnlyAMissingResourceIsEmpty(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		err     error
		isEmpty bool
	}{
		{"not served", notServed, true},
		{"forbidden", apierrors.NewForbidden(schema.GroupResource{}, "", nil), false},
		{"unavailable", apierrors.NewServiceUnavailable("starting"), false},
		{"no connection", errors.New("connection refused"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := optional(failing{tc.err}, &admissionregistrationv1.MutatingAdmissionPolicyList{})
			if _, err := l.ListWithContextFunc(t.Context(), metav1.ListOptions{}); err == nil != tc.isEmpty {
				t.Errorf("list: got %v", err)
			}
			if _, err := l.WatchFuncWithContext(t.Context(), metav1.ListOptions{}); err == nil != tc.isEmpty {
				t.Errorf("watch: got %v", err)
			}
			if _, err := l.WatchFuncWithContext(t.Context(), metav1.ListOptions{SendInitialEvents: ptr.To(true)}); err == nil {
				t.Error("a watch that is to begin with the objects must fail")
			}
		})
	}
}
