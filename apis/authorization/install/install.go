/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package install registers the API groups authorization.k8s.io and authorization.proviso.dev with a
// scheme, all versions at once. Binaries that serve the groups import it; clients import a version.
package install

import (
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	provisov1alpha1 "github.com/proviso-authz/proviso/apis/authorizationproviso/v1alpha1"
)

// Install registers the internal types of both groups and every version of them. The types of both
// groups are the same Go types.
func Install(scheme *runtime.Scheme) {
	utilruntime.Must(authorization.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(provisov1alpha1.AddToScheme(scheme))
	utilruntime.Must(scheme.SetVersionPriority(v1alpha1.SchemeGroupVersion))
	utilruntime.Must(scheme.SetVersionPriority(provisov1alpha1.SchemeGroupVersion))
}
