/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// TestSubjectsOf matches users as decisions do.
func TestSubjectsOf(t *testing.T) {
	t.Parallel()
	users := map[string]user.Info{
		"alice":    &user.DefaultInfo{Name: "alice", Groups: []string{"team"}},
		"team":     &user.DefaultInfo{Name: "team", Groups: []string{"alice"}},
		"account":  &user.DefaultInfo{Name: "system:serviceaccount:demo:ci"},
		"nameless": &user.DefaultInfo{},
	}
	for name, subjects := range map[string][]rbacv1.Subject{
		"everybody":         nil,
		"a user":            {{Kind: rbacv1.UserKind, Name: "alice"}},
		"a group":           {{Kind: rbacv1.GroupKind, Name: "team"}},
		"a service account": {{Kind: rbacv1.ServiceAccountKind, Namespace: "demo", Name: "ci"}},
		"several":           {{Kind: rbacv1.UserKind, Name: "x"}, {Kind: rbacv1.GroupKind, Name: "alice"}, {Kind: rbacv1.ServiceAccountKind, Namespace: "demo", Name: "ci"}},
		"an unknown kind":   {{Kind: "Other", Name: "alice"}},
	} {
		specification := spec{Effect: deny, Subjects: subjects, Rules: anything}
		decides := partOf(publish(t, map[string]spec{"p": specification}), false)
		for who, u := range users {
			want := decides.Decide(t.Context(), authorizer.AttributesRecord{User: u, Verb: "get", Resource: "pods", ResourceRequest: true}).IsDeny()
			if got := engine.SubjectsOf(&specification).Have(u); got != want {
				t.Errorf("%s, %s: got %t, want %t", name, who, got, want)
			}
		}
		if engine.SubjectsOf(&specification).Have(nil) {
			t.Errorf("%s: nil is a subject", name)
		}
	}
}
