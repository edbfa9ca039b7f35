/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
)

// TestReplicasShareAnEtcd writes through one replica and watches through another. With
// --etcd-servers no replica keeps anything of its own.
func TestReplicasShareAnEtcd(t *testing.T) {
	t.Parallel()
	urls, stop, err := stack.Replicas(t.Context(), 2)
	t.Cleanup(stop)
	must(t, err)
	var replicas []versioned.Interface
	for _, url := range urls {
		client := stack.ClientAt(t, "bob-direct", url)
		replicas = append(replicas, client)
	}
	watch, err := replicas[1].DemoV1alpha1().VirtualMachines("demo").Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
	defer watch.Stop()
	vm := &demov1alpha1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "shared"}, Spec: demov1alpha1.VirtualMachineSpec{Image: "debian-12"}}
	if _, err := replicas[0].DemoV1alpha1().VirtualMachines("demo").Create(t.Context(), vm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case event := <-watch.ResultChan():
		if got, ok := event.Object.(*demov1alpha1.VirtualMachine); !ok || got.Name != "shared" {
			t.Errorf("the other replica saw %v, want the machine", event)
		}
	case <-time.After(30 * time.Second):
		t.Error("the other replica never saw the machine")
	}
	if found, err := filepath.Glob(filepath.Join(stack.Dir, "replica-*", "must-not-be-made")); err != nil || len(found) > 0 {
		t.Errorf("replicas with an etcd of their own: %v, %v", found, err)
	}
	if found, err := filepath.Glob(filepath.Join(stack.Dir, "replica-*")); err != nil || len(found) < 2 {
		t.Fatalf("directories of replicas: %v, %v", found, err)
	}
}
