/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/proviso-authz/proviso/pkg/barrier/barriercontroller"
)

// writesOf returns the number of writes with a result.
func writesOf(t *testing.T, result string) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "proviso_barrier_writes_total" && m.GetLabel()[0].GetValue() == result {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("there is no metric for the result %s", result)
	return 0
}

// TestWritesAreCounted counts each result of a write.
func TestWritesAreCounted(t *testing.T) {
	barriercontroller.RegisterMetrics()
	results := []string{"written", "restored", "removed", "refused", "conflict", "failed"}
	before := map[string]float64{}
	for _, result := range results {
		before[result] = writesOf(t, result)
	}
	r := newRig(t)
	conflicts, failures := 1, 1
	r.kube.before = func(verb, resource, name string, dryRun bool) error {
		switch {
		case strings.HasPrefix(name, "refused"):
			return apierrors.NewInvalid(schema.GroupKind{Kind: resource}, name, nil)
		case !dryRun && verb == "create" && conflicts > 0:
			conflicts--
			return apierrors.NewConflict(schema.GroupResource{Resource: resource}, name, nil)
		case !dryRun && verb == "create" && failures > 0:
			failures--
			return errStopped
		}
		return nil
	}
	r.start(t, lead)
	r.create(t, policy("refused", "1"))
	r.create(t, policy("a", "1"))
	eventually(t, "the barrier is written", func() bool { return r.isBarred(t, "a", "1") })
	client, stored := r.kubeClient.AdmissionregistrationV1().ValidatingAdmissionPolicies(), r.vap(t, "a")
	if err := client.Delete(t.Context(), stored.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the barrier is written again", func() bool { vap := r.vap(t, "a"); return vap != nil && vap.UID != stored.UID })
	r.delete(t, "a")
	for _, result := range results {
		eventually(t, result+" is counted", func() bool { return writesOf(t, result) > before[result] })
	}
}
