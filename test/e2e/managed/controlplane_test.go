/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"encoding/json"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// testControlPlane checks that barriers, their guard and kube-controller-manager stay out of each other's way: it writes their status, and deletes what
// the client's user may not.
func testControlPlane(t *testing.T, r *rig, client kubernetes.Interface, barriers []stored) {
	t.Helper()
	kept, runner := table(t, "kept.yaml"), r.runner()
	r.MustApply(t, kept.Manifest())
	r.effective(t, "clusterauthorizationpolicy/kept")
	runner.After = func(_ *requests.Row, answer *requests.Answer, _ []*admissionv1.AdmissionRequest) {
		object := metav1.PartialObjectMetadata{}
		if json.Unmarshal([]byte(answer.Body), &object) == nil && object.Name == "owner" {
			runner.Values = map[string]string{"uid": string(object.UID)}
		}
	}
	runner.Run(t, kept.Rows["objects"])
	runner.Await(t, kept.Rows["the garbage collector"][0])
	runner.Run(t, kept.Rows["delete the namespace"])
	runner.Await(t, kept.Rows["the namespace is gone"][0])
	// kube-controller-manager checks the types of admission policies and writes what it found, which Proviso must not take for tampering.
	for i, before := range barriers {
		poll.Eventually(t, "the status of "+before.policy.Name+" is written", func() string {
			now, err := barrierAt(t.Context(), client, i)
			if err != nil {
				return err.Error()
			}
			policy := now.policy
			switch {
			case policy.Generation != before.policy.Generation:
				t.Errorf("%s: generation %d, was %d", policy.Name, policy.Generation, before.policy.Generation)
			case policy.Status.ObservedGeneration != policy.Generation || policy.Status.TypeChecking == nil:
				return "no status"
			case len(policy.Status.TypeChecking.ExpressionWarnings) > 0:
				t.Errorf("%s: warnings %v", policy.Name, policy.Status.TypeChecking.ExpressionWarnings)
			}
			return isRestored(t, client, i, before)
		})
	}
}
