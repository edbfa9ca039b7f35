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

// VirtualMachine is an imaginary machine for trying policies. It has fields of every JSON
// type.
type VirtualMachine struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the machine.
	// +optional
	Spec VirtualMachineSpec `json:"spec,omitempty"`
	// status is the current state of the machine. It is written through /status only.
	// +optional
	Status VirtualMachineStatus `json:"status,omitempty"`
}

// VirtualMachineSpec is the desired state of a machine.
type VirtualMachineSpec struct {
	// image is the image that the machine boots, such as debian-12; at most 256 bytes.
	Image string `json:"image"`
	// storageClassName is the storage class of the machine's disks: a DNS subdomain name.
	// +optional
	StorageClassName string `json:"storageClassName,omitempty"`
	// nodeName is the node on which the machine is placed: a DNS subdomain name.
	// +optional
	// +k8s:openapi-gen=x-kubernetes-permission-verb:nodeAssignment
	NodeName string `json:"nodeName,omitempty"`
	// adminAccess gives the machine access to devices that are in use.
	// +optional
	// +k8s:openapi-gen=x-kubernetes-permission-verb:adminDevices
	AdminAccess *bool `json:"adminAccess,omitempty"`
	// cpuShare is the guaranteed number of processors, which may be a fraction; greater than 0
	// and at most 1024. Defaults to 1.
	// +optional
	CPUShare *float64 `json:"cpuShare,omitempty"`
	// memory is the memory of the machine: a quantity greater than 0, such as 2Gi, of at most
	// 32 bytes and with an exponent of at most two digits.
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
	// tags are words that describe the machine; at most 64, without duplicates, each of at
	// most 256 bytes.
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
	// sizeGiB is the size of the disk in GiB, which may be a fraction; greater than 0.
	SizeGiB float64 `json:"sizeGiB"`
	// storageClassName is the storage class of this disk: a DNS subdomain name. If omitted, it is
	// the storage class of the machine.
	// +optional
	StorageClassName string `json:"storageClassName,omitempty"`
}

// VirtualMachineStatus is the current state of a machine.
type VirtualMachineStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is the phase of the machine: Pending, Running or Stopped.
	// +optional
	Phase VirtualMachinePhase `json:"phase,omitempty"`
	// conditions describe the state of the machine in detail; at most 16.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// VirtualMachinePhase is the phase of a machine.
// +enum
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
// console. The console of an imaginary machine returns them.
type VirtualMachineConsoleOptions struct {
	metav1.TypeMeta `json:",inline"`

	// command is the command to run in the machine, with its arguments.
	// +optional
	// +listType=atomic
	Command []string `json:"command,omitempty"`
	// stdin is true if the client sends input.
	// +optional
	Stdin bool `json:"stdin,omitempty"`
}
