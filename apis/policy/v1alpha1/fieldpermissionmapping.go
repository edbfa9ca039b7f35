/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ParameterTreatment determines how a key becomes the parameter of a permission.
// +enum
type ParameterTreatment string

const (
	// ParameterTreatmentVerbatim uses the key without changes.
	ParameterTreatmentVerbatim ParameterTreatment = "Verbatim"
	// ParameterTreatmentSlashDelimitedPrefix uses the part before the first slash, such as
	// example.com for the label example.com/x. A key without a slash is used as a whole.
	ParameterTreatmentSlashDelimitedPrefix ParameterTreatment = "SlashDelimitedPrefix"
	// ParameterTreatmentExpression uses the result of a CEL expression over the key.
	ParameterTreatmentExpression ParameterTreatment = "Expression"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// FieldPermissionMapping defines the permissions that fields of some resources need in
// fine-grained authorization (KEP-3617). A user without permission to write an object may
// change a field with the verbs granular and granular:PERMISSION. For an excluded field, users
// with permission to write the object also need the verb granular:PERMISSION.
type FieldPermissionMapping struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name has at most 63 characters.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec has the fields and their permissions.
	Spec FieldPermissionMappingSpec `json:"spec"`
	// status shows whether the mapping is applied. It is written through /status only.
	// +optional
	Status FieldPermissionMappingStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// FieldPermissionMappingList is a list of mappings.
type FieldPermissionMappingList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the mappings.
	Items []FieldPermissionMapping `json:"items"`
}

// FieldPermissionMappingSpec is the specification of a mapping.
type FieldPermissionMappingSpec struct {
	// description is the purpose of the mapping, and is shown in denials; at most 1024 bytes.
	// +optional
	Description string `json:"description,omitempty"`
	// resources are the resources whose objects have the fields, including their subresources.
	// At least 1 and at most 64.
	// +listType=atomic
	Resources []FieldPermissionResource `json:"resources"`
	// fields are the fields and the permission that each one needs. At least 1 and at most
	// 256, with different paths.
	// +listType=atomic
	Fields []FieldPermission `json:"fields"`
}

// FieldPermissionResource is a resource.
type FieldPermissionResource struct {
	// apiGroup is the API group of the resource; empty for the core group. At most 253 bytes.
	// +optional
	APIGroup string `json:"apiGroup,omitempty"`
	// apiVersions are the versions in which the objects have these fields. If omitted, all
	// versions. If fields are excluded in one version, map their permissions in the other
	// versions as well: otherwise every write in another version needs these permissions,
	// whatever it changes. At most 64, each of at most 63 bytes.
	// +optional
	// +listType=set
	APIVersions []string `json:"apiVersions,omitempty"`
	// resource is the resource, such as pods; at most 253 bytes.
	Resource string `json:"resource"`
}

// FieldPermission is a field and the permission that it needs.
type FieldPermission struct {
	// path is the path of the field, such as spec.nodeName, metadata.labels[*] for each label,
	// metadata.labels["example.com/x"] for one label, or status.conditions[type="Ready"]. It
	// includes all fields below it. At most 1024 bytes.
	Path string `json:"path"`
	// permission is the name of the permission, in lowerCamelCase; at most 63 bytes. It should
	// be a noun for the concept that also fits the same field of other kinds and versions. The
	// verb is granular:PERMISSION, or granular:PERMISSION(PARAMETER).
	Permission string `json:"permission"`
	// parameter derives a parameter of the permission from the key at the last [*] of the
	// path. If omitted, the permission has no parameter.
	// +optional
	Parameter *FieldPermissionParameter `json:"parameter,omitempty"`
	// exclusion excludes the field from permission on the object: every user who changes the
	// field needs its own permission. If omitted, permission on the object includes the field.
	// +optional
	Exclusion *FieldExclusion `json:"exclusion,omitempty"`
}

// FieldPermissionParameter derives a parameter from a key.
type FieldPermissionParameter struct {
	// key is the key field of the list's elements that becomes the parameter. It may be
	// omitted if there is only one. At most 253 bytes.
	// +optional
	Key string `json:"key,omitempty"`
	// treatment determines how the key becomes the parameter. Defaults to Verbatim.
	// +optional
	Treatment ParameterTreatment `json:"treatment,omitempty"`
	// expression is the CEL expression for the treatment Expression. It reads the string
	// parameter and yields a string. At most 1024 bytes.
	// +optional
	Expression string `json:"expression,omitempty"`
}

// FieldExclusion excludes a field from permission on the object.
type FieldExclusion struct {
	// newValues is a CEL expression of type bool that limits the exclusion to some changes. It
	// reads value, the new value of the field, and oldValue, the old value, or null if there
	// is none. The field is excluded if the expression is true or fails. If omitted, every
	// change is excluded. At most 1024 bytes.
	// +optional
	NewValues string `json:"newValues,omitempty"`
}

// FieldPermissionMappingStatus is the status of a mapping.
type FieldPermissionMappingStatus struct {
	// observedGeneration is the generation of the mapping that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions describe whether the mapping is applied. At most 16.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}
