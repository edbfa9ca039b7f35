/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package simulation_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// The request of most tests: alice updates a thing.
func spec(change func(*authorizationv1alpha1.SubjectAccessReviewSpec)) *authorizationv1alpha1.SubjectAccessReviewSpec {
	s := &authorizationv1alpha1.SubjectAccessReviewSpec{
		User: "alice", ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "update", Version: "v1", Resource: "things", Name: "a", Namespace: "n"},
	}
	if change != nil {
		change(s)
	}
	return s
}

func data(object string) *authorizationv1alpha1.AuthorizationConditionsRequest {
	return &authorizationv1alpha1.AuthorizationConditionsRequest{Operation: "UPDATE", Object: raw(object)}
}

func raw(object string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(object)} }

// TestValidate finds each mistake in a request, and all of them at once.
func TestValidate(t *testing.T) {
	t.Parallel()
	const user, attributes = "request: a user or a group is required", "request: exactly one of resourceAttributes and nonResourceAttributes is required"
	const sets, operation = "data.conditionSets: must not be given: the policies decide which conditions there are", "data.operation: must be CREATE, UPDATE, DELETE or CONNECT"
	path := &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/healthz"}
	for _, tc := range []struct {
		name   string
		change func(*simulation.Request)
		want   []string
	}{
		{"nothing", func(*simulation.Request) {}, nil},
		{"no data", func(r *simulation.Request) { r.Data = nil }, nil},
		{"no request", func(r *simulation.Request) { r.Spec = nil }, nil}, // its absence is another mistake, which callers find
		{"no user", func(r *simulation.Request) { r.Spec.User = "" }, []string{user}},
		{"a group alone", func(r *simulation.Request) { r.Spec.User, r.Spec.Groups = "", []string{"devs"} }, nil},
		{"neither", func(r *simulation.Request) { r.Spec.ResourceAttributes = nil }, []string{attributes}},
		{"both", func(r *simulation.Request) { r.Spec.NonResourceAttributes = path }, []string{attributes}},
		{"a path", func(r *simulation.Request) {
			r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes, r.Data = nil, path, nil
		}, nil},
		{"a path with data", func(r *simulation.Request) {
			r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes = nil, path
		}, []string{"data: admission decides about resources only: data must not be given for a path"}},
		{"condition sets", func(r *simulation.Request) {
			r.Data.ConditionSets = []authorizationv1alpha1.SubjectAccessReviewConditionSet{{}}
		}, []string{sets}},
		{"no operation", func(r *simulation.Request) { r.Data.Operation = "" }, []string{operation}},
		{"an operation in small letters", func(r *simulation.Request) { r.Data.Operation = "update" }, []string{operation}},
		{"all mistakes at once", func(r *simulation.Request) {
			*r = simulation.Request{Spec: &authorizationv1alpha1.SubjectAccessReviewSpec{}, Data: &authorizationv1alpha1.AuthorizationConditionsRequest{ConditionSets: []authorizationv1alpha1.SubjectAccessReviewConditionSet{{}}}}
		}, []string{user, attributes, sets, operation}},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			r := &simulation.Request{Spec: spec(nil), Data: data("{}")}
			tc.change(r)
			var got []string
			for _, err := range r.Validate() {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("other mistakes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOperations combines each verb with each operation. A server makes no other request than those that are valid.
func TestOperations(t *testing.T) {
	t.Parallel()
	valid := map[string]string{
		"create": "CREATE or CONNECT", "update": "CREATE or UPDATE or CONNECT", "patch": "CREATE or UPDATE or CONNECT", "delete": "DELETE or CONNECT", "deletecollection": "DELETE", "get": "CONNECT",
		"list": "", "watch": "", "*": "", "": "", "Create": "", "impersonate": "",
	}
	for verb, operations := range valid {
		for _, operation := range []string{"CREATE", "UPDATE", "DELETE", "CONNECT"} {
			r := &simulation.Request{Spec: spec(func(s *authorizationv1alpha1.SubjectAccessReviewSpec) { s.ResourceAttributes.Verb = verb }), Data: data("{}")}
			r.Data.Operation = authorizationv1alpha1.Operation(operation)
			want := fmt.Sprintf("[data.operation: a request with the verb %s has the operation %s, and not %s]", verb, operations, operation)
			switch {
			case operations == "":
				want = fmt.Sprintf("[data: admission does not decide about requests with the verb %s]", verb)
			case strings.Contains(operations, operation):
				want = "[]"
			}
			if got := fmt.Sprint(r.Validate()); got != want {
				t.Errorf("%s with %s: got %s, want %s", verb, operation, got, want)
			}
		}
	}
}

// TestUser checks the groups that a server adds.
func TestUser(t *testing.T) {
	t.Parallel()
	const authenticated, unauthenticated = "system:authenticated", "system:unauthenticated"
	for _, tc := range []struct {
		name   string
		user   string
		groups []string
		want   []string
	}{
		{"a user", "alice", nil, []string{authenticated}},
		{"a user with groups", "alice", []string{"devs", "ops"}, []string{"devs", "ops", authenticated}},
		{"a user with the group", "alice", []string{authenticated, "devs"}, []string{authenticated, "devs"}},
		{"a group alone", "", []string{"devs"}, []string{"devs", authenticated}},
		{"an anonymous user", "system:anonymous", []string{unauthenticated}, []string{unauthenticated}},
		{"an anonymous user without the group", "system:anonymous", nil, nil},
		{"a user who is not authenticated", "alice", []string{unauthenticated}, []string{unauthenticated}},
		{"a service account", "system:serviceaccount:n:robot", nil, []string{"system:serviceaccounts", "system:serviceaccounts:n", authenticated}},
		{"a service account with a group", "system:serviceaccount:n:robot", []string{"system:serviceaccounts"}, []string{"system:serviceaccounts", "system:serviceaccounts:n", authenticated}},
		{"a name that only looks like a service account", "system:serviceaccount:n", nil, []string{authenticated}},
		{"a service account of no namespace", "system:serviceaccount::robot", nil, []string{authenticated}},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			groups := append(make([]string, 0, 8), tc.groups...) // with room for others
			s := &authorizationv1alpha1.SubjectAccessReviewSpec{User: tc.user, UID: "u", Groups: groups, Extra: map[string]authorizationv1.ExtraValue{"k": {"v"}}}
			before := s.DeepCopy()
			got := (&simulation.Request{Spec: s}).User()
			if got.GetName() != tc.user || got.GetUID() != "u" || !cmp.Equal(got.GetExtra(), map[string][]string{"k": {"v"}}) {
				t.Errorf("got %+v", got)
			}
			if diff := cmp.Diff(tc.want, got.GetGroups(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("other groups (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, s); diff != "" || strings.Join(groups[len(groups):8], "") != "" {
				t.Errorf("the request was changed: %q (-before +after):\n%s", groups[:8], diff)
			}
		})
	}
}
