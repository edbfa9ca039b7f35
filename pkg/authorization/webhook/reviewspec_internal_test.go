/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// TestSelectorsInReviews writes the selectors of a request into a review. A requirement that a review cannot hold is left out: the review then asks for
// more than the request reads, and never for less.
func TestSelectorsInReviews(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, fields, labels   string
		wantFields, wantLabels string
	}{
		{name: "none"},
		{name: "a field", fields: "spec.nodeName=n", wantFields: `{"key":"spec.nodeName","operator":"In","values":["n"]}`},
		{name: "a field, with two signs", fields: "spec.nodeName==n", wantFields: `{"key":"spec.nodeName","operator":"In","values":["n"]}`},
		{name: "a field that is not", fields: "spec.nodeName!=n", wantFields: `{"key":"spec.nodeName","operator":"NotIn","values":["n"]}`},
		{name: "an empty value", fields: "spec.nodeName=", wantFields: `{"key":"spec.nodeName","operator":"In","values":[""]}`},
		{name: "two fields", fields: "a=b,c!=d", wantFields: `{"key":"a","operator":"In","values":["b"]},{"key":"c","operator":"NotIn","values":["d"]}`},
		{name: "a requirement without a key", fields: "=n"},
		{name: "a requirement without a key, and another", fields: "=n,a=b", wantFields: `{"key":"a","operator":"In","values":["b"]}`},
		{name: "a label", labels: "a=b", wantLabels: `{"key":"a","operator":"In","values":["b"]}`},
		{name: "a label of several values, in order", labels: "a in (c,b)", wantLabels: `{"key":"a","operator":"In","values":["b","c"]}`},
		{name: "a label of no such value", labels: "a notin (b),c!=d", wantLabels: `{"key":"a","operator":"NotIn","values":["b"]},{"key":"c","operator":"NotIn","values":["d"]}`},
		{name: "a label that is there, and one that is not", labels: "a,!b", wantLabels: `{"key":"a","operator":"Exists"},{"key":"b","operator":"DoesNotExist"}`},
		{name: "a label in an order of numbers", labels: "a>1"},
		{name: "a label in an order of numbers, and another", labels: "a<1,b=c", wantLabels: `{"key":"b","operator":"In","values":["c"]}`},
		{name: "both", fields: "a=b", labels: "c=d", wantFields: `{"key":"a","operator":"In","values":["b"]}`, wantLabels: `{"key":"c","operator":"In","values":["d"]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			fieldSelector, err := fields.ParseSelector(tc.fields)
			if err != nil {
				t.Fatal(err)
			}
			labelSelector, err := labels.Parse(tc.labels)
			if err != nil {
				t.Fatal(err)
			}
			requirements, _ := labelSelector.Requirements()
			spec := reviewSpecOf(authorizer.AttributesRecord{
				User: &user.DefaultInfo{Name: "alice"}, Verb: "list", Resource: "pods", ResourceRequest: true,
				FieldSelectorRequirements: fieldSelector.Requirements(), LabelSelectorRequirements: requirements,
			})
			wantSelector := func(requirements string) string {
				if requirements == "" {
					return "null"
				}
				return `{"requirements":[` + requirements + `]}`
			}
			for name, pair := range map[string][2]any{
				"fields": {spec.ResourceAttributes.FieldSelector, wantSelector(tc.wantFields)}, "labels": {spec.ResourceAttributes.LabelSelector, wantSelector(tc.wantLabels)},
			} {
				got, err := json.Marshal(pair[0])
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(pair[1], string(got)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
		})
	}
}

// TestReviewsOfRequests has requests for resources, for paths, and without a user.
func TestReviewsOfRequests(t *testing.T) {
	t.Parallel()
	alice := &user.DefaultInfo{Name: "alice", UID: "u", Groups: []string{"g", "h"}, Extra: map[string][]string{"k": {"v", "w"}}}
	for _, tc := range []struct {
		name       string
		attributes authorizer.AttributesRecord
		want       string
	}{
		{
			name:       "a resource",
			attributes: authorizer.AttributesRecord{User: alice, Verb: "get", Namespace: "n", APIGroup: "apps", APIVersion: "v1", Resource: "deployments", Subresource: "scale", Name: "d", ResourceRequest: true},
			want:       `{"resourceAttributes":{"namespace":"n","verb":"get","group":"apps","version":"v1","resource":"deployments","subresource":"scale","name":"d"},"user":"alice","groups":["g","h"],"extra":{"k":["v","w"]},"uid":"u"}`,
		},
		{
			name: "a path", attributes: authorizer.AttributesRecord{User: alice, Verb: "get", Path: "/metrics"},
			want: `{"nonResourceAttributes":{"path":"/metrics","verb":"get"},"user":"alice","groups":["g","h"],"extra":{"k":["v","w"]},"uid":"u"}`,
		},
		{
			name: "a path beside a resource", attributes: authorizer.AttributesRecord{User: alice, Verb: "get", Path: "/metrics", Resource: "pods"},
			want: `{"nonResourceAttributes":{"path":"/metrics","verb":"get"},"user":"alice","groups":["g","h"],"extra":{"k":["v","w"]},"uid":"u"}`,
		},
		{name: "no user", attributes: authorizer.AttributesRecord{Verb: "get", Path: "/"}, want: `{"nonResourceAttributes":{"path":"/","verb":"get"}}`},
	} {
		spec := reviewSpecOf(tc.attributes)
		got, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
		check := specOf(tc.attributes)
		if diff := cmp.Diff(authorizationv1.ExtraValue{"true"}, check.Extra[authorization.DelegationMarker]); diff != "" {
			t.Errorf("%s: the marker (-want +got):\n%s", tc.name, diff)
		}
	}
	if _, isMarked := alice.Extra[authorization.DelegationMarker]; isMarked {
		t.Error("the user of the request is marked, too")
	}
}

// TestMarkers counts the servers that have passed a review on. A client's own marker is replaced, so that its values do not travel.
func TestMarkers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		extra map[string]authorizationv1.ExtraValue
		hops  int
	}{
		{name: "no extra", hops: 1},
		{name: "another extra", extra: map[string]authorizationv1.ExtraValue{"k": {"v"}}, hops: 2},
		{name: "a marker of a client", extra: map[string]authorizationv1.ExtraValue{authorization.DelegationMarker: {"secret", "x", "y"}}, hops: 1},
		{name: "the longest line", extra: map[string]authorizationv1.ExtraValue{authorization.DelegationMarker: nil}, hops: maxHops},
	} {
		before := len(tc.extra[authorization.DelegationMarker])
		got := marked(tc.extra, tc.hops)
		if text := strings.Join(got[authorization.DelegationMarker], " "); text != strings.TrimSpace(strings.Repeat("true ", tc.hops)) {
			t.Errorf("%s: got the marker %q", tc.name, text)
		}
		if diff := cmp.Diff(tc.extra["k"], got["k"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
		if len(tc.extra[authorization.DelegationMarker]) != before {
			t.Errorf("%s: the extra that was given has changed", tc.name)
		}
	}
}
