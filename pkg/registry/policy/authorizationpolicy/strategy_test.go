/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationpolicy_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/test/testutil/golden"
	"github.com/proviso-authz/proviso/test/testutil/store"
)

func TestStatusAndGeneration(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, f *fixture) {
		obj := f.policy("one", policy.PolicyEffectAllow, func(m *metav1.ObjectMeta, _ *policy.AuthorizationPolicySpec) { m.Generation = 7 })
		_, _, status := partsOf(obj)
		status.ObservedGeneration = 7
		f.mustCreate(t, obj)
		generations := func() [2]int64 {
			stored, err := f.Objects.Get(f.ctx(t), "one", &metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			meta, _, status := partsOf(stored)
			return [2]int64{meta.Generation, status.ObservedGeneration}
		}
		step := func(what string, err error, want [2]int64) {
			t.Helper()
			if got := generations(); err != nil || got != want {
				t.Errorf("%s: got %v, generation and observed generation %v, want %v", what, err, got, want)
			}
		}
		step("created", nil, [2]int64{1, 0})
		step("labelled", updating(labelled)(f.ctx(t), f, nil), [2]int64{1, 0})
		step("changed", updating(described)(f.ctx(t), f, nil), [2]int64{2, 0})
		step("status written", f.updateStatus(t, "one", func(_ *metav1.ObjectMeta, s *policy.AuthorizationPolicyStatus) { s.ObservedGeneration = 2 }), [2]int64{2, 2})
		smuggle := func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			obj := old.DeepCopyObject()
			meta, spec, status := partsOf(obj)
			meta.Generation, spec.Description, status.ObservedGeneration = 9, "again", 3
			return obj, nil
		}
		_, err := f.update(f.ctx(t), "one", &metav1.UpdateOptions{}, false, smuggle)
		step("changed with a status", err, [2]int64{3, 2})
	})
}

// updateStatus changes the status, and the metadata beside it.
func (f *fixture) updateStatus(t *testing.T, name string, change func(*metav1.ObjectMeta, *policy.AuthorizationPolicyStatus)) error {
	t.Helper()
	info := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		obj := old.DeepCopyObject()
		meta, spec, status := partsOf(obj)
		spec.Effect, spec.Description = policy.PolicyEffectDeny, "smuggled"
		change(meta, status)
		return obj, nil
	})
	_, _, err := f.Status.Update(f.ctx(t), name, info, rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, true, &metav1.UpdateOptions{})
	return err
}

// TestStatusWritesNothingElse needs neither verb for it, and so must not change what needs
// them.
func TestStatusWritesNothingElse(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, f *fixture) {
		f.mustCreate(t, f.policy("one", policy.PolicyEffectAllow, nil))
		f.chain.reset(nil, noOpinion)
		ready := metav1.Condition{Type: "Ready", Status: "True", Reason: "Compiled", LastTransitionTime: metav1.Now()}
		err := f.updateStatus(t, "one", func(m *metav1.ObjectMeta, s *policy.AuthorizationPolicyStatus) {
			m.Labels, m.Finalizers = map[string]string{"smuggled": "true"}, []string{"example.com/smuggled"}
			apimeta.SetStatusCondition(&s.Conditions, ready)
		})
		if err != nil {
			t.Fatal(err)
		}
		stored, err := f.Status.Get(f.ctx(t), "one", &metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		meta, spec, status := partsOf(stored)
		if spec.Effect != policy.PolicyEffectAllow || spec.Description != "" || len(meta.Labels) > 0 || len(meta.Finalizers) > 0 || len(status.Conditions) != 1 {
			t.Errorf("got %+v, want the status and nothing else", stored)
		}
		err = f.updateStatus(t, "one", func(_ *metav1.ObjectMeta, s *policy.AuthorizationPolicyStatus) { s.ObservedGeneration = 9 })
		if !apierrors.IsInvalid(err) {
			t.Errorf("a bad status: got %v, want 422", err)
		}
		if err := f.updateStatus(t, "none", func(*metav1.ObjectMeta, *policy.AuthorizationPolicyStatus) {}); !apierrors.IsNotFound(err) {
			t.Errorf("the status of what is not there: got %v, want 404", err)
		}
		for what, got := range map[string]map[string]bool{"the policy": names(f.Objects.GetResetFields()), "the status": names(f.Status.GetResetFields())} {
			if want := map[string]map[string]bool{"the policy": {".status": true}, "the status": {".spec": true, ".metadata": true}}[what]; !cmp.Equal(want, got) {
				t.Errorf("a write to %s resets %v, want %v", what, got, want)
			}
		}
	})
}

