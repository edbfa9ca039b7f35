/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package validation_test

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/apis/policy/validation"
)

type (
	meta   = metav1.ObjectMeta
	spec   = policy.AuthorizationPolicySpec
	status = policy.AuthorizationPolicyStatus
)

// valid is the specification of a valid policy of either kind, with everything.
func valid() spec {
	return spec{
		Description: "alice manages volumes of class dev only",
		Effect:      policy.PolicyEffectAllow,
		Subjects: []rbacv1.Subject{
			{Kind: "User", APIGroup: rbacv1.GroupName, Name: "alice"},
			{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "system:masters"},
			{Kind: "ServiceAccount", Name: "robot", Namespace: "n"},
		},
		Rules: []policy.PolicyRule{{
			Verbs: []string{"create", "update", "patch"}, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"persistentvolumeclaims"},
		}},
		Variables: []policy.Variable{{Name: "subjectOf", Expression: "object"}},
		Condition: `variables.subjectOf.spec.storageClassName == "dev"`,
	}
}

func clusterPolicy(m meta, s spec, st status) *policy.ClusterAuthorizationPolicy {
	return &policy.ClusterAuthorizationPolicy{ObjectMeta: m, Spec: s, Status: st}
}

func namespacedPolicy(m meta, s spec, st status) *policy.AuthorizationPolicy {
	m.Namespace = "n"
	return &policy.AuthorizationPolicy{ObjectMeta: m, Spec: s, Status: st}
}

func stored() meta {
	return meta{Name: "one", ResourceVersion: "1", UID: "u", Generation: 3}
}

// validateAll validates a specification of each kind, as a creation and as an update: an
// update must not let in what a creation keeps out.
func validateAll(s spec) map[string]field.ErrorList {
	return map[string]field.ErrorList{
		"cluster, create":    validation.ValidateClusterAuthorizationPolicy(clusterPolicy(meta{Name: "one"}, s, status{})),
		"cluster, update":    validation.ValidateClusterAuthorizationPolicyUpdate(clusterPolicy(stored(), s, status{}), clusterPolicy(stored(), valid(), status{})),
		"namespaced, create": validation.ValidateAuthorizationPolicy(namespacedPolicy(meta{Name: "one"}, s, status{})),
		"namespaced, update": validation.ValidateAuthorizationPolicyUpdate(namespacedPolicy(stored(), s, status{}), namespacedPolicy(stored(), valid(), status{})),
	}
}

// check compares errors with the beginnings of their texts, one for each, in order.
func check(t *testing.T, what string, got field.ErrorList, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: got %d errors, want %d: %v", what, len(got), len(want), got.ToAggregate())
		return
	}
	for i := range want {
		if !strings.HasPrefix(got[i].Error(), want[i]) {
			t.Errorf("%s: error %d is %q, want %q", what, i, got[i], want[i])
		}
	}
}

type specCase struct {
	name   string
	change func(*spec)
	want   []string
}

func checkSpecs(t *testing.T, cases []specCase) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := valid()
			if tc.change != nil {
				tc.change(&s)
			}
			for what, got := range validateAll(s) {
				check(t, what, got, tc.want)
			}
		})
	}
}

func TestValidateSpec(t *testing.T) {
	t.Parallel()
	checkSpecs(t, []specCase{
		{"valid", nil, nil},
		{"the least", func(s *spec) {
			*s = spec{Effect: "Deny", Rules: []policy.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}}
		}, nil},
		{"no opinion", func(s *spec) { s.Effect = "NoOpinion" }, nil},
		{"no effect", func(s *spec) { s.Effect = "" }, []string{"spec.effect: Required value: one of Allow"}},
		{"another effect", func(s *spec) { s.Effect = "allow" }, []string{`spec.effect: Unsupported value: "allow": supported values: "Allow", "Deny", "NoOpinion"`}},
		{"enforce", func(s *spec) { s.Enforcement = "Enforce" }, nil},
		{"audit", func(s *spec) { s.Enforcement = "Audit" }, nil},
		{"another enforcement", func(s *spec) { s.Enforcement = "audit" }, []string{`spec.enforcement: Unsupported value: "audit": supported values: "Audit", "Enforce"`}},
		{"the longest description", func(s *spec) { s.Description = strings.Repeat("x", 1024) }, nil},
		{"too long a description", func(s *spec) { s.Description = strings.Repeat("x", 1025) }, []string{"spec.description: Too long"}},
		{"no rules", func(s *spec) { s.Rules = nil }, []string{"spec.rules: Required"}},
		{"as many rules as possible", func(s *spec) { s.Rules = repeat(s.Rules[0], 64) }, nil},
		{"too many rules", func(s *spec) { s.Rules = repeat(s.Rules[0], 65) }, []string{"spec.rules: Too many: 65"}},
		{"everything at once", func(s *spec) { *s = spec{Subjects: []rbacv1.Subject{{}}} },
			[]string{"spec.effect: Required", "spec.subjects[0].kind: Required", "spec.rules: Required"}},
	})
}

