/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned/fake"
	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/pkg/policy"
)

// TestMappings follows a mapping that is created, changed and deleted.
func TestMappings(t *testing.T) {
	t.Parallel()
	client, source := fake.NewSimpleClientset(), &granular.Source{}
	controller, err := policy.NewMappingController(client, source)
	if err != nil {
		t.Fatal(err)
	}
	if err := controller.Ready().Check(nil); err == nil {
		t.Error("the controller is ready before it runs")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); controller.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })

	eventually := func(what string, holds func(*granular.Table) bool) {
		t.Helper()
		if err := wait.PollUntilContextTimeout(ctx, time.Millisecond, wait.ForeverTestTimeout, true, func(context.Context) (bool, error) {
			table := source.Table()
			return table != nil && holds(table), nil
		}); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	excludes := func(resource string) func(*granular.Table) bool {
		return func(table *granular.Table) bool {
			return table.Excludes(schema.GroupResource{Resource: resource})
		}
	}
	eventually("nothing", func(table *granular.Table) bool { return !excludes("*")(table) })
	if err := controller.Ready().Check(nil); err != nil {
		t.Errorf("the controller is not ready: %v", err)
	}
	mapping := &policyv1alpha1.FieldPermissionMapping{
		ObjectMeta: metav1.ObjectMeta{Name: "one"},
		Spec: policyv1alpha1.FieldPermissionMappingSpec{
			Resources: []policyv1alpha1.FieldPermissionResource{{Resource: "pods"}},
			Fields:    []policyv1alpha1.FieldPermission{{Path: "spec.boom", Permission: "selfDestruction", Exclusion: &policyv1alpha1.FieldExclusion{}}},
		},
	}
	mappings := client.PolicyV1alpha1().FieldPermissionMappings()
	if _, err := mappings.Create(ctx, mapping, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("created", excludes("pods"))
	mapping.Spec.Resources[0].Resource = "nodes"
	if _, err := mappings.Update(ctx, mapping, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("changed", func(table *granular.Table) bool { return excludes("nodes")(table) && !excludes("pods")(table) })
	if err := mappings.Delete(ctx, "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("deleted", func(table *granular.Table) bool { return !excludes("*")(table) })
}

func TestMappingConfig(t *testing.T) {
	t.Parallel()
	if _, err := policy.NewMappingController(nil, &granular.Source{}); err == nil {
		t.Error("a controller without client was made")
	}
	if _, err := policy.NewMappingController(fake.NewSimpleClientset(), nil); err == nil {
		t.Error("a controller without source was made")
	}
}
