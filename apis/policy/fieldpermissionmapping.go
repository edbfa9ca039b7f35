/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ParameterTreatment determines how a key becomes the parameter of a permission.
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

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// FieldPermissionMapping defines the permissions that fields of some resources need in
// fine-grained authorization (KEP-3617). A user without permission to write an object may
// change a field with the verbs granular and granular:PERMISSION. For an excluded field, users
// with permission to write the object also need the verb granular:PERMISSION.
type FieldPermissionMapping struct {
	metav1.TypeMeta
	// metadata is the standard object metadata. The name has at most 63 characters.
	metav1.ObjectMeta

	// Spec has the fields and their permissions.
	Spec FieldPermissionMappingSpec
	// Status shows whether the mapping is applied. It is written through /status only.
	Status FieldPermissionMappingStatus
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// FieldPermissionMappingList is a list of mappings.
type FieldPermissionMappingList struct {
	metav1.TypeMeta
	// metadata is the standard list metadata.
	metav1.ListMeta

	// Items are the mappings.
	Items []FieldPermissionMapping
}

// FieldPermissionMappingSpec is the specification of a mapping.
type FieldPermissionMappingSpec struct {
	// Description is the purpose of the mapping, and is shown in denials; at most 1024 bytes.
	Description string
	// Resources are the resources whose objects have the fields, including their subresources.
	// At least 1 and at most 64.
	Resources []FieldPermissionResource
	// Fields are the fields and the permission that each one needs. At least 1 and at most
	// 256, with different paths.
	Fields []FieldPermission
}

// FieldPermissionResource is a resource.
type FieldPermissionResource struct {
	// APIGroup is the API group of the resource; empty for the core group.
	APIGroup string
	// APIVersions are the versions in which the objects have these fields. If omitted, all
	// versions. If fields are excluded in one version, map their permissions in the other
	// versions as well: otherwise every write in another version needs these permissions,
	// whatever it changes.
	APIVersions []string
	// Resource is the resource, such as pods.
	Resource string
}

// FieldPermission is a field and the permission that it needs.
type FieldPermission struct {
	// Path is the path of the field, such as spec.nodeName, metadata.labels[*] for each label,
	// metadata.labels["example.com/x"] for one label, or status.conditions[type="Ready"]. It
	// includes all fields below it. At most 1024 bytes.
	Path string
	// Permission is the name of the permission, in lowerCamelCase; at most 63 bytes. It should
	// be a noun for the concept that also fits the same field of other kinds and versions. The
	// verb is granular:PERMISSION, or granular:PERMISSION(PARAMETER).
	Permission string
	// Parameter derives a parameter of the permission from the key at the last [*] of the
	// path. If omitted, the permission has no parameter.
	Parameter *FieldPermissionParameter
	// Exclusion excludes the field from permission on the object: every user who changes the
	// field needs its own permission. If omitted, permission on the object includes the field.
	Exclusion *FieldExclusion
}

// FieldPermissionParameter derives a parameter from a key.
type FieldPermissionParameter struct {
	// Key is the key field of the list's elements that becomes the parameter. It may be
	// omitted if there is only one.
	Key string
	// Treatment determines how the key becomes the parameter: Verbatim, SlashDelimitedPrefix
	// or Expression. Defaults to Verbatim.
	Treatment ParameterTreatment
	// Expression is the CEL expression for the treatment Expression. It reads the string
	// parameter and yields a string. At most 1024 bytes.
	Expression string
}

// FieldExclusion excludes a field from permission on the object.
type FieldExclusion struct {
	// NewValues is a CEL expression of type bool that limits the exclusion to some changes. It
	// reads value, the new value of the field, and oldValue, the old value, or null if there
	// is none. The field is excluded if the expression is true or fails. If omitted, every
	// change is excluded. At most 1024 bytes.
	NewValues string
}

// FieldPermissionMappingStatus is the status of a mapping.
type FieldPermissionMappingStatus struct {
	// ObservedGeneration is the generation of the mapping that the status describes.
	ObservedGeneration int64
	// Conditions describe whether the mapping is applied. At most 16.
	Conditions []metav1.Condition
}
