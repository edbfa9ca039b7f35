/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
)

// excludedFromAdmission are the resources that are hidden from admission webhooks and policies, as
// kube-apiserver hides its own reviews: an unavailable webhook must not prevent reviews, and no
// webhook may change one.
var excludedFromAdmission = []schema.GroupResource{
	authorizationapi.Resource("subjectaccessreviews"),
	authorizationapi.Resource("selfsubjectaccessreviews"),
	authorizationapi.Resource("localsubjectaccessreviews"),
	authorizationapi.Resource("authorizationconditionsreviews"),
	authorizationapi.Resource("impersonationreviews"),
}

// exclusions is an initializer that hides excludedFromAdmission from admission plugins.
type exclusions struct{}

var _ admission.PluginInitializer = exclusions{}

func (exclusions) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(initializer.WantsExcludedAdmissionResources); ok {
		wants.SetExcludedAdmissionResources(excludedFromAdmission)
	}
}
