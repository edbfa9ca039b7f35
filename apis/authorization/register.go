/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group that this package registers. kube-apiserver serves the
// same group at v1; Proviso serves it at v1alpha1 through an APIService.
const GroupName = "authorization.k8s.io"

// ProvisoGroupName is the API group in which Proviso serves the same kinds. Unlike GroupName, which kube-apiserver may serve
// itself one day, it belongs to Proviso.
const ProvisoGroupName = "authorization.proviso.dev"

// OtherGroup returns the other group of reviews if group is one of them.
func OtherGroup(group string) (other string, ok bool) {
	switch group {
	case GroupName:
		return ProvisoGroupName, true
	case ProvisoGroupName:
		return GroupName, true
	}
	return "", false
}

// SchemeGroupVersion is the internal version of the group.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: runtime.APIVersionInternal}

var (
	// SchemeBuilder collects the functions that register this package's types.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme registers the internal types with a scheme, in both groups.
	AddToScheme = SchemeBuilder.AddToScheme
)

// Kind qualifies a kind with the group.
func Kind(kind string) schema.GroupKind {
	return SchemeGroupVersion.WithKind(kind).GroupKind()
}

// Resource qualifies a resource with the group.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	for _, group := range [...]string{GroupName, ProvisoGroupName} {
		scheme.AddKnownTypes(schema.GroupVersion{Group: group, Version: runtime.APIVersionInternal},
			&SubjectAccessReview{},
			&SelfSubjectAccessReview{},
			&LocalSubjectAccessReview{},
			&AuthorizationConditionsReview{},
			&ImpersonationReview{},
		)
	}
	return nil
}
