/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EnforcementEffective is the type of the condition in the status of an EnforcementConfiguration.
const EnforcementEffective = "Effective"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// EnforcementConfiguration names resources of another aggregated server that enforces conditions on them with Proviso's
// library. While the APIServices of its versions name that server, the front door lets writes to these resources pass on
// conditions, and does not deny because of conditions that could deny. If the server evaluates no conditions, the
// conditions have no effect: to write a configuration, a user needs the verb escalate on it.
type EnforcementConfiguration struct {
	metav1.TypeMeta
	// metadata is the standard object metadata. The name has at most 63 characters.
	metav1.ObjectMeta

	// Spec has the resources and their server.
	Spec EnforcementConfigurationSpec
	// Status shows whether the configuration is applied. It is written through /status only.
	Status EnforcementConfigurationStatus
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// EnforcementConfigurationList is a list of configurations.
type EnforcementConfigurationList struct {
	metav1.TypeMeta
	// metadata is the standard list metadata.
	metav1.ListMeta

	// Items are the configurations.
	Items []EnforcementConfiguration
}

// EnforcementConfigurationSpec is the specification of a configuration.
type EnforcementConfigurationSpec struct {
	// Description is the purpose of the configuration; at most 1024 bytes.
	Description string
	// APIGroup is the API group of the resources, a DNS subdomain with a dot; at most 253 bytes. Groups of Kubernetes that
	// kube-apiserver serves and groups of Proviso are refused.
	APIGroup string
	// APIVersions are the versions in which the server enforces conditions, without wildcards. In another version,
	// conditions are folded. At least 1 and at most 16, each of at most 63 bytes.
	APIVersions []string
	// Resources are the resources, such as things, and subresources, such as things/status, without wildcards. Of a
	// subresource, only update and patch pass on conditions; attach, exec, finalizers, portforward and proxy are refused.
	// At least 1 and at most 64, each of at most 253 bytes.
	Resources []string
	// Service is the Service of the server, which the APIService of each version must name.
	Service EnforcementService
}

// EnforcementService is a Service, as an APIService names it.
type EnforcementService struct {
	// Namespace is the namespace of the Service; at most 63 bytes.
	Namespace string
	// Name is the name of the Service; at most 63 bytes.
	Name string
	// Port is the port of the Service, from 1 to 65535. Defaults to 443.
	Port int32
}

// EnforcementConfigurationStatus is the status of a configuration.
type EnforcementConfigurationStatus struct {
	// ObservedGeneration is the generation of the configuration that the status describes.
	ObservedGeneration int64
	// Conditions are Effective, and conditions of other controllers; at most 16.
	Conditions []metav1.Condition
}