func repeat[T any](value T, n int) []T {
	var result []T
	for range n {
		result = append(result, value)
	}
	return result
}

func TestValidateNames(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		meta meta
		want []string
	}{
		{"a name with dots", meta{Name: "a.b-c"}, nil},
		{"the longest name", meta{Name: strings.Repeat("x", 63)}, nil},
		{"too long a name", meta{Name: strings.Repeat("x", 64)}, []string{"metadata.name: Invalid value: \"" + strings.Repeat("x", 64) + "\": must be no more than 63"}},
		{"no name", meta{}, []string{"metadata.name: Required"}},
		{"upper case", meta{Name: "One"}, []string{"metadata.name: Invalid"}},
		{"a slash", meta{Name: "a/b"}, []string{"metadata.name: Invalid"}},
		{"a generated name", meta{GenerateName: "one-", Name: "one-x7f2k"}, nil},
		{"a generated name that is too long", meta{GenerateName: "one-", Name: "one-" + strings.Repeat("x", 60)}, []string{"metadata.name: Invalid"}},
		{"a generated name that is none", meta{GenerateName: "One-", Name: "One-x7f2k"}, []string{"metadata.generateName: Invalid", "metadata.name: Invalid"}},
		{"a prefix that is cut before it is used", meta{GenerateName: strings.Repeat("x", 70), Name: "one"}, nil},
		{"a bad label", meta{Name: "one", Labels: map[string]string{"a": "!"}}, []string{"metadata.labels: Invalid"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			check(t, "cluster", validation.ValidateClusterAuthorizationPolicy(clusterPolicy(tc.meta, valid(), status{})), tc.want)
			check(t, "namespaced", validation.ValidateAuthorizationPolicy(namespacedPolicy(tc.meta, valid(), status{})), tc.want)
		})
	}
}

func TestValidateScope(t *testing.T) {
	t.Parallel()
	inside := clusterPolicy(meta{Name: "one", Namespace: "n"}, valid(), status{})
	check(t, "a cluster policy in a namespace", validation.ValidateClusterAuthorizationPolicy(inside), []string{"metadata.namespace: Forbidden"})
	outside := namespacedPolicy(meta{Name: "one"}, valid(), status{})
	outside.Namespace = ""
	check(t, "a namespaced policy in none", validation.ValidateAuthorizationPolicy(outside), []string{"metadata.namespace: Required"})
}

