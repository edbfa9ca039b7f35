/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package validation_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/apis/demo"
	"github.com/proviso-authz/proviso/apis/demo/validation"
)

func machine(change func(*demo.VirtualMachine)) *demo.VirtualMachine {
	vm := &demo.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "n", ResourceVersion: "1"},
		Spec: demo.VirtualMachineSpec{
			Image: "debian-12", StorageClassName: "dev", NodeName: "node-1", CPUShare: ptr.To(0.5), Memory: ptr.To("1"),
			Disks: []demo.VirtualMachineDisk{{Name: "root", SizeGiB: 1.5}}, Tags: []string{"a", "b"},
		},
	}
	if change != nil {
		change(vm)
	}
	return vm
}

func disks(n int) []demo.VirtualMachineDisk {
	var result []demo.VirtualMachineDisk
	for i := range n {
		result = append(result, demo.VirtualMachineDisk{Name: fmt.Sprintf("d%d", i), SizeGiB: 1})
	}
	return result
}

// TestValidateSpec validates each machine as a creation and as an update: an update
// must not let in what a creation keeps out.
func TestValidateSpec(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(*demo.VirtualMachine)
		want   []string
	}{
		{"valid", nil, nil},
		{"no image", func(vm *demo.VirtualMachine) { vm.Spec.Image = "" }, []string{"spec.image: Required"}},
		{"a long image", func(vm *demo.VirtualMachine) { vm.Spec.Image = strings.Repeat("x", 257) }, []string{"spec.image: Too long"}},
		{"a class that is no name", func(vm *demo.VirtualMachine) { vm.Spec.StorageClassName = "Dev!" }, []string{"spec.storageClassName: Invalid"}},
		{"a node that is no name", func(vm *demo.VirtualMachine) { vm.Spec.NodeName = "a b" }, []string{"spec.nodeName: Invalid"}},
		{"no share", func(vm *demo.VirtualMachine) { vm.Spec.CPUShare = ptr.To(0.0) }, []string{"spec.cpuShare: Invalid"}},
		{"too large a share", func(vm *demo.VirtualMachine) { vm.Spec.CPUShare = ptr.To(1024.1) }, []string{"spec.cpuShare: Invalid"}},
		{"a share that is no number", func(vm *demo.VirtualMachine) { vm.Spec.CPUShare = ptr.To(math.NaN()) }, []string{"spec.cpuShare: Invalid"}},
		{"negative memory", func(vm *demo.VirtualMachine) { vm.Spec.Memory = ptr.To("-1") }, []string{"spec.memory: Invalid"}},
		{"no memory", func(vm *demo.VirtualMachine) { vm.Spec.Memory = ptr.To("0") }, []string{"spec.memory: Invalid"}},
		{"empty memory", func(vm *demo.VirtualMachine) { vm.Spec.Memory = ptr.To("") }, []string{"spec.memory: Invalid"}},
		{"memory that is no quantity", func(vm *demo.VirtualMachine) { vm.Spec.Memory = ptr.To("much") }, []string{"spec.memory: Invalid"}},
		{"memory of exbibytes", func(vm *demo.VirtualMachine) { vm.Spec.Memory = ptr.To("7Ei") }, nil},
		{"memory with a small exponent", func(vm *demo.VirtualMachine) { vm.Spec.Memory = ptr.To("1e-99") }, nil},
		{"memory with a small positive exponent", func(vm *demo.VirtualMachine) { vm.Spec.Memory = ptr.To("1E+12") }, nil},
		{"memory with an exponent that would keep a processor busy", func(vm *demo.VirtualMachine) { vm.Spec.Memory = ptr.To("1e-999999999") }, []string{"spec.memory: Invalid"}},
		{"memory with a huge exponent in upper case", func(vm *demo.VirtualMachine) { vm.Spec.Memory = ptr.To("1E999999999") }, []string{"spec.memory: Invalid"}},
		{"memory with an exponent of many zeros", func(vm *demo.VirtualMachine) { vm.Spec.Memory = ptr.To("1e0000000000000000000001") }, []string{"spec.memory: Invalid"}},
		{"memory of many digits", func(vm *demo.VirtualMachine) { vm.Spec.Memory = ptr.To(strings.Repeat("9", 1<<20)) }, []string{"spec.memory: Too long"}},
		{"many disks", func(vm *demo.VirtualMachine) { vm.Spec.Disks = disks(65) }, []string{"spec.disks: Too many"}},
		{"the same disk twice", func(vm *demo.VirtualMachine) { vm.Spec.Disks = append(disks(1), disks(1)...) }, []string{"spec.disks[1].name: Duplicate"}},
		{"a bad disk", func(vm *demo.VirtualMachine) {
			vm.Spec.Disks = []demo.VirtualMachineDisk{{Name: "A", StorageClassName: "!"}}
		}, []string{"spec.disks[0].name: Invalid", "spec.disks[0].sizeGiB: Invalid", "spec.disks[0].storageClassName: Invalid"}},
		{"many tags", func(vm *demo.VirtualMachine) { vm.Spec.Tags = make([]string, 65) }, []string{"spec.tags: Too many"}},
		{"bad tags", func(vm *demo.VirtualMachine) { vm.Spec.Tags = []string{"a", " ", "a", strings.Repeat("x", 257)} },
			[]string{"spec.tags[1]: Required", "spec.tags[2]: Duplicate", "spec.tags[3]: Too long"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			check(t, "create", validation.ValidateVirtualMachine(machine(tc.change)), tc.want)
			check(t, "update", validation.ValidateVirtualMachineUpdate(machine(tc.change), machine(nil)), tc.want)
		})
	}
}

func TestValidateStatusUpdate(t *testing.T) {
	t.Parallel()
	valid := func(vm *demo.VirtualMachine) {
		vm.Status = demo.VirtualMachineStatus{Phase: demo.VirtualMachineRunning, Conditions: []metav1.Condition{
			{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Up", LastTransitionTime: metav1.Now()}}}
	}
	check(t, "valid", validation.ValidateVirtualMachineStatusUpdate(machine(valid), machine(nil)), nil)
	invalid := func(vm *demo.VirtualMachine) {
		vm.Status = demo.VirtualMachineStatus{Phase: "Flying", ObservedGeneration: -1, Conditions: []metav1.Condition{
			{Type: "Ready", Status: "Perhaps", Reason: "Up", LastTransitionTime: metav1.Now()}}}
	}
	check(t, "invalid", validation.ValidateVirtualMachineStatusUpdate(machine(invalid), machine(nil)),
		[]string{"status.phase: Unsupported", "status.observedGeneration: Invalid", "status.conditions[0].status: Unsupported"})
}

func check(t *testing.T, what string, got field.ErrorList, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %d errors, want %d: %v", what, len(got), len(want), got.ToAggregate())
	}
	for i := range want {
		if !strings.HasPrefix(got[i].Error(), want[i]) {
			t.Errorf("%s: error %d is %q, want %q", what, i, got[i], want[i])
		}
	}
}
