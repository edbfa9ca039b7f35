/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// TestEvaluationsByPolicy compares the exposition of the counts of policies, before and after one of them is deleted.
func TestEvaluationsByPolicy(t *testing.T) {
	t.Parallel()
	s := newStepper(t)
	cluster, namespaced := engine.Key{Name: "restrict"}, engine.Key{Namespace: "n", Name: "grant"}
	s.put(t, cluster, "1", policyv1alpha1.PolicyEffectDeny, `request.verb == "x"`)
	s.put(t, namespaced, "2", policyv1alpha1.PolicyEffectAllow, "")
	s.publish(t.Context())
	if collected.tallies.Load() == nil {
		t.Error("a controller that publishes does not show its counts")
	}
	registry, own := metrics.NewKubeRegistry(), &collector{}
	registry.CustomMustRegister(own)
	own.tallies.Store(s.builder.Tallies())
	expect := func(want string) {
		t.Helper()
		if want != "" {
			want = "# HELP proviso_policy_evaluations_total [ALPHA] " + helpOfEvaluations + "\n# TYPE proviso_policy_evaluations_total counter\n" + want
		}
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "proviso_policy_evaluations_total"); err != nil {
			t.Error(err)
		}
	}
	expect("")
	for range 2 {
		if got := s.decide(t, "n"); got != "allow" {
			t.Fatalf("got %s", got)
		}
	}
	const restrict = `proviso_policy_evaluations_total{effect="Deny",policy="restrict",policy_namespace="",result="false"} 2` + "\n"
	expect(`proviso_policy_evaluations_total{effect="Allow",policy="grant",policy_namespace="n",result="true"} 2` + "\n" + restrict)
	deleted := &policyv1alpha1.AuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespaced.Namespace, Name: namespaced.Name}}
	if err := s.informers[1].GetIndexer().Delete(deleted); err != nil {
		t.Fatal(err)
	}
	s.observe(deleted)
	s.publish(t.Context())
	expect(restrict)
}

// TestAuditedByPolicy compares the exposition of the counts of policies with the enforcement Audit, which are not among the others.
func TestAuditedByPolicy(t *testing.T) {
	t.Parallel()
	s := newStepper(t)
	s.putAs(t, 1, "Audit", `request.verb == "get"`, policyv1alpha1.AuthorizationPolicyStatus{})
	s.ask(t, 2)
	registry, own := metrics.NewKubeRegistry(), &collector{}
	registry.CustomMustRegister(own)
	own.tallies.Store(s.builder.Tallies())
	own.audits.Store(s.builder.Audits())
	want := "# HELP proviso_policy_audited_requests_total [ALPHA] " + helpOfAudited + "\n# TYPE proviso_policy_audited_requests_total counter\n" +
		`proviso_policy_audited_requests_total{effect="Deny",policy="p",policy_namespace="",result="true"} 2` + "\n"
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "proviso_policy_audited_requests_total", "proviso_policy_evaluations_total"); err != nil {
		t.Error(err)
	}
}

// TestNotEffective counts policies that are not effective, except in Audit.
func TestNotEffective(t *testing.T) {
	t.Parallel()
	s := newStepper(t)
	registry, own := metrics.NewKubeRegistry(), &collector{}
	registry.CustomMustRegister(own)
	own.controller.Store(s.Controller)
	withEffective := func(status metav1.ConditionStatus) policyv1alpha1.AuthorizationPolicyStatus {
		return policyv1alpha1.AuthorizationPolicyStatus{Conditions: []metav1.Condition{{Type: policyv1alpha1.PolicyEffective, Status: status}}}
	}
	s.put(t, engine.Key{Namespace: "n", Name: "new"}, "1", policyv1alpha1.PolicyEffectAllow, "")
	for _, tc := range []struct {
		name        string
		enforcement policyv1alpha1.PolicyEnforcement
		status      policyv1alpha1.AuthorizationPolicyStatus
		want        float64
	}{
		{"effective", "", withEffective(metav1.ConditionTrue), 1},
		{"not effective", "", withEffective(metav1.ConditionFalse), 2},
		{"in Audit", policyv1alpha1.PolicyEnforcementAudit, withEffective(metav1.ConditionFalse), 1},
	} {
		s.putAs(t, 1, tc.enforcement, "true", tc.status)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := -1.0
		for _, family := range families {
			if family.GetName() == "proviso_policy_not_effective" {
				got = family.GetMetric()[0].GetGauge().GetValue()
			}
		}
		if got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}
