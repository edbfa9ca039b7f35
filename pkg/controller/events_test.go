/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package controller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/proviso-authz/proviso/pkg/controller"
)

// TestEvents sends three events to a kube-apiserver. The third equals the first, and becomes a patch of it. An event is sent again after a failure, but not if it is forbidden.
func TestEvents(t *testing.T) {
	t.Parallel()
	ending := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("the namespace is being terminated"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for _, tc := range []struct {
		name      string
		err       error
		logged    int
		sentAgain bool
	}{
		{name: "stored"},
		{name: "forbidden", err: apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no permission")), logged: 1},
		{name: "forbidden, because its namespace is deleted", err: ending},
		{name: "failed", err: errors.New("connection refused"), logged: 2, sentAgain: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var sent []string
				client := fake.NewSimpleClientset()
				client.PrependReactor("*", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
					sent = append(sent, action.GetVerb()+" in "+action.GetNamespace())
					return true, &eventsv1.Event{}, tc.err
				})
				logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
				ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
				defer synctest.Wait()
				defer cancel()
				events := controller.NewEvents(client.EventsV1(), "proviso.dev/test")
				events.Start(ctx)
				for _, namespace := range []string{"", "n", ""} {
					events.Event(&corev1.ObjectReference{Namespace: namespace, Name: "a"}, corev1.EventTypeWarning, "Reason", "Action", "100 %s")
					synctest.Wait()
				}
				time.Sleep(13 * time.Second) // client-go waits 10 s, or a quarter more
				synctest.Wait()
				if !tc.sentAgain && !slices.Equal(sent, []string{"create in default", "create in n", "patch in default"}) || tc.sentAgain && strings.Count(strings.Join(sent, ", "), "create in default") < 2 {
					t.Errorf("got %q", sent)
				}
				var errs []string
				for _, entry := range logger.GetSink().(ktesting.Underlier).GetBuffer().Data() {
					if entry.Type == ktesting.LogError {
						errs = append(errs, fmt.Sprint(entry.Message, entry.Err))
					}
				}
				if want := tc.logged; len(errs) != want && (!tc.sentAgain || len(errs) < want) { // versions of client-go differ in what they send again meanwhile
					t.Errorf("the errors %q are logged, want %d", errs, want)
				}
			})
		})
	}
}
