/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package demo

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VirtualMachine is an imaginary machine. It exists so that policies can be tried on
// something: it has fields of every shape that JSON has.
type VirtualMachine struct {
	metav1.TypeMeta
	// metadata is the standard object metadata.
	metav1.ObjectMeta

	// spec is the machine that is wanted.
	Spec VirtualMachineSpec
	// status is the machine that is there. It is written through /status only.
	Status VirtualMachineStatus
}

// VirtualMachineSpec is the machine that is wanted.
type VirtualMachineSpec struct {
	// image is what the machine boots, such as debian-12.
	Image string
	// storageClassName is the class of the machine's disks: a DNS subdomain name.
	StorageClassName string
	// nodeName is the node that the machine is placed on: a DNS subdomain name.
	NodeName string
	// adminAccess gives the machine access to devices in use.
	AdminAccess *bool
	// cpuShare is the number of processors that the machine is guaranteed, fractions
	// included; greater than 0 and at most 1024. Defaults to 1.
	CPUShare *float64
	// memory is the memory of the machine: a quantity greater than 0, such as 2Gi. It is text,
	// because quantities are parsed without bound where objects are decoded.
	Memory *string
	// disks are the disks of the machine, by name; at most 64.
	Disks []VirtualMachineDisk
	// tags are words that describe the machine; at most 64, without duplicates.
	Tags []string
}

// VirtualMachineDisk is a disk of a machine.
type VirtualMachineDisk struct {
	// name identifies the disk within its machine: a DNS label.
	Name string
	// sizeGiB is the size of the disk in GiB, fractions included; greater than 0.
	SizeGiB float64
	// storageClassName is the class of this disk, if not that of the machine.
	StorageClassName string
}

// VirtualMachineStatus is the machine that is there.
type VirtualMachineStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	ObservedGeneration int64
	// phase is what the machine is doing: Pending, Running or Stopped.
	Phase VirtualMachinePhase
	// conditions describe the machine in detail.
	Conditions []metav1.Condition
}

// VirtualMachinePhase is what a machine is doing.
type VirtualMachinePhase string

const (
	// VirtualMachinePending means that the machine has not started yet.
	VirtualMachinePending VirtualMachinePhase = "Pending"
	// VirtualMachineRunning means that the machine runs.
	VirtualMachineRunning VirtualMachinePhase = "Running"
	// VirtualMachineStopped means that the machine has ended.
	VirtualMachineStopped VirtualMachinePhase = "Stopped"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VirtualMachineList is a list of machines.
type VirtualMachineList struct {
	metav1.TypeMeta
	// metadata is the standard list metadata.
	metav1.ListMeta

	// items are the machines.
	Items []VirtualMachine
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VirtualMachineConsoleOptions are the query parameters of a connection to a machine's
// console. The console of an imaginary machine echoes them.
type VirtualMachineConsoleOptions struct {
	metav1.TypeMeta

	// command is the command to run in the machine, and its arguments.
	Command []string
	// stdin says that the client will send input.
	Stdin bool
}
