/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package install registers the API group config.proviso.dev with a scheme, all versions at
// once.
package install

import (
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/proviso-authz/proviso/apis/config"
	"github.com/proviso-authz/proviso/apis/config/v1alpha1"
)

// Install registers the internal types of config.proviso.dev and every version of it.
func Install(scheme *runtime.Scheme) {
	utilruntime.Must(config.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(scheme.SetVersionPriority(v1alpha1.SchemeGroupVersion))
}
