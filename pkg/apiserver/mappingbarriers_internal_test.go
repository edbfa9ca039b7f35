/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyapi "github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/barrier/barriercontroller"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// TestApiserverMappingEffect has the condition Effective of a mapping for each state of its barrier.
func TestApiserverMappingEffect(t *testing.T) {
	t.Parallel()
	translated := barrier.RuleReport{Resources: []string{"pods"}, Verbs: []string{"create"}}
	other := barrier.RuleReport{Rule: 1, Resources: []string{"pods"}, Verbs: []string{"create"}, Reason: "it is a list"}
	unseen, later := barrier.RuleReport{Resources: []string{"pods"}, Unseen: []string{"versions", "deletions"}}, barrier.RuleReport{Rule: 2, Resources: []string{"pods"}, Unseen: []string{"versions"}}
	own := barrier.RuleReport{Resources: []string{"virtualmachines.demo.proviso.dev"}, Verbs: []string{"create"}, Reason: "Proviso serves it"}
	for _, tc := range []struct {
		name        string
		state       barriercontroller.State
		wantReason  string
		wantMessage string
	}{
		{"written", barriercontroller.State{Phase: barriercontroller.Written, Report: []barrier.RuleReport{translated, own}}, "Enforced", "change an excluded field without its verb"},
		{"with requests that are not seen", barriercontroller.State{Phase: barriercontroller.Written, Report: []barrier.RuleReport{unseen, later}}, "Enforced", "without its verb; not refused, of fields[0]: deletions; not refused, of fields[0], fields[2]: versions"},
		{"pending", barriercontroller.State{Phase: barriercontroller.Pending, Message: "soon", Report: []barrier.RuleReport{translated, other}}, "Pending", "soon"},
		{"refused", barriercontroller.State{Phase: barriercontroller.Refused, Message: "kube-apiserver refuses it", Report: []barrier.RuleReport{translated}}, "NotEnforced", "kube-apiserver refuses it"},
		{"written in part", barriercontroller.State{Phase: barriercontroller.Written, Report: []barrier.RuleReport{translated, other}}, "NotEnforced", "fields[1] (pods): kube-apiserver does not enforce the exclusion: it is a list"},
		{"without a translation", barriercontroller.State{Phase: barriercontroller.Untranslated, Report: []barrier.RuleReport{other}}, "NotEnforced", "it is a list"},
		{"Proviso's own", barriercontroller.State{Phase: barriercontroller.Untranslated, Report: []barrier.RuleReport{own}}, "Enforced", "without its verb"},
		{"invalid", barriercontroller.State{Phase: barriercontroller.Broken, Message: "it does not compile"}, "NotEnforced", "it does not compile"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := effectOf(3, tc.state)
			if strings.Contains(got.Message, "all requests") {
				t.Errorf("the message claims too much: %s", got.Message)
			}
			if got.Reason != tc.wantReason || !strings.Contains(got.Message, tc.wantMessage) || got.ObservedGeneration != 3 || (got.Status == metav1.ConditionTrue) != (tc.wantReason == "Enforced") {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestMappingWarnings has the warnings about a mapping in a dry run, and otherwise.
func TestMappingWarnings(t *testing.T) {
	t.Parallel()
	policies := compilers.Policies(t)
	compiler, err := barrier.NewCompiler(barrier.Config{Policies: policies})
	if err != nil {
		t.Fatal(err)
	}
	b := &barriers{compiler: compiler}
	m := &policyapi.FieldPermissionMapping{ObjectMeta: metav1.ObjectMeta{Name: "m"}}
	m.Spec.Resources = []policyapi.FieldPermissionResource{{Resource: "pods"}, {APIGroup: "demo.proviso.dev", Resource: "virtualmachines"}}
	m.Spec.Fields = []policyapi.FieldPermission{
		{Path: "spec.hostNetwork", Permission: "hostNetworks", Exclusion: &policyapi.FieldExclusion{}},
		{Path: `spec.containers[name="a"]`, Permission: "sidecars", Exclusion: &policyapi.FieldExclusion{}},
	}
	const (
		none     = "spec.fields[1] (create, patch, update pods, bindings): no ValidatingAdmissionPolicy enforces the exclusion: the path has elements"
		notAtAll = "spec.resources[0]: Proviso does not decide writes of pods"
	)
	starts := func(got []string, want ...string) bool {
		return slices.EqualFunc(got, want, strings.HasPrefix)
	}
	warn := b.mappingWarner(nil)
	if got := warn(t.Context(), m); !starts(got, none, notAtAll) {
		t.Errorf("got %q", got)
	}
	m.Spec.Fields = m.Spec.Fields[:1]
	if got := warn(t.Context(), m); len(got) > 0 {
		t.Errorf("got %q for an exclusion with a barrier", got)
	}
	m.Spec.Resources[0] = policyapi.FieldPermissionResource{APIGroup: "apps", Resource: "deployments"}
	if got := warn(t.Context(), m); !starts(got, "spec.fields[0] (create, patch, update deployments.apps): some writes are not checked: a write in a version whose schema lacks the field") {
		t.Errorf("got %q for a mapping of all versions", got)
	}
	m.Spec.Resources[0].APIVersions = []string{"v1"}
	if got := warn(t.Context(), m); len(got) > 0 {
		t.Errorf("got %q for a mapping of one version", got)
	}
	if warnings, errs := b.mappingChecker(nil)("m", &m.Spec); len(warnings) > 0 || len(errs) > 0 {
		t.Errorf("got %v, %v", warnings, errs)
	}
}

// TestSightOfMappings has a replica lose sight of the barriers that are stored: a mapping is not effective then.
func TestSightOfMappings(t *testing.T) {
	t.Parallel()
	written := barriercontroller.State{Phase: barriercontroller.Written}
	if got := effectOf(1, withSight(written, "")); got.Status != metav1.ConditionTrue {
		t.Errorf("with sight: got %+v", got)
	}
	if got := effectOf(1, withSight(written, "they cannot be read")); got.Status == metav1.ConditionTrue || !strings.Contains(got.Message, "they cannot be read") {
		t.Errorf("without sight: got %+v", got)
	}
	refused := barriercontroller.State{Phase: barriercontroller.Refused, Message: "too long"}
	if got := effectOf(1, withSight(refused, "they cannot be read")); !strings.Contains(got.Message, "too long") {
		t.Errorf("a barrier that was not written: got %+v", got)
	}
}
