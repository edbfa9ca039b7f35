/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// askIn creates a review about alice in one of the two groups, and returns an error for every answer but allowed.
func askIn(ctx context.Context, client versioned.Interface, version string) error {
	review := &authorizationv1alpha1.SelfSubjectAccessReview{Spec: authorizationv1alpha1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Group: "demo.proviso.dev", Version: "v1alpha1", Resource: "virtualmachines", Namespace: "demo"},
	}}
	var err error
	if version == ownReviews {
		review, err = client.AuthorizationProvisoV1alpha1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	} else {
		review, err = client.AuthorizationV1alpha1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	}
	if err == nil && !review.Status.Allowed {
		err = fmt.Errorf("not allowed: %+v", review.Status)
	}
	return err
}

// reviewing creates ten reviews a second in a group, through kube-apiserver and on Proviso's own port, until the returned function
// is called, which reports errors.
func reviewing(t *testing.T, version string, users ...string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, user := range users {
		_, client := clients(t, user)
		wg.Go(func() {
			asked, ticker := 0, time.NewTicker(100*time.Millisecond)
			defer ticker.Stop()
			for {
				if err := askIn(context.WithoutCancel(ctx), client, version); err != nil {
					t.Errorf("%s: review %d in %s: %v", user, asked, version, err)
				}
				asked++
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// waitForRegistration waits until the details of readiness say which server kube-apiserver calls for a version.
func waitForRegistration(t *testing.T, user, version, state string) {
	t.Helper()
	poll.Eventually(t, "the state of "+version+" is "+state, func() string {
		details := mustKubectl(t, user, "get", "--raw", "/readyz/review-groups")
		if strings.Contains(details, version+": "+state+": ") {
			return ""
		}
		return details
	})
}

// waitForNotFound waits until kube-apiserver answers 404 for the reviews of a version.
func waitForNotFound(t *testing.T, client versioned.Interface, version string) {
	t.Helper()
	poll.Eventually(t, version+" is not found", func() string {
		err := askIn(t.Context(), client, version)
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("got %v", err)
	})
}

const localAPIService = `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata:
  name: v1alpha1.%[1]s
  labels: {kube-aggregator.kubernetes.io/automanaged: onstart}
spec: {group: %[1]s, version: v1alpha1, groupPriorityMinimum: 17600, versionPriority: 9}
`

// takeOver replaces the APIService of a group by one that kube-apiserver manages, as it creates for a version that it serves.
func takeOver(t *testing.T, group string) {
	t.Helper()
	mustKubectl(t, "admin", "delete", "--ignore-not-found", "apiservice", "v1alpha1."+group)
	if _, errs, err := kubectlWithInput(t, "admin", fmt.Sprintf(localAPIService, group), "create", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
}

// register registers a group of reviews again, unless kube-apiserver owns it.
func register(t *testing.T, group string) {
	t.Helper()
	must(t, stack.RegisterVersions(t.Context(), "v1alpha1."+group))
}

// TestReviewGroupsAreIndependent takes each group of reviews away from Proviso in several ways, and checks that the other group
// answers ten reviews a second without an error, and that nothing of Proviso takes a group back from kube-apiserver.
func TestReviewGroupsAreIndependent(t *testing.T) {
	restore(t)
	t.Cleanup(func() { // before restore, which leaves alone what kube-apiserver owns
		for _, name := range []string{"v1alpha1.authorization.k8s.io", "v1alpha1.authorization.proviso.dev"} {
			if _, errs, err := kubectl(t, "admin", "delete", "--ignore-not-found", "apiservice", name); err != nil {
				t.Error(err, errs)
			}
		}
	})
	_, alice := clients(t, "alice")
	both := []string{"alice", "alice-direct"}

	for _, tc := range []struct{ version, other string }{{officialReviews, ownReviews}, {ownReviews, officialReviews}} {
		group := strings.TrimSuffix(tc.version, "/v1alpha1")
		t.Run("missing and coming back/"+group, func(t *testing.T) {
			defer reviewing(t, tc.other, both...)()
			defer reviewing(t, tc.version, "alice-direct")() // its own port does not depend on APIServices
			mustKubectl(t, "admin", "delete", "apiservice", "v1alpha1."+group)
			waitForNotFound(t, alice, tc.version)
			waitForRegistration(t, "admin-direct", tc.version, "missing")
			register(t, group)
			waitForRegistration(t, "admin-direct", tc.version, "proviso")
			if err := askIn(t.Context(), alice, tc.version); err != nil {
				t.Error(err)
			}
		})
		t.Run("taken over/"+group, func(t *testing.T) {
			defer reviewing(t, tc.other, both...)()
			takeOver(t, group)
			waitForNotFound(t, alice, tc.version)
			waitForRegistration(t, "admin-direct", tc.version, "kube_apiserver")
			metric := fmt.Sprintf("proviso_registration_state{group=%q,state=\"kube_apiserver\"} 1\n", group)
			if got := mustKubectl(t, "admin-direct", "get", "--raw", "/metrics"); !strings.Contains(got, metric) {
				t.Errorf("the metrics do not have %s", metric)
			}
			mustKubectl(t, "admin", "delete", "apiservice", "v1alpha1."+group)
			register(t, group)
			waitForRegistration(t, "admin-direct", tc.version, "proviso")
		})
	}

	t.Run("left alone", func(t *testing.T) {
		takeOver(t, "authorization.k8s.io")
		defer reviewing(t, ownReviews, both...)()
		owned := func(by string) {
			t.Helper()
			if got := mustKubectl(t, "admin", "get", "apiservice", "v1alpha1.authorization.k8s.io", "-o", "jsonpath={.spec.service}{.metadata.labels}"); got != `{"kube-aggregator.kubernetes.io/automanaged":"onstart"}` {
				t.Errorf("the APIService of kube-apiserver was changed by %s: %s", by, got)
			}
		}
		_, errs, err := kubectl(t, "admin", "apply", "--server-side", "--dry-run=server", "-k", filepath.Join(stack.Manifests, "overlays", "demo"))
		if err == nil || !strings.Contains(errs, "automanaged") {
			t.Errorf("the manifests: got %v, %s, want a conflict", err, errs)
		}
		owned("the manifests")
		register(t, "authorization.k8s.io")
		owned("the dev cluster")
		// The preflight of a server that starts while kube-apiserver owns the group.
		url, stop, err := stack.Replica(t.Context())
		must(t, err)
		defer stop()
		waitForReplica(t, url, officialReviews+": kube_apiserver: ")
		owned("a server that starts")
	})

	t.Run("restart of kube-apiserver", func(t *testing.T) {
		must(t, stack.KillKubeAPIServer())
		must(t, stack.StartKubeAPIServer(t.Context()))
		// kube-apiserver deletes an APIService that it manages and does not serve.
		waitForNotFound(t, alice, officialReviews)
		register(t, "authorization.k8s.io")
		defer reviewing(t, ownReviews, both...)()
		defer reviewing(t, officialReviews, both...)()
		waitForRegistration(t, "admin-direct", officialReviews, "proviso")
		time.Sleep(3 * time.Second) // for some thirty reviews, if the state was known at once
	})
}

// waitForReplica waits until the details of readiness of a replica have a text.
func waitForReplica(t *testing.T, url, want string) {
	t.Helper()
	client := stack.ClientAt(t, "admin-direct", url)
	poll.Eventually(t, want, func() string {
		got, err := client.Discovery().RESTClient().Get().AbsPath("/readyz/review-groups").Do(t.Context()).Raw()
		if err == nil && strings.Contains(string(got), want) {
			return ""
		}
		return fmt.Sprintf("%s %v", got, err)
	})
}

// TestConditionsOnWhatKubeAPIServerServes checks that the front door folds conditions on requests in groups of Proviso that kube-apiserver does
// not pass on to Proviso, because no server would evaluate them.
func TestConditionsOnWhatKubeAPIServerServes(t *testing.T) {
	restore(t)
	apply(t, readText(t, "testdata/own-groups.yaml"))
	kube, _ := clients(t, "admin")
	resources := map[string]string{"authorization.k8s.io": "subjectaccessreviews", "authorization.proviso.dev": "subjectaccessreviews", "demo.proviso.dev": "virtualmachines"}
	waitForAnswer := func(t *testing.T, group string, want bool) {
		t.Helper()
		poll.Eventually(t, fmt.Sprintf("%s: allowed: %v", group, want), func() string {
			answer, err := kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "rk-alice", ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "create", Group: group, Version: "v1alpha1", Resource: resources[group]},
			}}, metav1.CreateOptions{})
			must(t, err)
			if answer.Status.Allowed == want {
				return ""
			}
			return fmt.Sprintf("got %+v", answer.Status)
		})
	}
	for _, tc := range []struct {
		group string
		// takeOver has kube-apiserver serve the group, and giveBack ends that.
		takeOver, giveBack func(t *testing.T)
	}{
		{"authorization.k8s.io", func(t *testing.T) { takeOver(t, "authorization.k8s.io") }, func(t *testing.T) {
			mustKubectl(t, "admin", "delete", "--ignore-not-found", "apiservice", "v1alpha1.authorization.k8s.io")
		}},
		{"demo.proviso.dev", func(t *testing.T) {
			mustKubectl(t, "admin", "delete", "apiservice", "v1alpha1.demo.proviso.dev")
			mustKubectl(t, "admin", "apply", "-f", "testdata/served-machines.yaml")
		}, func(t *testing.T) {
			mustKubectl(t, "admin", "delete", "--ignore-not-found", "crd", "virtualmachines.demo.proviso.dev")
		}},
	} {
		t.Run(tc.group, func(t *testing.T) {
			t.Cleanup(func() { tc.giveBack(t) }) // before restore, which leaves alone what kube-apiserver owns
			for group := range resources {
				waitForAnswer(t, group, true)
			}
			tc.takeOver(t)
			waitForAnswer(t, tc.group, false)
			waitForAnswer(t, "authorization.proviso.dev", true)
			tc.giveBack(t)
			register(t, tc.group)
			waitForAnswer(t, tc.group, true)
		})
	}
}
