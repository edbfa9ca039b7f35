/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// TestRequestsLeftOut has the requests that kube-apiserver decides without Proviso, and those that look like them.
func TestRequestsLeftOut(t *testing.T) {
	t.Parallel()
	is := func(names ...string) func(user.Info) bool {
		return func(u user.Info) bool {
			for _, name := range names {
				if u.GetName() == name {
					return true
				}
			}
			return false
		}
	}
	of := func(resource string) func(authorizer.Attributes) bool {
		return func(a authorizer.Attributes) bool { return a.GetResource() == resource }
	}
	both := leftOut{byDoors: is("node", "called"), byBarriers: is("node"), serves: of("machines"), enforces: of("things")}
	for _, tc := range []struct {
		name           string
		of             leftOut
		user, resource string
		change         func(*authorizer.AttributesRecord)
		want           bool
	}{
		{name: "left out", of: both, user: "node", resource: "pods", want: true},
		{name: "another user", of: both, user: "alice", resource: "pods"},
		{name: "barriers refuse", of: both, user: "called", resource: "pods"},
		{name: "no barriers", of: leftOut{byDoors: is("called"), serves: of(""), enforces: of("")}, user: "called", resource: "pods", want: true},
		{name: "neither doors nor barriers", of: leftOut{serves: of(""), enforces: of("")}, user: "node", resource: "pods"},
		{name: "what this server serves", of: both, user: "node", resource: "machines"},
		{name: "what another server enforces", of: both, user: "node", resource: "things"},
		{name: "a path", of: both, user: "node", change: func(a *authorizer.AttributesRecord) { a.ResourceRequest, a.Path = false, "/metrics" }, want: true},
		{name: "several resources", of: both, user: "node", resource: "*"},
		{name: "an administrator", of: both, resource: "pods", change: func(a *authorizer.AttributesRecord) {
			a.User = &user.DefaultInfo{Name: "node", Groups: []string{user.SystemPrivilegedGroup}}
		}},
		{name: "no user", of: both, resource: "pods", change: func(a *authorizer.AttributesRecord) { a.User = nil }},
	} {
		a := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: tc.user}, Verb: "get", APIVersion: "v1", Resource: tc.resource, ResourceRequest: true}
		if tc.change != nil {
			tc.change(&a)
		}
		if got := tc.of.has(a); got != tc.want {
			t.Errorf("%s: got %t, want %t", tc.name, got, tc.want)
		}
	}
}