func TestValidateMetadataUpdate(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	deleting := func(effect policy.PolicyEffect) func(*meta, *spec) {
		return func(m *meta, s *spec) {
			m.DeletionTimestamp, m.Finalizers, s.Effect = &now, []string{"example.com/f"}, effect
		}
	}
	denying := func(verbs ...string) func(*meta, *spec) {
		return func(_ *meta, s *spec) { s.Effect, s.Rules[0].Verbs = "Deny", verbs }
	}
	for _, tc := range []struct {
		name     string
		old, new func(*meta, *spec)
		want     []string
	}{
		{"nothing", nil, nil, nil},
		{"another name", nil, func(m *meta, _ *spec) { m.Name = "two" }, []string{"metadata.name: Invalid"}},
		{"another UID", nil, func(m *meta, _ *spec) { m.UID = types.UID("v") }, []string{"metadata.uid: Invalid"}},
		{"a bad finalizer", nil, func(m *meta, _ *spec) { m.Finalizers = []string{"!"} }, []string{"metadata.finalizers: Invalid"}},
		{"the mark of a deletion that nobody asked for", nil, func(m *meta, _ *spec) { m.DeletionTimestamp = &now }, []string{"metadata.deletionTimestamp: Invalid"}},
		{"another effect", func(_ *meta, s *spec) { s.Effect = "Allow" }, func(_ *meta, s *spec) { s.Effect = "Deny" }, nil},
		{"a Deny of update that was stored", denying("update"), denying("update"), nil},
		{"a Deny of update that was stored, among other rules", denying("update"), func(m *meta, s *spec) {
			denying("update")(m, s)
			s.Rules = append([]rule{{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"pods"}}}, s.Rules...)
		}, nil},
		{"a Deny of both that becomes one of update", denying("update", "patch"), denying("update"), []string{"spec.rules[0].verbs: Forbidden: must also have patch"}},
		{"a Deny of update that becomes one of patch", denying("update"), denying("patch"), []string{"spec.rules[0].verbs: Forbidden: must also have update"}},
		{"a Deny of update that is about more", denying("update"), func(m *meta, s *spec) {
			denying("update")(m, s)
			s.Rules[0].Resources = []string{"pods", "secrets"}
		}, []string{"spec.rules[0].verbs: Forbidden"}},
		{"an Allow of update that becomes a Deny", func(_ *meta, s *spec) { s.Rules[0].Verbs = []string{"update"} }, denying("update"), []string{"spec.rules[0].verbs: Forbidden"}},
		{"an Allow in deletion that becomes a Deny", deleting("Allow"), deleting("Deny"), []string{"spec.effect: Forbidden: a policy that is being deleted"}},
		{"an Allow in deletion that becomes a NoOpinion", deleting("Allow"), deleting("NoOpinion"), []string{"spec.effect: Forbidden"}},
		{"an Allow in deletion", deleting("Allow"), deleting("Allow"), nil},
		{"a Deny in deletion", deleting("Deny"), deleting("Deny"), nil},
		{"a Deny in deletion that becomes an Allow", deleting("Deny"), deleting("Allow"), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			objects := [2]struct {
				meta meta
				spec spec
			}{}
			for i, change := range []func(*meta, *spec){tc.old, tc.new} {
				objects[i].meta, objects[i].spec = stored(), valid()
				if change != nil {
					change(&objects[i].meta, &objects[i].spec)
				}
			}
			old, changed := objects[0], objects[1]
			check(t, "cluster", validation.ValidateClusterAuthorizationPolicyUpdate(clusterPolicy(changed.meta, changed.spec, status{}), clusterPolicy(old.meta, old.spec, status{})), tc.want)
			check(t, "namespaced", validation.ValidateAuthorizationPolicyUpdate(namespacedPolicy(changed.meta, changed.spec, status{}), namespacedPolicy(old.meta, old.spec, status{})), tc.want)
		})
	}
}

