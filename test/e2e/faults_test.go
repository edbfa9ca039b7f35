/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// restore brings up again what a test stopped, however it ended.
func restore(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if err := stack.Up(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// TestKilledServerLosesNothing kills the server while many clients write, again and
// again. Whatever was acknowledged must be there afterwards.
func TestKilledServerLosesNothing(t *testing.T) {
	restore(t)
	_, proviso := clients(t, "bob-direct")
	vms := proviso.DemoV1alpha1().VirtualMachines("demo")

	acknowledged := map[string]string{}
	for round := range 3 {
		for name, image := range writeUntilKilled(t, proviso, round) {
			acknowledged[name] = image
		}
		if err := stack.StartProviso(t.Context()); err != nil {
			t.Fatalf("round %d: it did not become ready again: %v", round, err)
		}
	}
	list, err := vms.List(t.Context(), metav1.ListOptions{})
	must(t, err)
	stored := map[string]string{}
	for _, vm := range list.Items {
		stored[vm.Name] = vm.Spec.Image
	}
	for name, image := range acknowledged {
		if stored[name] != image {
			t.Errorf("%s was acknowledged with %s, but is there with %q", name, image, stored[name])
		}
	}
	t.Logf("%d acknowledged writes survived three kills", len(acknowledged))
	if err := vms.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

// writeUntilKilled creates and updates machines from several clients, kills the server
// in the middle, and returns what was acknowledged last for each machine. A machine
// whose last write was not acknowledged may be in either state and is left out.
func writeUntilKilled(t *testing.T, proviso versioned.Interface, round int) map[string]string {
	t.Helper()
	const writers, enough = 8, 200
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var (
		mu           sync.Mutex
		group        sync.WaitGroup
		acknowledged = map[string]string{}
		killed       sync.Once
	)
	vms := proviso.DemoV1alpha1().VirtualMachines("demo")
	for w := range writers {
		group.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				vm := &demov1alpha1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("r%d-w%d-%d", round, w, i)}, Spec: demov1alpha1.VirtualMachineSpec{Image: "first"}}
				created, err := vms.Create(ctx, vm, metav1.CreateOptions{})
				if err != nil {
					return
				}
				mu.Lock()
				acknowledged[vm.Name] = "first"
				mu.Unlock()
				created.Spec.Image = "second"
				_, err = vms.Update(ctx, created, metav1.UpdateOptions{})
				mu.Lock()
				if acknowledged[vm.Name] = "second"; err != nil {
					delete(acknowledged, vm.Name)
				}
				n := len(acknowledged)
				mu.Unlock()
				if n >= enough {
					killed.Do(func() {
						if err := stack.Kill(); err != nil {
							t.Error(err)
						}
					})
				}
			}
		})
	}
	group.Wait()
	if len(acknowledged) < enough-writers { // those whose last write was cut off
		t.Errorf("only %d writes were acknowledged before the end", len(acknowledged))
	}
	return acknowledged
}

// TestKubeAPIServerDown stops kube-apiserver. Nothing that needs it may be allowed, and
// everything must work again once it is back.
func TestKubeAPIServerDown(t *testing.T) {
	restore(t)
	// A server that reuses the answer that alice may create reviews, as Proviso does by default. The shared one asks again for each request.
	url := startReplica(t, "--authorization-webhook-cache-authorized-ttl=10s")
	at := func(user string) versioned.Interface {
		return stack.ClientAt(t, user+"-direct", url)
	}
	direct := at("alice")
	_, through := clients(t, "alice")
	review := func(user string) *authorizationv1alpha1.SubjectAccessReview {
		return &authorizationv1alpha1.SubjectAccessReview{Spec: authorizationv1alpha1.SubjectAccessReviewSpec{
			User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Group: "demo.proviso.dev", Resource: "virtualmachines", Namespace: "demo"},
		}}
	}
	ask := func(client versioned.Interface, user string) (authorizationv1alpha1.SubjectAccessReviewStatus, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		got, err := client.AuthorizationV1alpha1().SubjectAccessReviews().Create(ctx, review(user), metav1.CreateOptions{})
		if err != nil {
			return authorizationv1alpha1.SubjectAccessReviewStatus{}, err
		}
		return got.Status, nil
	}
	if got, err := ask(direct, "bob"); err != nil || !got.Allowed {
		t.Fatalf("before: got %+v, %v, want allowed", got, err)
	}

	must(t, stack.KillKubeAPIServer())
	// The permission to ask is reused for some seconds, the answer is not.
	got, err := ask(direct, "bob")
	if err != nil || got.Allowed || !got.Denied || !strings.Contains(got.EvaluationError, "asking kube-apiserver for authorization") {
		t.Errorf("the same review with kube-apiserver down: got %+v, %v, want denied, and why", got, err)
	}
	conditions := &authorizationv1alpha1.AuthorizationConditionsReview{Request: &authorizationv1alpha1.AuthorizationConditionsRequest{
		Operation: "CREATE",
		ConditionSets: []authorizationv1alpha1.SubjectAccessReviewConditionSet{{AuthorizerName: "a", Conditions: []authorizationv1alpha1.SubjectAccessReviewCondition{
			{ID: "example.com/a", Effect: "Allow", Type: "k8s.io/authorization-cel", Condition: `!authorizer.path("/x").check("get").allowed()`}}}},
	}}
	evaluated, err := direct.AuthorizationV1alpha1().AuthorizationConditionsReviews().Create(t.Context(), conditions, metav1.CreateOptions{})
	if err == nil && evaluated.Response.Allowed {
		t.Errorf("a condition that needs kube-apiserver: got %+v, want anything but allowed", evaluated.Response)
	}
	if got, err := ask(at("bob"), "carol"); err == nil && got.Allowed {
		t.Errorf("a caller who was not asked about before: got %+v, want anything but allowed", got)
	} else if err != nil && !apierrors.IsInternalError(err) && !apierrors.IsForbidden(err) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a caller who was not asked about before: got %v, want 403 or 500", err)
	}
	if list, err := at("agent").DemoV1alpha1().VirtualMachines("demo").List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Errorf("a request of a user who was not asked about before: got %v, want an error", list)
	}

	must(t, stack.StartKubeAPIServer(t.Context()))
	for name, client := range map[string]versioned.Interface{"direct": direct, "through kube-apiserver": through} {
		poll.Eventually(t, name+": it recovers", func() string {
			got, err := ask(client, "bob")
			if err == nil && got.Allowed {
				return ""
			}
			return fmt.Sprintf("got %+v, %v", got, err)
		})
	}
}
