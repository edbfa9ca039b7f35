/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
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
			lazy := authorization.LazyAttributesOf(&user.DefaultInfo{Name: "u"}, tc.resource, tc.nonResource, &decodedSelectors{resource: tc.resource})
			if diff := cmp.Diff(read(got), read(lazy)); diff != "" {
				t.Errorf("lazy attributes (-eager +lazy):\n%s", diff)
			}
		})
	}
}

// TestRequirementsAreReadAsATextIs has the requirements of a review in any order: they are those of a request that has them in its URL.
func TestRequirementsAreReadAsATextIs(t *testing.T) {
	t.Parallel()
	of := func(selector *authorizationv1.LabelSelectorAttributes) (shown []string) {
		resource := &authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", LabelSelector: selector}
		for _, r := range authorization.AttributesOf(&user.DefaultInfo{}, resource, nil).LabelSelectorRequirements {
			shown = append(shown, fmt.Sprint(r.Key(), " ", r.Operator(), " ", r.ValuesUnsorted()))
		}
		return shown
	}
	review := &authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{
		{Key: "b", Operator: metav1.LabelSelectorOpIn, Values: []string{"y", "x", "y"}}, {Key: "c", Operator: metav1.LabelSelectorOpExists},
		{Key: "a", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"x"}}}}
	want := of(&authorizationv1.LabelSelectorAttributes{RawSelector: "b in (y,x,y),c,a notin (x)"})
	if diff := cmp.Diff(want, of(review)); diff != "" || len(want) != 3 {
		t.Errorf("-text +requirements:\n%s", diff)
	}
	if got := review.Requirements[0].Values; !slices.Equal(got, []string{"y", "x", "y"}) {
		t.Errorf("the review has become %q", got)
	}
}

// decodedSelectors are the selectors of attributes. They count how often they are asked for.
type decodedSelectors struct {
	resource       *authorizationv1.ResourceAttributes
	err            error
	labels, fields int
}

func (s *decodedSelectors) LabelSelector() (*authorizationv1.LabelSelectorAttributes, error) {
	s.labels++
	return s.resource.LabelSelector, s.err
}

func (s *decodedSelectors) FieldSelector() (*authorizationv1.FieldSelectorAttributes, error) {
	s.fields++
	return s.resource.FieldSelector, s.err
}

// read reads everything that attributes tell.
func read(a authorizer.Attributes) map[string]any {
	var labelTexts []string
	labelReqs, labelErr := a.GetLabelSelector()
	for _, r := range labelReqs {
		labelTexts = append(labelTexts, r.String())
	}
	fieldReqs, fieldErr := a.GetFieldSelector()
	return map[string]any{
		"user": a.GetUser(), "verb": a.GetVerb(), "group": a.GetAPIGroup(), "version": a.GetAPIVersion(), "resource": a.GetResource(),
		"subresource": a.GetSubresource(), "namespace": a.GetNamespace(), "name": a.GetName(), "path": a.GetPath(), "onResource": a.IsResourceRequest(),
		"labels": labelTexts, "labelError": fmt.Sprint(labelErr), "fields": fieldReqs, "fieldError": fmt.Sprint(fieldErr), "errors": authorization.SelectorErrors(a),
	}
}

// TestLazyAttributesDecodeOnce reads selectors from several goroutines: they are decoded once,
// and only if they are read.
func TestLazyAttributesDecodeOnce(t *testing.T) {
	t.Parallel()
	resource := &authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", LabelSelector: &authorizationv1.LabelSelectorAttributes{RawSelector: "a in (x)"}}
	selectors := &decodedSelectors{resource: resource}
	attributes := authorization.LazyAttributesOf(&user.DefaultInfo{Name: "u"}, resource, nil, selectors)
	if attributes.GetVerb() != "list" || attributes.GetAPIVersion() != "*" || selectors.labels+selectors.fields != 0 {
		t.Errorf("before they are read: got %d and %d, want that no selector is decoded", selectors.labels, selectors.fields)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if got, err := attributes.GetLabelSelector(); err != nil || len(got) != 1 || got[0].Key() != "a" {
				t.Errorf("got %v, %v, want the requirement on a", got, err)
			}
		})
	}
	group.Wait()
	if selectors.labels != 1 || selectors.fields != 0 {
		t.Errorf("labels were decoded %d times, fields %d times; want 1 and 0", selectors.labels, selectors.fields)
	}
}

// TestLazyAttributesLeaveOutWhatCannotBeDecoded asks that a selector that cannot be decoded
// restricts nothing, like one that cannot be parsed.
func TestLazyAttributesLeaveOutWhatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	resource := &authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods"}
	attributes := authorization.LazyAttributesOf(&user.DefaultInfo{Name: "u"}, resource, nil, &decodedSelectors{resource: resource, err: errors.New("no object")})
	labelReqs, labelErr := attributes.GetLabelSelector()
	fieldReqs, fieldErr := attributes.GetFieldSelector()
	if len(labelReqs) != 0 || labelErr == nil || len(fieldReqs) != 0 || fieldErr == nil {
		t.Errorf("got %v, %v and %v, %v, want errors and no requirements", labelReqs, labelErr, fieldReqs, fieldErr)
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
