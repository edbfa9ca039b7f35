/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/apiserver"
)

// wantsExclusions is an admission plugin that records what it is told to leave alone.
type wantsExclusions struct {
	admission.Interface
	excluded []schema.GroupResource
}

func (w *wantsExclusions) SetExcludedAdmissionResources(resources []schema.GroupResource) {
	w.excluded = resources
}

func (w *wantsExclusions) ValidateInitialization() error { return nil }

// TestReviewsAreExcludedFromAdmission goes by the kinds of both groups, so that a review
// that is added is not forgotten.
func TestReviewsAreExcludedFromAdmission(t *testing.T) {
	t.Parallel()
	plugin := &wantsExclusions{}
	exclusions{}.Initialize(plugin)
	for kind, goType := range apiserver.Scheme.KnownTypes(authorizationapi.SchemeGroupVersion) {
		if !strings.HasSuffix(goType.PkgPath(), "/apis/authorization") {
			continue // a type that every group has
		}
		for _, group := range []string{authorizationapi.GroupName, authorizationapi.ProvisoGroupName} {
			resource := schema.GroupResource{Group: group, Resource: strings.ToLower(kind) + "s"}
			if !slices.Contains(plugin.excluded, resource) {
				t.Errorf("%s is not excluded", resource)
			}
		}
	}
	if len(plugin.excluded) == 0 {
		t.Error("nothing is excluded")
	}
}

// refusing is an admission plugin that refuses everything.
type refusing struct{ *admission.Handler }

func (refusing) Admit(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return errors.New("refused")
}

// TestLocalReviewsInUnknownNamespaces checks that the decorated NamespaceLifecycle does not check LocalSubjectAccessReviews of
// authorization.proviso.dev, and checks everything else. The plugin itself makes the exception for authorization.k8s.io.
func TestLocalReviewsInUnknownNamespaces(t *testing.T) {
	t.Parallel()
	plugin := refusing{admission.NewHandler(admission.Create)}
	for _, tc := range []struct {
		name, plugin, group, resource string
		want                          bool
	}{
		{name: "in the own group", plugin: lifecycle.PluginName, group: authorizationapi.ProvisoGroupName, resource: "localsubjectaccessreviews", want: true},
		{name: "in the other group", plugin: lifecycle.PluginName, group: authorizationapi.GroupName, resource: "localsubjectaccessreviews"},
		{name: "another resource", plugin: lifecycle.PluginName, group: authorizationapi.ProvisoGroupName, resource: "subjectaccessreviews"},
		{name: "the resource of another group", plugin: lifecycle.PluginName, group: "demo.proviso.dev", resource: "localsubjectaccessreviews"},
		{name: "another plugin", plugin: "AuthorizationConditionsEnforcer", group: authorizationapi.ProvisoGroupName, resource: "localsubjectaccessreviews"},
	} {
		decorated, ok := withoutNamespaces(plugin, tc.plugin).(admission.MutationInterface)
		if !ok {
			t.Fatalf("%s: the plugin does not mutate any more", tc.name)
		}
		a := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "missing", "", schema.GroupVersionResource{Group: tc.group, Version: "v1alpha1", Resource: tc.resource}, "", admission.Create, nil, false, nil)
		if got := decorated.Admit(t.Context(), a, nil) == nil; got != tc.want || !decorated.Handles(admission.Create) {
			t.Errorf("%s: left alone: %v, want %v", tc.name, got, tc.want)
		}
	}
}
