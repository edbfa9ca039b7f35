/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

func newPolicyCompiler(tb testing.TB) *partial.Compiler {
	tb.Helper()
	policies := compilers.Policies(tb)
	return policies
}

// kepPolicies are those of KEP-5681, "What is partial evaluation?".
func kepPolicies(tb testing.TB, compiler *partial.Compiler) *engine.Source {
	tb.Helper()
	everything := []policyv1alpha1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}
	changes := map[engine.Key]*engine.Policy{}
	for name, condition := range map[string]string{
		"one": `request.apiGroup == "" && request.userInfo.username == "bob"`,
		"two": `request.apiGroup == ""
			&& request.resource == "persistentvolumeclaims"
			&& request.verb == "create"
			&& request.userInfo.username == "alice"
			&& object.spec.storageClassName == "dev"`,
	} {
		key := engine.Key{Name: name}
		p, err := engine.New(key, &policyv1alpha1.AuthorizationPolicySpec{Effect: "Allow", Rules: everything, Condition: condition,
			Subjects: []rbacv1.Subject{{Kind: "Group", Name: user.AllAuthenticated}}}, compiler)
		if err != nil {
			tb.Fatal(err)
		}
		changes[key] = p
	}
	source := &engine.Source{}
	source.Publish(engine.NewBuilder().Apply(changes))
	return source
}

// TestWorkedExample gives the answers of the KEP's worked example.
func TestWorkedExample(t *testing.T) {
	t.Parallel()
	granting := &engine.Authorizer{Source: kepPolicies(t, newPolicyCompiler(t)), Part: engine.Granting}
	for _, tc := range []struct {
		user string
		want string
	}{
		{"alice", `if object.spec.storageClassName == "dev"`},
		{"bob", "allow"},
		{"eve", "no opinion"},
	} {
		t.Run(tc.user, func(t *testing.T) {
			t.Parallel()
			d := granting.Decide(t.Context(), authorizer.AttributesRecord{
				User: &user.DefaultInfo{Name: tc.user, Groups: []string{user.AllAuthenticated}},
				Verb: "create", APIVersion: "v1", Resource: "persistentvolumeclaims", Namespace: "n", ResourceRequest: true,
			})
			if got := describe(t, d); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func describe(tb testing.TB, d authorization.Decision) string {
	tb.Helper()
	switch {
	case d.IsAllow():
		return "allow"
	case d.IsDeny():
		return "deny"
	case d.IsNoOpinion():
		return "no opinion"
	}
	var texts []string
	for _, c := range d.Conditions() {
		text, err := c.TextFunc()
		if err != nil {
			tb.Fatal(err)
		}
		texts = append(texts, text)
	}
	return "if " + strings.Join(texts, " or ")
}
