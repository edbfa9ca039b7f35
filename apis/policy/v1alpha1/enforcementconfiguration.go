/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EnforcementEffective is the type of the condition in the status of an EnforcementConfiguration. It is True if the
// front door lets requests to the resources pass on conditions, in all of its versions.
const EnforcementEffective = "Effective"

// The reasons of the condition Effective of an EnforcementConfiguration.
const (
	// ReasonRegistered means that the APIService of each version names the Service, and is available.
	ReasonRegistered = "Registered"
	// ReasonMissing means that a version has no APIService.
	ReasonMissing = "Missing"
	// ReasonKubeAPIServer means that the APIService of a version belongs to kube-apiserver.
	ReasonKubeAPIServer = "KubeAPIServer"
	// ReasonAnotherService means that the APIService of a version names another Service.
	ReasonAnotherService = "AnotherService"
	// ReasonUnavailable means that kube-apiserver does not reach the server of a version.
	ReasonUnavailable = "Unavailable"
	// ReasonUnknown means that the APIServices cannot be read.
	ReasonUnknown = "Unknown"
	// ReasonFrontDoorDisabled means that the front door is disabled.
	ReasonFrontDoorDisabled = "FrontDoorDisabled"
	// ReasonConditionsDisabled means that the feature gate ConditionalAuthorization is off.
	ReasonConditionsDisabled = "ConditionsDisabled"
	// ReasonDeleted means that the configuration is being deleted.
	ReasonDeleted = "Deleted"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// EnforcementConfiguration names resources of another aggregated server that enforces conditions on them with Proviso's
// library. While the APIServices of its versions name that server, the front door lets writes to these resources pass on
// conditions, and does not deny because of conditions that could deny. If the server evaluates no conditions, the
// conditions have no effect: to write a configuration, a user needs the verb escalate on it.
type EnforcementConfiguration struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name has at most 63 characters.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec has the resources and their server.
	Spec EnforcementConfigurationSpec `json:"spec"`
	// status shows whether the configuration is applied. It is written through /status only.
	// +optional
	Status EnforcementConfigurationStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// EnforcementConfigurationList is a list of configurations.
type EnforcementConfigurationList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the configurations.
	Items []EnforcementConfiguration `json:"items"`
}

// EnforcementConfigurationSpec is the specification of a configuration.
type EnforcementConfigurationSpec struct {
	// description is the purpose of the configuration; at most 1024 bytes.
	// +optional
	Description string `json:"description,omitempty"`
	// apiGroup is the API group of the resources, a DNS subdomain with a dot; at most 253 bytes. Groups of Kubernetes that
	// kube-apiserver serves and groups of Proviso are refused.
	APIGroup string `json:"apiGroup"`
	// apiVersions are the versions in which the server enforces conditions, without wildcards. In another version,
	// conditions are folded. At least 1 and at most 16, each of at most 63 bytes.
	// +listType=atomic
	APIVersions []string `json:"apiVersions"`
	// resources are the resources, such as things, and subresources, such as things/status, without wildcards. Of a
	// subresource, only update and patch pass on conditions; attach, exec, finalizers, portforward and proxy are refused.
	// At least 1 and at most 64, each of at most 253 bytes.
	// +listType=atomic
	Resources []string `json:"resources"`
	// service is the Service of the server, which the APIService of each version must name.
	Service EnforcementService `json:"service"`
}

// EnforcementService is a Service, as an APIService names it.
type EnforcementService struct {
	// namespace is the namespace of the Service; at most 63 bytes.
	Namespace string `json:"namespace"`
	// name is the name of the Service; at most 63 bytes.
	Name string `json:"name"`
	// port is the port of the Service, from 1 to 65535. Defaults to 443.
	// +optional
	Port int32 `json:"port,omitempty"`
}

// EnforcementConfigurationStatus is the status of a configuration.
type EnforcementConfigurationStatus struct {
	// observedGeneration is the generation of the configuration that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions are Effective, and conditions of other controllers; at most 16.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}
