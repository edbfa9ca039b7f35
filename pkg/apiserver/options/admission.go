/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
)

// excludedFromAdmission are the resources that are hidden from admission webhooks and policies, as
// kube-apiserver hides its own reviews: an unavailable webhook must not prevent reviews, and no
// webhook may change one.
var excludedFromAdmission = reviewsIn(authorizationapi.GroupName, authorizationapi.ProvisoGroupName)

// reviewsIn returns the resources of reviews in some groups.
func reviewsIn(groups ...string) (resources []schema.GroupResource) {
	for _, group := range groups {
		for _, resource := range []string{
			"subjectaccessreviews", "selfsubjectaccessreviews", "localsubjectaccessreviews", "authorizationconditionsreviews", "impersonationreviews",
		} {
			resources = append(resources, schema.GroupResource{Group: group, Resource: resource})
		}
	}
	return resources
}

// exclusions is an initializer that hides excludedFromAdmission from admission plugins.
type exclusions struct{}

var _ admission.PluginInitializer = exclusions{}

func (exclusions) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(initializer.WantsExcludedAdmissionResources); ok {
		wants.SetExcludedAdmissionResources(excludedFromAdmission)
	}
}

// withoutNamespaces decorates the plugin NamespaceLifecycle, which refuses objects in namespaces that do not exist. The plugin
// does not check LocalSubjectAccessReviews of authorization.k8s.io: its error would tell the caller which namespaces exist. The
// decorator does the same for LocalSubjectAccessReviews of authorization.proviso.dev.
func withoutNamespaces(plugin admission.Interface, name string) admission.Interface {
	if mutates, ok := plugin.(admission.MutationInterface); ok && name == lifecycle.PluginName {
		return exceptLocalReviews{mutates}
	}
	return plugin
}

type exceptLocalReviews struct{ admission.MutationInterface }

// Admit implements admission.MutationInterface.
func (e exceptLocalReviews) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() == (schema.GroupResource{Group: authorizationapi.ProvisoGroupName, Resource: "localsubjectaccessreviews"}) {
		return nil
	}
	return e.MutationInterface.Admit(ctx, a, o)
}
