/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ParameterTreatment says what is made of a key to get the parameter of a permission.
type ParameterTreatment string

const (
	// ParameterTreatmentVerbatim takes the key as it is.
	ParameterTreatmentVerbatim ParameterTreatment = "Verbatim"
	// ParameterTreatmentSlashDelimitedPrefix takes what comes before the first slash: of the
	// label example.com/x it is example.com, and of one without slash all.
	ParameterTreatmentSlashDelimitedPrefix ParameterTreatment = "SlashDelimitedPrefix"
	// ParameterTreatmentExpression takes what a CEL expression makes of the key.
	ParameterTreatmentExpression ParameterTreatment = "Expression"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// FieldPermissionMapping says which permissions the fields of some resources need in
// fine-grained authorization (KEP-3617): who may not write an object may still change a
// field with the verb granular and the verb granular:PERMISSION, and a field that is
// excluded needs that verb even from those who may write the object.
type FieldPermissionMapping struct {
	metav1.TypeMeta
	// metadata is the standard object metadata. The name has at most 63 characters.
	metav1.ObjectMeta

	// Spec is what the mapping says.
	Spec FieldPermissionMappingSpec
	// Status is what became of it. It is written through /status only.
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

// FieldPermissionMappingSpec is what a mapping says.
type FieldPermissionMappingSpec struct {
	// Description says what the mapping is for, and is shown in refusals; at most 1024 bytes.
	Description string
	// Resources are the resources whose objects have the fields, subresources included. At
	// least 1 and at most 64.
	Resources []FieldPermissionResource
	// Fields are the fields and what each needs. At least 1 and at most 256, no two of which
	// have the same path.
	Fields []FieldPermission
}

// FieldPermissionResource is a resource.
type FieldPermissionResource struct {
	// APIGroup is the group of the resource; empty for the core group.
	APIGroup string
	// APIVersions are the versions in which the objects have these fields; if omitted, all. If
	// fields are excluded in one version and a request comes in another, the excluded
	// permissions must be mapped for that version, too, or it needs them whatever it changes.
	APIVersions []string
	// Resource is the resource, such as pods.
	Resource string
}

// FieldPermission is a field and what it needs.
type FieldPermission struct {
	// Path is the path of the field, such as spec.nodeName, metadata.labels[*] for each label,
	// metadata.labels["example.com/x"] for one, or status.conditions[type="Ready"]. It includes
	// what is below it. At most 1024 bytes.
	Path string
	// Permission is the name of the permission, in lowerCamelCase; at most 63 bytes. It should be a
	// noun for the concept, under which the same field of other kinds and versions fits. The
	// verb is granular:PERMISSION, or granular:PERMISSION(PARAMETER).
	Permission string
	// Parameter makes a parameter of what the path has in the place of its last [*]. If omitted,
	// the permission has none.
	Parameter *FieldPermissionParameter
	// Exclusion excludes the field from what permission on the whole object includes: it needs
	// its own permission whoever writes it. If omitted, it does not.
	Exclusion *FieldExclusion
}

// FieldPermissionParameter makes a parameter of a key.
type FieldPermissionParameter struct {
	// Key is the key field of a list with keys that is the parameter. If omitted, the only one.
	Key string
	// Treatment says what is made of it: Verbatim, SlashDelimitedPrefix or Expression.
	// Defaults to Verbatim.
	Treatment ParameterTreatment
	// Expression is the CEL expression of the treatment Expression: it reads parameter, a
	// string, and yields a string. At most 1024 bytes.
	Expression string
}

// FieldExclusion excludes a field.
type FieldExclusion struct {
	// NewValues is a CEL expression that limits the exclusion to some changes: it reads value,
	// what the field becomes, and oldValue, what it was, null if there is none, and yields a
	// bool. The field is excluded if it is true or fails. If omitted, every change is
	// excluded. At most 1024 bytes.
	NewValues string
}

// FieldPermissionMappingStatus is what became of a mapping.
type FieldPermissionMappingStatus struct {
	// ObservedGeneration is the generation of the mapping that the status describes.
	ObservedGeneration int64
	// Conditions describe whether the mapping is in force. At most 16.
	Conditions []metav1.Condition
}
