/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
)

// GroupName is the API group of this package.
const GroupName = "authorization.proviso.dev"

// SchemeGroupVersion is the group and version of this package.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

var (
	// SchemeBuilder collects the functions that register the kinds of this group, which the package of the other
	// group registers with another name.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes, v1alpha1.RegisterDefaults, v1alpha1.RegisterConversions)
	// AddToScheme registers the kinds of this version with a scheme. A scheme with both groups has two
	// group-version-kinds for each Go type.
	AddToScheme = SchemeBuilder.AddToScheme
)

// Resource qualifies a resource with the group.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	return v1alpha1.AddKnownTypes(scheme, SchemeGroupVersion)
}
