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

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/barrier"
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

// TestPoliciesOfOtherResources checks which ValidatingAdmissionPolicies the admission plugin finds: those that may match a resource of this server.
func TestPoliciesOfOtherResources(t *testing.T) {
	t.Parallel()
	wanted := map[string]bool{"none": true, "all": true, "demo": true, "policies": true, "reviews": true, "core": false, "apps": false}
	objects := []runtime.Object{
		policyAbout("none"), policyAbout("all", []string{"apps"}, []string{"*"}), policyAbout("demo", []string{"apps", demov1alpha1.SchemeGroupVersion.Group}),
		policyAbout("policies", []string{policyv1alpha1.GroupName}), policyAbout("reviews", []string{authorizationapi.ProvisoGroupName}),
		policyAbout("core", []string{""}), policyAbout("apps", []string{"apps"}, []string{"example.com"}),
	}
	factory := servedPolicies{informers.NewSharedInformerFactory(fake.NewClientset(objects...), 0)}
	informer := factory.Admissionregistration().V1().ValidatingAdmissionPolicies().Informer()
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	if got := len(informer.GetStore().List()); got != len(objects) {
		t.Errorf("other users of the informer find %d policies, want %d", got, len(objects))
	}
	for name, want := range wanted {
		if _, exists, err := informer.GetIndexer().GetByKey(name); exists != want || err != nil {
			t.Errorf("%s: got %v, %v, want %v", name, exists, err, want)
		}
	}
}

// policyAbout returns a policy with a rule for each list of groups.
func policyAbout(name string, rules ...[]string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	constraints := &admissionregistrationv1.MatchResources{}
	for _, groups := range rules {
		constraints.ResourceRules = append(constraints.ResourceRules, barrier.NewRule(groups, []string{"*"}, nil, admissionregistrationv1.Create))
	}
	return barrier.NewPolicy(metav1.ObjectMeta{Name: name}, admissionregistrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: constraints})
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
