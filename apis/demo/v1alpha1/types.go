/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VirtualMachine is an imaginary machine. It exists so that policies can be tried on
// something: it has fields of every shape that JSON has.
type VirtualMachine struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the machine that is wanted.
	// +optional
	Spec VirtualMachineSpec `json:"spec,omitempty"`
	// status is the machine that is there. It is written through /status only.
	// +optional
	Status VirtualMachineStatus `json:"status,omitempty"`
}

// VirtualMachineSpec is the machine that is wanted.
type VirtualMachineSpec struct {
	// image is what the machine boots, such as debian-12.
	Image string `json:"image"`
	// storageClassName is the class of the machine's disks: a DNS subdomain name.
	// +optional
	StorageClassName string `json:"storageClassName,omitempty"`
	// nodeName is the node that the machine is placed on: a DNS subdomain name.
	// +optional
	// +k8s:openapi-gen=x-kubernetes-permission-verb:nodeAssignment
	NodeName string `json:"nodeName,omitempty"`
	// adminAccess gives the machine access to devices in use.
	// +optional
	// +k8s:openapi-gen=x-kubernetes-permission-verb:adminDevices
	AdminAccess *bool `json:"adminAccess,omitempty"`
	// cpuShare is the number of processors that the machine is guaranteed, fractions
	// included; greater than 0 and at most 1024. Defaults to 1.
	// +optional
	CPUShare *float64 `json:"cpuShare,omitempty"`
	// memory is the memory of the machine: a quantity greater than 0, such as 2Gi, of at most 32 bytes and with an exponent of at most two digits.
	// +optional
	Memory *string `json:"memory,omitempty"`
	// disks are the disks of the machine, by name; at most 64.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=name
	// +k8s:openapi-gen=x-kubernetes-permission-verb:storage
	Disks []VirtualMachineDisk `json:"disks,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	// tags are words that describe the machine; at most 64, without duplicates.
	// +optional
	// +listType=set
	// +k8s:openapi-gen=x-kubernetes-permission-verb:tag
	// +k8s:openapi-gen=x-kubernetes-permission-parameter-source:tag
	// +k8s:openapi-gen=x-kubernetes-permission-parameterized-by:tag
	Tags []string `json:"tags,omitempty"`
}

// VirtualMachineDisk is a disk of a machine.
// +k8s:openapi-gen=x-kubernetes-permission-verb:disk
// +k8s:openapi-gen=x-kubernetes-permission-parameterized-by:disk-name
type VirtualMachineDisk struct {
	// name identifies the disk within its machine: a DNS label.
	// +k8s:openapi-gen=x-kubernetes-permission-parameter-source:disk-name
	Name string `json:"name"`
	// sizeGiB is the size of the disk in GiB, fractions included; greater than 0.
	SizeGiB float64 `json:"sizeGiB"`
	// storageClassName is the class of this disk, if not that of the machine.
	// +optional
	StorageClassName string `json:"storageClassName,omitempty"`
}

// VirtualMachineStatus is the machine that is there.
type VirtualMachineStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is what the machine is doing: Pending, Running or Stopped.
	// +optional
	Phase VirtualMachinePhase `json:"phase,omitempty"`
	// conditions describe the machine in detail.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// VirtualMachinePhase is what a machine is doing.
// +enum
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
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the machines.
	Items []VirtualMachine `json:"items"`
}

// +k8s:conversion-gen:explicit-from=net/url.Values
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VirtualMachineConsoleOptions are the query parameters of a connection to a machine's
// console. The console of an imaginary machine echoes them.
type VirtualMachineConsoleOptions struct {
	metav1.TypeMeta `json:",inline"`

	// command is the command to run in the machine, and its arguments.
	// +optional
	// +listType=atomic
	Command []string `json:"command,omitempty"`
	// stdin says that the client will send input.
	// +optional
	Stdin bool `json:"stdin,omitempty"`
}
