/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package validation_test

import (
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/apis/authorization/validation"
)

func repeat(n int) []string {
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprint(i)
	}
	return values
}

func TestValidateImpersonationReview(t *testing.T) {
	t.Parallel()
	const header = "it is sent in a header"
	type review = authorization.ImpersonationReview
	path := func(r *review, verb, path string) {
		r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes = nil, &authorizationv1.NonResourceAttributes{Verb: verb, Path: path}
	}
	extra := func(r *review, key string, values ...string) {
		r.Spec.Impersonate.Extra = map[string]authenticationv1.ExtraValue{key: values}
	}
	for _, tc := range []struct {
		name   string
		change func(*review)
		want   []string
	}{
		{"a valid review", func(*review) {}, nil},
		{"a requester", func(r *review) { r.Spec.User, r.Spec.UID, r.Spec.Groups = "carol", "1", []string{"g"} }, nil},
		{"a path", func(r *review) { path(r, "get", "/metrics") }, nil},
		{"a service account", func(r *review) { r.Spec.Impersonate.Username = "system:serviceaccount:ns:name" }, nil},
		{"a name with a slash", func(r *review) { r.Spec.Impersonate.Username = "ldap/bob" }, nil},
		{"names beyond ASCII", func(r *review) {
			r.Spec.Impersonate.Username = "bjørn"
			extra(r, "Übung", "ø")
		}, nil},
		{"as many as there may be", func(r *review) {
			r.Spec.Impersonate.Groups = repeat(authorization.MaxImpersonatedGroups)
			extra(r, "k", repeat(authorization.MaxImpersonatedExtraValues)...)
		}, nil},

		{"a requester without name, by groups", func(r *review) { r.Spec.Groups = []string{"g"} }, []string{"spec.user: Required"}},
		{"a requester without name, by uid", func(r *review) { r.Spec.UID = "1" }, []string{"spec.user: Required"}},
		{"a requester without name, by extra", func(r *review) { r.Spec.Extra = map[string]authorizationv1.ExtraValue{"k": nil} }, []string{"spec.user: Required"}},
		{"nobody to impersonate", func(r *review) { r.Spec.Impersonate = authenticationv1.UserInfo{} }, []string{"spec.impersonate.username: Required"}},
		{"groups to impersonate without a user", func(r *review) {
			r.Spec.Impersonate = authenticationv1.UserInfo{Groups: []string{"g"}}
		}, []string{"spec.impersonate.username: Required"}},
		{"a service account without name", func(r *review) { r.Spec.Impersonate.Username = "system:serviceaccount:ns" }, []string{`spec.impersonate.username: Invalid value: "system:serviceaccount:ns": must have the form "system:serviceaccount:namespace:name"`}},
		{"a service account with too many parts", func(r *review) { r.Spec.Impersonate.Username = "system:serviceaccount:a:b:c" }, []string{"spec.impersonate.username: Invalid"}},
		{"a service account in no namespace", func(r *review) { r.Spec.Impersonate.Username = "system:serviceaccount:A_:b" }, []string{"spec.impersonate.username: Invalid"}},
		{"a line break in the name", func(r *review) { r.Spec.Impersonate.Username = "bob\nImpersonate-Group: system:masters" }, []string{"spec.impersonate.username: Invalid"}},
		{"white space around the name", func(r *review) { r.Spec.Impersonate.Username = " bob" }, []string{header}},
		{"control characters", func(r *review) {
			r.Spec.Impersonate.UID, r.Spec.Impersonate.Groups = "1\x00", []string{"g", "h\x7f"}
			extra(r, "k", "v", "w\r")
		}, []string{"spec.impersonate.uid: Invalid", "spec.impersonate.groups[1]: Invalid", "spec.impersonate.extra[k][1]: Invalid"}},
		{"a value of 8 KiB and one", func(r *review) { r.Spec.Impersonate.Groups = []string{strings.Repeat("g", 8193)} }, []string{"spec.impersonate.groups[0]: Too long"}},
		{"a key of 8 KiB and one", func(r *review) { extra(r, strings.Repeat("k", 8193), "v") }, []string{"spec.impersonate.extra: Too long"}},
		{"1000 groups", func(r *review) { r.Spec.Impersonate.Groups = repeat(1000) }, []string{"spec.impersonate.groups: Too many: 1000: must have at most 128 items"}},
		{"129 values", func(r *review) { extra(r, "k", repeat(129)...) }, []string{"spec.impersonate.extra: Too many"}},
		{"129 keys without values", func(r *review) {
			extra(r, "k")
			for _, key := range repeat(128) {
				r.Spec.Impersonate.Extra[key] = nil
			}
		}, append(slicesOf("Required", 128), "spec.impersonate.extra: Too many")},
		{"a key without values", func(r *review) { extra(r, "k") }, []string{"spec.impersonate.extra[k]: Required"}},
		{"both kinds of attributes", func(r *review) {
			r.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/"}
		}, []string{"spec.nonResourceAttributes: Forbidden"}},
		{"no attributes", func(r *review) { r.Spec.ResourceAttributes = nil }, []string{"spec.resourceAttributes: Required"}},
		{"no verb", func(r *review) { r.Spec.ResourceAttributes.Verb = "" }, []string{"spec.resourceAttributes.verb: Required"}},
		{"every verb", func(r *review) { r.Spec.ResourceAttributes.Verb = "*" }, []string{"spec.resourceAttributes.verb: Invalid"}},
		{"no resource", func(r *review) { r.Spec.ResourceAttributes.Resource = "" }, []string{"spec.resourceAttributes.resource: Required"}},
		{"a path and nothing else", func(r *review) { path(r, "", "") }, []string{"spec.nonResourceAttributes.verb: Required", "spec.nonResourceAttributes.path: Required"}},
		{"every verb on a path", func(r *review) { path(r, "*", "/") }, []string{"spec.nonResourceAttributes.verb: Invalid"}},
		{"selectors in no form", func(r *review) {
			r.Spec.ResourceAttributes.LabelSelector = &authorizationv1.LabelSelectorAttributes{}
		}, []string{"spec.resourceAttributes.labelSelector.requirements: Required"}},
		{"an unknown mode", func(r *review) {
			r.Spec.ConditionalAuthorization = &authorization.ConditionalAuthorizationConfiguration{Mode: "Fast"}
		}, []string{"spec.conditionalAuthorization.mode: Unsupported"}},
		{"a name of its own", func(r *review) { r.Name = "x" }, []string{"metadata: Forbidden"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := &review{Spec: authorization.ImpersonationReviewSpec{
				Impersonate:        authenticationv1.UserInfo{Username: "bob"},
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"},
			}}
			tc.change(r)
			wantErrors(t, validation.ValidateImpersonationReview(r), tc.want...)
		})
	}
}

func slicesOf(s string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = s
	}
	return all
}
