/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationpolicy_test

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/test/testutil/golden"
)

// names are the fields that a write resets.
func names(byVersion map[fieldpath.APIVersion]*fieldpath.Set) map[string]bool {
	result := map[string]bool{}
	for version, set := range byVersion {
		if version == "policy.proviso.dev/v1alpha1" {
			set.Iterate(func(p fieldpath.Path) { result[p.String()] = true })
		}
	}
	return result
}

// printed are policies that show what a table makes of them.
func printed() *policy.ClusterAuthorizationPolicyList {
	user := func(name string) rbacv1.Subject {
		return rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: name}
	}
	condition := func(kind, status string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: "R"}
	}
	rule := func(resources ...string) policy.PolicyRule {
		return policy.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: resources}
	}
	remaining := int64(5)
	return &policy.ClusterAuthorizationPolicyList{
		ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "c", RemainingItemCount: &remaining},
		Items: []policy.ClusterAuthorizationPolicy{
			{
				ObjectMeta: metav1.ObjectMeta{Name: "alice-dev-volumes"},
				Spec: policy.AuthorizationPolicySpec{
					Description: "alice manages volumes\nof class dev only", Effect: "Allow", Subjects: []rbacv1.Subject{user("alice"), {Kind: "ServiceAccount", Namespace: "n", Name: "robot"}},
					Rules: []policy.PolicyRule{rule("persistentvolumeclaims")}, Condition: "object.spec.storageClassName ==\n  \"dev\"",
				},
				Status: policy.AuthorizationPolicyStatus{Conditions: []metav1.Condition{condition("Ready", "True"), condition("Effective", "False")}},
			},
			{
				ObjectMeta: metav1.ObjectMeta{Name: "long"},
				Spec: policy.AuthorizationPolicySpec{
					Effect: "Deny", Subjects: []rbacv1.Subject{user("a"), user("b"), user("c"), user("d"), user("e")},
					Rules:     []policy.PolicyRule{rule("pods", "pods/exec"), rule("pods", "nodes"), {Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}},
					Condition: strings.Repeat("ä", 61),
				},
			},
			{ObjectMeta: metav1.ObjectMeta{Name: "fits"}, Spec: policy.AuthorizationPolicySpec{Effect: "Allow", Subjects: []rbacv1.Subject{{Kind: "Group", Name: "system:authenticated"}}, Rules: []policy.PolicyRule{rule("a", "b", "c")}, Condition: strings.Repeat("ä", 60)}},
			{ObjectMeta: metav1.ObjectMeta{Name: "everybody"}, Spec: policy.AuthorizationPolicySpec{Effect: "NoOpinion", Rules: []policy.PolicyRule{rule("*")}}},
			{ObjectMeta: metav1.ObjectMeta{Name: "audited", Generation: 2}, Spec: policy.AuthorizationPolicySpec{Effect: "Deny", Enforcement: "Audit", Rules: []policy.PolicyRule{rule("*")}},
				Status: policy.AuthorizationPolicyStatus{Audit: &policy.PolicyAuditStatus{ObservedGeneration: 2, Decided: 12}}},
			{ObjectMeta: metav1.ObjectMeta{Name: "audited-in-part", Generation: 2}, Spec: policy.AuthorizationPolicySpec{Effect: "Deny", Enforcement: "Audit", Rules: []policy.PolicyRule{rule("*")}},
				Status: policy.AuthorizationPolicyStatus{Audit: &policy.PolicyAuditStatus{ObservedGeneration: 2, Decided: 12, Errors: 2, Undetermined: 1}}},
			{ObjectMeta: metav1.ObjectMeta{Name: "audited-before", Generation: 3}, Spec: policy.AuthorizationPolicySpec{Effect: "Deny", Enforcement: "Audit", Rules: []policy.PolicyRule{rule("*")}},
				Status: policy.AuthorizationPolicyStatus{Audit: &policy.PolicyAuditStatus{ObservedGeneration: 2, Decided: 12}}},
			auditedAt("audited-by-kube-apiserver", 0, policy.EnforcedAtBarrier, policy.EnforcedAtBarrier),
			auditedAt("audited-by-both", 3, policy.EnforcedAtFrontDoor, policy.EnforcedAtBarrier),
			auditedAt("audited-here", 0, policy.EnforcedAtFrontDoor),
		},
	}
}

// auditedAt returns a policy with the enforcement Audit that some components evaluate.
func auditedAt(name string, decided int64, places ...policy.EnforcementPlace) policy.ClusterAuthorizationPolicy {
	p := policy.ClusterAuthorizationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 2}, Spec: policy.AuthorizationPolicySpec{Effect: "Deny", Enforcement: "Audit"},
		Status: policy.AuthorizationPolicyStatus{Audit: &policy.PolicyAuditStatus{ObservedGeneration: 2, Decided: decided}},
	}
	for _, place := range places {
		p.Status.Enforcement = append(p.Status.Enforcement, policy.RuleEnforcement{At: place, Result: policy.ResultAudited})
	}
	return p
}

func render(table *metav1.Table) string {
	var b strings.Builder
	for _, c := range table.ColumnDefinitions {
		fmt.Fprintf(&b, "%s (%d) | ", c.Name, c.Priority)
	}
	for _, row := range table.Rows {
		b.WriteString("\n")
		for _, cell := range row.Cells {
			fmt.Fprintf(&b, "%v | ", cell)
		}
	}
	return b.String() + "\n"
}

// TestTable keeps what kubectl prints.
func TestTable(t *testing.T) {
	t.Parallel()
	f := newFixture(t, false)
	table, err := f.Policy.ConvertToTable(t.Context(), printed(), nil)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/table.txt", render(table))
	if table.ResourceVersion != "7" || table.Continue != "c" || table.RemainingItemCount == nil || *table.RemainingItemCount != 5 {
		t.Errorf("got the list metadata %+v, want that of the list", table.ListMeta)
	}
	single := &policy.AuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "n", ResourceVersion: "8"}}
	table, err = f.Status.ConvertToTable(t.Context(), single, &metav1.TableOptions{NoHeaders: true})
	if err != nil || len(table.ColumnDefinitions) != 0 || len(table.Rows) != 1 || table.ResourceVersion != "8" || table.Rows[0].Object.Object != runtime.Object(single) {
		t.Errorf("got %+v, %v, want one row without headers", table, err)
	}
	if _, err := f.Policy.ConvertToTable(t.Context(), &metav1.Status{}, nil); err == nil {
		t.Error("something else was rendered")
	}
}

func TestNamesForKubectl(t *testing.T) {
	t.Parallel()
	for namespaced, want := range map[bool]string{false: "clusterauthorizationpolicy cap", true: "authorizationpolicy ap"} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, namespaced)
			if got := f.Policy.GetSingularName() + " " + strings.Join(f.Policy.ShortNames(), " "); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if got := f.Policy.NamespaceScoped(); got != namespaced {
				t.Errorf("namespaced: got %v", got)
			}
		})
	}
}
