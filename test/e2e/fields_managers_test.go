/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// forgeManagers sends the rows of testdata/managers.yaml on each route.
func (x *fieldTest) forgeManagers(t *testing.T) {
	table := readRequests(t, "managers.yaml")
	for _, route := range routes {
		t.Run(route.name, func(t *testing.T) {
			t.Parallel()
			name := "managers-" + route.name
			runner := &requests.Runner{Sender: newSender(t, "admin"+route.suffix), Values: map[string]string{"machine": name}}
			runner.Run(t, table.Rows["before"])
			runner.Values["list"] = x.forgedList(t, name)
			runner.Run(t, table.Rows["attacks"])
			runner.Run(t, table.Rows["after"])
		})
	}
}

// forgedList returns the managedFields of a machine, with one more field for the manager deployer.
func (x *fieldTest) forgedList(t *testing.T, name string) string {
	t.Helper()
	vm, err := x.proviso.DemoV1alpha1().VirtualMachines((&tableSet{Set: "fields-operator"}).namespace()).Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	entry := slices.IndexFunc(vm.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == "deployer" })
	if entry < 0 {
		t.Fatalf("the manager has no entry in %v", vm.ManagedFields)
	}
	vm.ManagedFields[entry].FieldsV1 = metav1.NewFieldsV1(`{"f:spec":{"f:image":{},"f:storageClassName":{}}}`)
	return string(mustJSON(vm.ManagedFields))
}
