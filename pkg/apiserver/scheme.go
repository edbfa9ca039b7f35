/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	authorizationinstall "github.com/proviso-authz/proviso/apis/authorization/install"
	demoinstall "github.com/proviso-authz/proviso/apis/demo/install"
	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	policyinstall "github.com/proviso-authz/proviso/apis/policy/install"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

var (
	// Scheme has every type that the server serves.
	Scheme = runtime.NewScheme()
	// Codecs encodes and decodes the types of Scheme.
	Codecs = serializer.NewCodecFactory(Scheme)
	// ParameterCodec decodes query parameters, including the parameters of connect subresources.
	ParameterCodec = runtime.NewParameterCodec(Scheme)
)

// withoutProtobuf does not offer protobuf, which the types do not have. Clients that prefer it and accept JSON as well get JSON: the
// controller of namespaces is one of them, and a namespace would never go if its deletecollection were answered with 406.
type withoutProtobuf struct {
	runtime.NegotiatedSerializer
}

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (s withoutProtobuf) SupportedMediaTypes() []runtime.SerializerInfo {
	return slices.DeleteFunc(slices.Clone(s.NegotiatedSerializer.SupportedMediaTypes()), func(info runtime.SerializerInfo) bool {
		return info.MediaType == runtime.ContentTypeProtobuf
	})
}

// StorageVersions are the versions in which objects are stored. The objects of other groups are
// not stored.
var StorageVersions = schema.GroupVersions{policyv1alpha1.SchemeGroupVersion, demov1alpha1.SchemeGroupVersion}

func init() {
	Install(Scheme)
}

// Install registers every type that the server serves with a scheme.
func Install(scheme *runtime.Scheme) {
	authorizationinstall.Install(scheme)
	policyinstall.Install(scheme)
	demoinstall.Install(scheme)

	// The options and status types that every API server needs, under the unversioned
	// "v1" that clients expect them in.
	unversioned := schema.GroupVersion{Group: "", Version: "v1"}
	metav1.AddToGroupVersion(scheme, unversioned)
	scheme.AddUnversionedTypes(unversioned,
		&metav1.Status{},
		&metav1.APIVersions{},
		&metav1.APIGroupList{},
		&metav1.APIGroup{},
		&metav1.APIResourceList{},
	)
	utilruntime.Must(scheme.SetVersionPriority(unversioned))
}
