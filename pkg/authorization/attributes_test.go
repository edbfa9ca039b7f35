/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
)

func TestAttributesOf(t *testing.T) {
	t.Parallel()
	resource := func(a authorizationv1.ResourceAttributes) *authorizationv1.ResourceAttributes { return &a }
	for _, tc := range []struct {
		name        string
		resource    *authorizationv1.ResourceAttributes
		nonResource *authorizationv1.NonResourceAttributes
		want        string
		wantVersion string
		wantErrors  string
	}{
		{name: "a path", nonResource: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}, want: "get /metrics"},
		{name: "a resource", wantVersion: "v1", want: "create exec of pods/p in n",
			resource: resource(authorizationv1.ResourceAttributes{Verb: "create", Version: "v1", Resource: "pods", Subresource: "exec", Namespace: "n", Name: "p"})},
		{name: "no version means all", wantVersion: "*", want: "get  of pods/ in ", resource: resource(authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"})},
		{name: "raw selectors", wantVersion: "*", want: "list  of pods/ in  label a in (x,y) label !b field spec.nodeName=n field status.phase!=Failed",
			resource: resource(authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods",
				LabelSelector: &authorizationv1.LabelSelectorAttributes{RawSelector: "!b,a in (y,x)"},
				FieldSelector: &authorizationv1.FieldSelectorAttributes{RawSelector: "spec.nodeName=n,status.phase!=Failed"}})},
		{name: "requirements", wantVersion: "*", want: "list  of pods/ in  label a notin (x) label b field f=1 field g!=2",
			resource: resource(authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods",
				LabelSelector: &authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{
					{Key: "a", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"x"}}, {Key: "b", Operator: metav1.LabelSelectorOpExists, Values: []string{}}}},
				FieldSelector: &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{
					{Key: "f", Operator: metav1.FieldSelectorOpIn, Values: []string{"1"}}, {Key: "g", Operator: metav1.FieldSelectorOpNotIn, Values: []string{"2"}}}}})},
		{name: "selectors that cannot be parsed", wantVersion: "*", want: "list  of pods/ in ",
			wantErrors: "spec.resourceAttributes.fieldSelector ignored due to parse error; spec.resourceAttributes.labelSelector ignored due to parse error",
			resource: resource(authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods",
				LabelSelector: &authorizationv1.LabelSelectorAttributes{RawSelector: "a in ("},
				FieldSelector: &authorizationv1.FieldSelectorAttributes{RawSelector: "a"}})},
		{name: "requirements of which some are unknown", wantVersion: "*", want: "list  of pods/ in  label a field f=1",
			wantErrors: "spec.resourceAttributes.fieldSelector partially ignored due to parse error; spec.resourceAttributes.labelSelector partially ignored due to parse error",
			resource: resource(authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods",
				LabelSelector: &authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{
					{Key: "a", Operator: metav1.LabelSelectorOpExists}, {Key: "b", Operator: "Near"}, {Key: "c", Operator: metav1.LabelSelectorOpIn}}},
				FieldSelector: &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{
					{Key: "f", Operator: metav1.FieldSelectorOpIn, Values: []string{"1"}}, {Key: "g", Operator: metav1.FieldSelectorOpExists}, {Key: "h", Operator: metav1.FieldSelectorOpIn, Values: []string{"1", "2"}}}}})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := authorization.AttributesOf(&user.DefaultInfo{Name: "u"}, tc.resource, tc.nonResource)
			text := got.Verb + " " + got.Path
			if got.ResourceRequest {
				text = got.Verb + " " + got.Subresource + " of " + got.Resource + "/" + got.Name + " in " + got.Namespace
			}
			for _, r := range got.LabelSelectorRequirements {
				text += " label " + r.String()
			}
			for _, r := range got.FieldSelectorRequirements {
				text += " field " + r.Field + string(r.Operator) + r.Value
			}
			if text != tc.want || got.APIVersion != tc.wantVersion || got.User.GetName() != "u" {
				t.Errorf("got %q in version %q for %q, want %q in version %q", text, got.APIVersion, got.User.GetName(), tc.want, tc.wantVersion)
			}
			if errs := authorization.SelectorErrors(got); errs != tc.wantErrors {
				t.Errorf("got selector errors %q, want %q", errs, tc.wantErrors)
			}
		})
	}
}

func TestSubjectOf(t *testing.T) {
	t.Parallel()
	got := authorization.SubjectOf(&authorizationapi.SubjectAccessReviewSpec{
		User: "u", UID: "1", Groups: []string{"g"}, Extra: map[string]authorizationv1.ExtraValue{"k": {"v", "w"}},
	})
	want := &user.DefaultInfo{Name: "u", UID: "1", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v", "w"}}}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("user (-want +got):\n%s", diff)
	}
}

func TestHasReservedExtra(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]bool{
		"authorization.proviso.dev/impersonation-conditions": true,
		"Authorization.proviso.dev/Impersonation-Conditions": true,
		"authorization.proviso.dev/impersonation":            false,
		"": false,
	} {
		if got := authorization.HasReservedExtra(&user.DefaultInfo{Extra: map[string][]string{key: nil}}); got != want {
			t.Errorf("%q: got %v, want %v", key, got, want)
		}
	}
	if authorization.HasReservedExtra(nil) || authorization.HasReservedExtra(&user.DefaultInfo{}) {
		t.Error("nobody, or somebody without extra, has it")
	}
}

func TestPathOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		attributes authorizer.AttributesRecord
		want       string
	}{
		{"a resource in a request, which has a URL", authorizer.AttributesRecord{ResourceRequest: true, Resource: "pods", Path: "/api/v1/pods"}, ""},
		{"a resource in a review", authorizer.AttributesRecord{ResourceRequest: true, Resource: "pods"}, ""},
		{"a path", authorizer.AttributesRecord{Path: "/metrics"}, "/metrics"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := authorization.PathOf(tc.attributes); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
