/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package demo

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VirtualMachine is an imaginary machine for trying policies. It has fields of every JSON
// type.
type VirtualMachine struct {
	metav1.TypeMeta
	// metadata is the standard object metadata.
	metav1.ObjectMeta

	// Spec is the desired state of the machine.
	Spec VirtualMachineSpec
	// Status is the current state of the machine. It is written through /status only.
	Status VirtualMachineStatus
}

// VirtualMachineSpec is the desired state of a machine.
type VirtualMachineSpec struct {
	// Image is the image that the machine boots, such as debian-12.
	Image string
	// StorageClassName is the storage class of the machine's disks: a DNS subdomain name.
	StorageClassName string
	// NodeName is the node on which the machine is placed: a DNS subdomain name.
	NodeName string
	// AdminAccess gives the machine access to devices that are in use.
	AdminAccess *bool
	// CPUShare is the guaranteed number of processors, which may be a fraction; greater than 0
	// and at most 1024. Defaults to 1.
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
	// SizeGiB is the size of the disk in GiB, which may be a fraction; greater than 0.
	SizeGiB float64
	// StorageClassName is the storage class of this disk. If omitted, it is the storage class
	// of the machine.
	StorageClassName string
}

// VirtualMachineStatus is the current state of a machine.
type VirtualMachineStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	ObservedGeneration int64
	// Phase is the phase of the machine: Pending, Running or Stopped.
	Phase VirtualMachinePhase
	// Conditions describe the state of the machine in detail.
	Conditions []metav1.Condition
}

// VirtualMachinePhase is the phase of a machine.
type VirtualMachinePhase string

const (
	// VirtualMachinePending means that the machine has not started yet.
	VirtualMachinePending VirtualMachinePhase = "Pending"
	// VirtualMachineRunning means that the machine runs.
	VirtualMachineRunning VirtualMachinePhase = "Running"
	// VirtualMachineStopped means that the machine has stopped.
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
// console. The console of an imaginary machine returns them.
type VirtualMachineConsoleOptions struct {
	metav1.TypeMeta

	// Command is the command to run in the machine, with its arguments.
	Command []string
	// Stdin is true if the client sends input.
	Stdin bool
}
