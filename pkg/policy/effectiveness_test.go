/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned/fake"
	"github.com/proviso-authz/proviso/pkg/policy"
)

// enforcesMachines enforces conditions on the writing of things in v1, and on their console.
func enforcesMachines(a authorizer.Attributes) bool {
	in := func(pattern string, values ...string) bool { return pattern == "*" || slices.Contains(values, pattern) }
	if !a.IsResourceRequest() || !in(a.GetAPIGroup(), "demo.proviso.dev") || !in(a.GetAPIVersion(), "v1") || !in(a.GetResource(), "things") {
		return false
	}
	return in(a.GetSubresource(), "") && in(a.GetVerb(), "create", "update") || in(a.GetSubresource(), "console") && in(a.GetVerb(), "get")
}

// TestEffective asks what the status says about what is enforced.
func TestEffective(t *testing.T) {
	t.Parallel()
	rule := func(verb, resource, version string) policyv1alpha1.PolicyRule {
		r := policyv1alpha1.PolicyRule{Verbs: strings.Split(verb, ","), APIGroups: []string{"demo.proviso.dev"}, Resources: strings.Split(resource, ",")}
		if version != "" {
			r.APIVersions = strings.Split(version, ",")
		}
		return r
	}
	inGroups := func(r policyv1alpha1.PolicyRule, groups ...string) policyv1alpha1.PolicyRule {
		r.APIGroups = groups
		return r
	}
	path := policyv1alpha1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}
	const readsObject, readsRequest = "object.a == 1", `request.userInfo.username == "a"`
	rows := []struct {
		name, condition string
		rules           []policyv1alpha1.PolicyRule
		wantReason      string
		wantMessage     string
	}{
		{"unconditional", "", []policyv1alpha1.PolicyRule{rule("get", "things", "")}, policy.ReasonEnforced, "requests are decided by the policy"},
		{"condition on the request", readsRequest, []policyv1alpha1.PolicyRule{rule("get", "things", "")}, policy.ReasonEnforced, "requests are decided by the policy"},
		{"condition on a path", readsRequest, []policyv1alpha1.PolicyRule{path}, policy.ReasonEnforced, "requests are decided by the policy"},
		{"writes", readsObject, []policyv1alpha1.PolicyRule{rule("create,update", "things", "v1")}, policy.ReasonEnforced, "enforced on what they write"},
		{"the dry run of writes", "!dryRun", []policyv1alpha1.PolicyRule{rule("create", "things", "")}, policy.ReasonEnforced, "enforced on what they write"},
		{"a connection", readsObject, []policyv1alpha1.PolicyRule{rule("get", "things/console", "")}, policy.ReasonEnforced, "enforced on what they write"},
		{"everything", readsObject, []policyv1alpha1.PolicyRule{inGroups(rule("*", "*", ""), "*")}, policy.ReasonEnforced, "enforced on what they write"},
		{"a subresource of everything", readsObject, []policyv1alpha1.PolicyRule{rule("get", "*/console", "")}, policy.ReasonEnforced, "enforced on what they write"},
		{"a version too many", readsObject, []policyv1alpha1.PolicyRule{rule("create", "things", "v1,v2")}, policy.ReasonEnforced, "enforced on what they write"},
		{"a read", readsObject, []policyv1alpha1.PolicyRule{rule("create,get,list", "things", "")}, policy.ReasonConditionNotEnforced, "rules[0] (get things), rules[0] (list things): the condition is not enforced there"},
		{"a verb that is no request", readsObject, []policyv1alpha1.PolicyRule{rule("bind", "things", "")}, policy.ReasonConditionNotEnforced, "rules[0] (bind things): the condition is not enforced there"},
		{"another version", readsObject, []policyv1alpha1.PolicyRule{rule("create", "things", "v2")}, policy.ReasonConditionNotEnforced, "rules[0] (create things): the condition is not enforced there"},
		{"another subresource", readsObject, []policyv1alpha1.PolicyRule{rule("create", "things", ""), rule("update", "things/status", "")}, policy.ReasonConditionNotEnforced, "rules[1] (update things/status): the condition is not enforced there"},
		{"a path that reads more", "operation == 'x'", []policyv1alpha1.PolicyRule{path}, policy.ReasonConditionNotEnforced, "rules[0] (paths): the condition is not enforced there"},
		{"does not compile", "object.a ==", []policyv1alpha1.PolicyRule{rule("get", "things", "")}, policy.ReasonConditionNotEnforced, "rules[0] (get things): the condition is not enforced there"},
		{"many", readsObject, []policyv1alpha1.PolicyRule{rule("get", "a,b,c,d,e,f,g,h,i", "")}, policy.ReasonConditionNotEnforced, "rules[0] (get h), …: the condition is not enforced there"},
		{"of others", readsObject, []policyv1alpha1.PolicyRule{rule("create", "things", ""), inGroups(rule("create", "pods", ""), "")}, policy.ReasonNotEnforced, "rules[1]: the resources are served by others"},
	}
	var objects []runtime.Object
	for i, row := range rows {
		objects = append(objects, &policyv1alpha1.ClusterAuthorizationPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", i)},
			Spec:       policyv1alpha1.AuthorizationPolicySpec{Effect: "Allow", Condition: row.condition, Rules: row.rules},
		})
	}
	r := startRigWith(t, fake.NewSimpleClientset(objects...), policy.Config{StalenessBound: time.Minute, Enforced: enforcesMachines})
	for i, row := range rows {
		var got *metav1.Condition
		r.eventually(t, row.name, func() bool {
			p, err := r.client.PolicyV1alpha1().ClusterAuthorizationPolicies().Get(t.Context(), fmt.Sprintf("p%d", i), metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got = meta.FindStatusCondition(p.Status.Conditions, policyv1alpha1.PolicyEffective)
			return got != nil
		})
		if got.Reason != row.wantReason || !strings.Contains(got.Message, row.wantMessage) || (got.Status == metav1.ConditionTrue) != (row.wantReason == policy.ReasonEnforced) {
			t.Errorf("%s: got %s %s: %s, want %s: …%s…", row.name, got.Status, got.Reason, got.Message, row.wantReason, row.wantMessage)
		}
	}
}