// TestWritesAreValidated: structure first, then expressions, in updates as in creations.
func TestWritesAreValidated(t *testing.T) {
	t.Parallel()
	condition := func(text string) func(*metav1.ObjectMeta, *policy.AuthorizationPolicySpec) {
		return func(_ *metav1.ObjectMeta, s *policy.AuthorizationPolicySpec) { s.Condition = text }
	}
	both := func(_ *metav1.ObjectMeta, s *policy.AuthorizationPolicySpec) {
		s.Condition, s.Subjects = "wrong", nil
		s.Rules = nil
	}
	for _, tc := range []struct {
		name   string
		change func(*metav1.ObjectMeta, *policy.AuthorizationPolicySpec)
		want   string
		not    string
	}{
		{"an expression", condition("wrong"), `spec.condition: Invalid value: "wrong": it is wrong`, "spec.rules"},
		{"a change", condition("dear"), `spec.condition: Forbidden: too dear: `, "spec.rules"},
		{"a structure, before anything is compiled", both, "spec.rules: Required", "it is wrong"},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			eachKind(t, func(t *testing.T, f *fixture) {
				f.mustCreate(t, f.policy("one", policy.PolicyEffectAllow, nil))
				_, err := f.create(f.ctx(t), f.policy("two", policy.PolicyEffectAllow, tc.change))
				for what, got := range map[string]error{"create": err, "update": updating(tc.change)(f.ctx(t), f, nil)} {
					if !apierrors.IsInvalid(got) || !strings.Contains(store.MessageOf(got), tc.want) || strings.Contains(store.MessageOf(got), tc.not) {
						t.Errorf("%s: got %v, want 422 with %q", what, got, tc.want)
					}
				}
			})
		})
	}
}

// TestChangesThatCostNoMoreAreAccepted stores a policy that a later bound refuses. It can be changed to cost less, and be labelled.
func TestChangesThatCostNoMoreAreAccepted(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, f *fixture) {
		f.store(t, f.policy("one", policy.PolicyEffectAllow, func(m *metav1.ObjectMeta, s *policy.AuthorizationPolicySpec) {
			m.UID = "u"
			s.Condition = "dear and long"
		}))
		condition := func(text string) func(*metav1.ObjectMeta, *policy.AuthorizationPolicySpec) {
			return func(_ *metav1.ObjectMeta, s *policy.AuthorizationPolicySpec) { s.Condition = text }
		}
		if err := updating(condition("dear and longer"))(f.ctx(t), f, nil); !apierrors.IsInvalid(err) {
			t.Errorf("a change that costs more: got %v, want 422", err)
		}
		if err := updating(labelled)(f.ctx(t), f, nil); err != nil {
			t.Errorf("a label: got %v, want it to be stored", err)
		}
		if err := updating(condition("dear"))(f.ctx(t), f, nil); err != nil {
			t.Errorf("a change that costs less: got %v, want it to be stored", err)
		}
	})
}

// TestWhatNoLongerCompilesCanGo stores a policy that compiled once. It cannot be changed
// without mending it, but its finalizers can be removed when it is deleted.
func TestWhatNoLongerCompilesCanGo(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, f *fixture) {
		f.store(t, f.policy("one", policy.PolicyEffectAllow, func(m *metav1.ObjectMeta, s *policy.AuthorizationPolicySpec) {
			m.UID = "u"
			s.Condition = "wrong"
			finalized(m, s)
		}))
		if err := updating(labelled)(f.ctx(t), f, nil); !apierrors.IsInvalid(err) {
			t.Errorf("a label: got %v, want 422", err)
		}
		if err := deleting(f.ctx(t), f, nil); err != nil {
			t.Fatal(err)
		}
		if err := updating(described)(f.ctx(t), f, nil); !apierrors.IsInvalid(err) {
			t.Errorf("a change while it is being deleted: got %v, want 422", err)
		}
		if err := updating(unfinalized)(f.ctx(t), f, nil); err != nil {
			t.Errorf("removing its finalizer: got %v, want it to be done", err)
		}
		if left := f.dump(t); left != "" {
			t.Errorf("left: %s, want nothing", left)
		}
	})
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(*metav1.ObjectMeta, *policy.AuthorizationPolicySpec)
		want   []string
	}{
		{"nothing", described, nil},
		{"of the checker", func(_ *metav1.ObjectMeta, s *policy.AuthorizationPolicySpec) { s.Condition = "odd" }, []string{"spec.condition: odd"}},
		{"of the checker, without errors", func(_ *metav1.ObjectMeta, s *policy.AuthorizationPolicySpec) { s.Condition = "mistaken" }, []string{"spec.condition: mistaken"}},
		{"of both, the second one first", func(_ *metav1.ObjectMeta, s *policy.AuthorizationPolicySpec) { s.Condition = "odd, mistaken" }, []string{"spec.condition: mistaken", "spec.condition: odd"}},
		{"a label", labelled, nil},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			eachKind(t, func(t *testing.T, f *fixture) {
				compare := func(what string, want []string, write func(context.Context) error) {
					t.Helper()
					got := &store.Warnings{}
					if err := write(warning.WithWarningRecorder(f.ctx(t), got)); err != nil {
						t.Fatal(err)
					}
					if len(*got) != len(want) || (len(want) > 0 && !strings.HasPrefix((*got)[0], want[0])) {
						t.Errorf("%s: got %q, want %q", what, *got, want)
					}
				}
				compare("create", tc.want, func(ctx context.Context) error {
					_, err := f.create(ctx, f.policy("one", policy.PolicyEffectAllow, tc.change))
					return err
				})
				f.mustCreate(t, f.policy("two", policy.PolicyEffectAllow, nil))
				compare("update", tc.want, func(ctx context.Context) error {
					_, err := f.update(ctx, "two", &metav1.UpdateOptions{}, false, changing(tc.change))
					return err
				})
				compare("an update that changes nothing", nil, func(ctx context.Context) error {
					_, err := f.update(ctx, "two", &metav1.UpdateOptions{}, false, changing(labelled))
					return err
				})
			})
		})
	}
}