func TestValidateStatusUpdate(t *testing.T) {
	t.Parallel()
	condition := metav1.Condition{Type: "Ready", Status: "True", Reason: "Compiled", LastTransitionTime: metav1.Now()}
	warnings := func(w ...policy.ExpressionWarning) *policy.TypeChecking {
		return &policy.TypeChecking{ExpressionWarnings: w}
	}
	warning := policy.ExpressionWarning{FieldRef: "spec.condition", Warning: "undefined field"}
	enforcement := policy.RuleEnforcement{Rule: 63, Verbs: []string{"get"}, Resources: []string{"pods"}, At: "Barrier", Result: "Audited", Message: "text"}
	for _, tc := range []struct {
		name   string
		status status
		want   []string
	}{
		{"valid", status{ObservedGeneration: 3, Conditions: []metav1.Condition{condition}, TypeChecking: warnings(warning)}, nil},
		{"the same generation", status{ObservedGeneration: 2}, nil},
		{"nothing found", status{ObservedGeneration: 2, TypeChecking: warnings()}, nil},
		{"a negative generation", status{ObservedGeneration: -1}, []string{"status.observedGeneration: Invalid value: -1: must not be negative"}},
		{"an older generation", status{ObservedGeneration: 1}, []string{"status.observedGeneration: Invalid value: 1: must not decrease"}},
		{"a generation of the future", status{ObservedGeneration: 4}, []string{"status.observedGeneration: Invalid value: 4: must not be greater"}},
		{"a bad condition", status{ObservedGeneration: 2, Conditions: []metav1.Condition{{Type: "Ready", Status: "Perhaps", Reason: "Up", LastTransitionTime: metav1.Now()}}},
			[]string{"status.conditions[0].status: Unsupported"}},
		{"the same condition twice", status{ObservedGeneration: 2, Conditions: []metav1.Condition{condition, condition}}, []string{"status.conditions[1]: Duplicate"}},
		{"too many conditions", status{ObservedGeneration: 2, Conditions: repeat(condition, 17)}, []string{"status.conditions: Too many: 17"}},
		{"as many warnings as possible", status{ObservedGeneration: 2, TypeChecking: warnings(repeat(warning, 32)...)}, nil},
		{"too many warnings", status{ObservedGeneration: 2, TypeChecking: warnings(repeat(warning, 33)...)}, []string{"status.typeChecking.expressionWarnings: Too many: 33"}},
		{"an empty warning", status{ObservedGeneration: 2, TypeChecking: warnings(policy.ExpressionWarning{})},
			[]string{"status.typeChecking.expressionWarnings[0].fieldRef: Required", "status.typeChecking.expressionWarnings[0].warning: Required"}},
		{"too long a warning", status{ObservedGeneration: 2, TypeChecking: warnings(policy.ExpressionWarning{FieldRef: strings.Repeat("x", 257), Warning: strings.Repeat("x", 4097)})},
			[]string{"status.typeChecking.expressionWarnings[0].fieldRef: Too long", "status.typeChecking.expressionWarnings[0].warning: Too long"}},
		{"enforcement, with values of a later version", status{ObservedGeneration: 2, Enforcement: repeat(enforcement, 64)}, nil},
		{"too much enforcement", status{ObservedGeneration: 2, Enforcement: repeat(enforcement, 65)}, []string{"status.enforcement: Too many: 65"}},
		{"enforcement without values", status{ObservedGeneration: 2, Enforcement: []policy.RuleEnforcement{{}}},
			[]string{"status.enforcement[0].at: Required", "status.enforcement[0].result: Required"}},
		{"enforcement of no rule", status{ObservedGeneration: 2, Enforcement: []policy.RuleEnforcement{{Rule: -1, At: "A", Result: "B"}, {Rule: 64, At: "A", Result: "B"}}},
			[]string{"status.enforcement[0].rule: Invalid value: -1", "status.enforcement[1].rule: Invalid value: 64"}},
		{"enforcement out of bounds", status{ObservedGeneration: 2, Enforcement: []policy.RuleEnforcement{{
			Verbs: repeat("get", 65), Resources: []string{"", strings.Repeat("x", 1025)}, At: "A", Result: "B", Message: strings.Repeat("x", 1025),
		}}}, []string{"status.enforcement[0].verbs: Too many: 65", "status.enforcement[0].resources[0]: Required", "status.enforcement[0].resources[1]: Too long", "status.enforcement[0].message: Too long"}},
		{"counts", status{ObservedGeneration: 2, Audit: &policy.PolicyAuditStatus{ObservedGeneration: 3, Decided: 7, Errors: 1}}, nil},
		{"no counts yet", status{ObservedGeneration: 2, Audit: &policy.PolicyAuditStatus{}}, nil},
		{"negative counts", status{ObservedGeneration: 2, Audit: &policy.PolicyAuditStatus{ObservedGeneration: -1, Decided: -1, Errors: -1, Undetermined: -1}},
			[]string{"status.audit.decided: Invalid value: -1", "status.audit.errors: Invalid value: -1", "status.audit.undetermined: Invalid value: -1", "status.audit.observedGeneration: Invalid value: -1"}},
		{"counts of a generation of the future", status{ObservedGeneration: 2, Audit: &policy.PolicyAuditStatus{ObservedGeneration: 4}},
			[]string{"status.audit.observedGeneration: Invalid value: 4: must not be greater"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			old := status{ObservedGeneration: 2}
			check(t, "cluster", validation.ValidateClusterAuthorizationPolicyStatusUpdate(clusterPolicy(stored(), valid(), tc.status), clusterPolicy(stored(), valid(), old)), tc.want)
			check(t, "namespaced", validation.ValidateAuthorizationPolicyStatusUpdate(namespacedPolicy(stored(), valid(), tc.status), namespacedPolicy(stored(), valid(), old)), tc.want)
		})
	}
	renamed := stored()
	renamed.Name = "two"
	check(t, "another name", validation.ValidateClusterAuthorizationPolicyStatusUpdate(clusterPolicy(renamed, valid(), status{}), clusterPolicy(stored(), valid(), status{})), []string{"metadata.name: Invalid"})
}
