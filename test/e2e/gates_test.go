/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// TestFeatureGates runs two replicas on one store, of which one has the feature gate
// ConditionalAuthorization off, and one that had it off and has it on again.
func TestFeatureGates(t *testing.T) {
	t.Parallel()
	const markUnconditional = "unconditional"
	table := readRequests(t, "gates.yaml", markUnconditional)
	on, off := startReplica(t), startReplica(t, "--feature-gates=ConditionalAuthorization=false")
	first := &requests.Runner{Sender: newSenderTo(t, on)}
	first.Run(t, table.Rows["before"])
	defer first.Run(t, table.Rows["after"])
	before := policiesOfGates(t, on)
	again := startReplica(t) // as if the one without the gate had been restarted with it
	for url, reviews := range map[string]string{on: "review, on", off: "review, off", again: "review, on"} {
		runner := &requests.Runner{Sender: newSenderTo(t, url)}
		if url == off {
			runner.Want = func(row *requests.Row) *requests.Outcome {
				if row.Is(markUnconditional) || row.Code == http.StatusForbidden {
					return &row.Outcome
				}
				return &requests.Outcome{Code: http.StatusForbidden}
			}
		}
		awaitRows(t, runner, table.Rows["all"])
		runner.Want = nil
		runner.Run(t, table.Rows[reviews])
	}
	if diff := cmp.Diff(before, policiesOfGates(t, on)); diff != "" {
		t.Errorf("the specification of a policy was written (-before +after):\n%s", diff)
	}
}

// policiesOfGates says how often the specifications of the policies were written.
func policiesOfGates(t *testing.T, url string) (written []string) {
	t.Helper()
	for _, name := range []string{"e2e-gates-look", "e2e-gates-dev", "e2e-gates-locked"} {
		p, err := stack.ClientAt(t, "admin-direct", url).PolicyV1alpha1().ClusterAuthorizationPolicies().Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		written = append(written, fmt.Sprintf("%s: %s, %d times", name, p.UID, p.Generation))
	}
	return written
}

func makeMachine(t *testing.T, admin versioned.Interface, name, class string) error {
	t.Helper()
	vm := &demov1alpha1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: demov1alpha1.VirtualMachineSpec{Image: "debian", StorageClassName: class}}
	_, err := admin.DemoV1alpha1().VirtualMachines("demo").Create(t.Context(), vm, metav1.CreateOptions{})
	t.Cleanup(func() {
		_ = admin.DemoV1alpha1().VirtualMachines("demo").Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	return err
}
