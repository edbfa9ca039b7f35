/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"errors"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

func createPods(version string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "alice"}, Verb: "create", APIVersion: version, Resource: "pods", ResourceRequest: true}
}

// TestBrokenSubjects breaks whom a Deny is about: it then denies everybody.
func TestBrokenSubjects(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ kind, want string }{
		{"User", "no opinion"}, {"Group", "no opinion"}, {"ServiceAccount", "no opinion"}, {"Usr", "deny"}, {"", "deny"},
	} {
		t.Run(tc.kind, func(t *testing.T) {
			t.Parallel()
			key := engine.Key{Name: "p"}
			broken := engine.Broken(key, &policyv1alpha1.AuthorizationPolicySpec{
				Effect: "Deny", Subjects: []rbacv1.Subject{{Kind: tc.kind, Name: "bob", Namespace: "n"}},
				Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"pods"}}},
			}, errors.New("broken"))
			source := &engine.Source{}
			source.Publish(engine.NewBuilder().Apply(map[engine.Key]*engine.Policy{key: broken}))
			if got := describe(t, (&engine.Authorizer{Source: source}).Decide(t.Context(), createPods("v1"))); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestWideReviewsHaveClosedTexts asks about all versions. The texts are there to be
// folded; evaluated, they must not open anything.
func TestWideReviewsHaveClosedTexts(t *testing.T) {
	t.Parallel()
	compiler := newPolicyCompiler(t)
	for effect, want := range map[policyv1alpha1.PolicyEffect]string{"Allow": "false", "Deny": "true"} {
		key := engine.Key{Name: "p"}
		p, err := engine.New(key, &policyv1alpha1.AuthorizationPolicySpec{
			Effect: effect, Condition: "object.a == 1", Subjects: []rbacv1.Subject{{Kind: "User", Name: "alice"}},
			Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"pods"}}},
		}, compiler)
		if err != nil {
			t.Fatal(err)
		}
		source := &engine.Source{}
		source.Publish(engine.NewBuilder().Apply(map[engine.Key]*engine.Policy{key: p}))
		part := map[policyv1alpha1.PolicyEffect]engine.Part{"Allow": engine.Granting, "Deny": engine.Restricting}[effect]
		conditions := (&engine.Authorizer{Source: source, Part: part}).Decide(t.Context(), createPods("*")).Conditions()
		if len(conditions) != 1 || conditions[0].Text != want {
			t.Errorf("%s: got %+v, want the text %q", effect, conditions, want)
		}
	}
}
