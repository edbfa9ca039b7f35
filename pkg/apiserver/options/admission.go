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

// excludedFromAdmission are the resources that admission webhooks and policies never
// see, as kube-apiserver excludes its own reviews: a webhook that is down must not keep
// anybody from finding out what is allowed, and none may change the question.
var excludedFromAdmission = []schema.GroupResource{
	authorizationapi.Resource("subjectaccessreviews"),
	authorizationapi.Resource("selfsubjectaccessreviews"),
	authorizationapi.Resource("localsubjectaccessreviews"),
	authorizationapi.Resource("authorizationconditionsreviews"),
	authorizationapi.Resource("impersonationreviews"),
}

// exclusions tells admission plugins what they never see.
type exclusions struct{}

var _ admission.PluginInitializer = exclusions{}

func (exclusions) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(initializer.WantsExcludedAdmissionResources); ok {
		wants.SetExcludedAdmissionResources(excludedFromAdmission)
	}
}