func TestPutDoesNotCreate(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, f *fixture) {
		info := rest.DefaultUpdatedObjectInfo(f.policy("one", policy.PolicyEffectAllow, nil))
		_, _, err := f.Objects.Update(f.ctx(t), "one", info, nil, nil, false, &metav1.UpdateOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("got %v, want 404", err)
		}
		f.mustCreate(t, f.policy("one", policy.PolicyEffectAllow, nil))
		if _, _, err := f.Objects.Update(f.ctx(t), "one", info, nil, nil, false, &metav1.UpdateOptions{}); err != nil {
			t.Errorf("without resourceVersion: got %v, want it to be replaced", err)
		}
	})
}

// TestOwnFinalizers checks that only the server adds the finalizer of barriers. A user who had it on a policy could have the server take an object of another
// tool for the barrier.
func TestOwnFinalizers(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, f *fixture) {
		const own, other = v1alpha1.BarrierFinalizer, "example.com/other"
		server := genericapirequest.WithUser(f.ctx(t), &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}})
		set := func(finalizers ...string) rest.TransformFunc {
			return func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
				obj := old.DeepCopyObject()
				meta, _, _ := partsOf(obj)
				meta.Finalizers = finalizers
				return obj, nil
			}
		}
		want := func(when string, finalizers ...string) {
			t.Helper()
			stored, err := f.Objects.Get(f.ctx(t), "one", &metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			meta, _, _ := partsOf(stored)
			if diff := cmp.Diff(finalizers, meta.Finalizers, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		f.mustCreate(t, f.policy("one", policy.PolicyEffectDeny, func(m *metav1.ObjectMeta, _ *policy.AuthorizationPolicySpec) { m.Finalizers = []string{own, other} }))
		want("created by a user", other)
		change := func(ctx context.Context, finalizers ...string) {
			t.Helper()
			if _, err := f.update(ctx, "one", &metav1.UpdateOptions{}, false, set(finalizers...)); err != nil {
				t.Fatal(err)
			}
		}
		change(f.ctx(t), other, own)
		want("added by a user", other)
		change(server, other, own)
		want("added by the server", other, own)
		change(f.ctx(t), own)
		want("kept by a user", own)
		change(f.ctx(t))
		want("removed by a user")
	})
}

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

// TestTable keeps what kubectl prints.
func TestTable(t *testing.T) {
	t.Parallel()
	f := newFixture(t, false)
	table, err := f.Objects.ConvertToTable(t.Context(), printed(), nil)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/table.txt", store.TableText(table))
	if table.ResourceVersion != "7" || table.Continue != "c" || table.RemainingItemCount == nil || *table.RemainingItemCount != 5 {
		t.Errorf("got the list metadata %+v, want that of the list", table.ListMeta)
	}
	single := &policy.ClusterAuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "one", ResourceVersion: "8"}}
	table, err = f.Status.ConvertToTable(t.Context(), single, &metav1.TableOptions{NoHeaders: true})
	if err != nil || len(table.ColumnDefinitions) != 0 || len(table.Rows) != 1 || table.ResourceVersion != "8" || table.Rows[0].Object.Object != runtime.Object(single) {
		t.Errorf("got %+v, %v, want one row without headers", table, err)
	}
	if _, err := f.Objects.ConvertToTable(t.Context(), &metav1.Status{}, nil); err == nil {
		t.Error("something else was rendered")
	}
}

func TestNamesForKubectl(t *testing.T) {
	t.Parallel()
	for namespaced, want := range map[bool]string{false: "clusterauthorizationpolicy cap", true: "authorizationpolicy ap"} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, namespaced)
			if got := f.Objects.GetSingularName() + " " + strings.Join(f.Objects.ShortNames(), " "); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if got := f.Objects.NamespaceScoped(); got != namespaced {
				t.Errorf("namespaced: got %v", got)
			}
		})
	}
}
