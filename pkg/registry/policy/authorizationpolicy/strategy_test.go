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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// warnings records warnings.
type warnings struct{ texts []string }

func (w *warnings) AddWarning(_, text string) { w.texts = append(w.texts, text) }

func TestStatusAndGeneration(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, f *fixture) {
		obj := f.policy("one", policy.PolicyEffectAllow, func(m *metav1.ObjectMeta, _ *policy.AuthorizationPolicySpec) { m.Generation = 7 })
		_, _, status := partsOf(obj)
		status.ObservedGeneration = 7
		f.mustCreate(t, obj)
		generations := func() [2]int64 {
			stored, err := f.Policy.Get(f.ctx(t), "one", &metav1.GetOptions{})
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
		for what, got := range map[string]map[string]bool{"the policy": names(f.Policy.GetResetFields()), "the status": names(f.Status.GetResetFields())} {
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
					if !apierrors.IsInvalid(got) || !strings.Contains(messageOf(got), tc.want) || strings.Contains(messageOf(got), tc.not) {
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
					got := &warnings{}
					if err := write(warning.WithWarningRecorder(f.ctx(t), got)); err != nil {
						t.Fatal(err)
					}
					if len(got.texts) != len(want) || (len(want) > 0 && !strings.HasPrefix(got.texts[0], want[0])) {
						t.Errorf("%s: got %q, want %q", what, got.texts, want)
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
		_, _, err := f.Policy.Update(f.ctx(t), "one", info, nil, nil, false, &metav1.UpdateOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("got %v, want 404", err)
		}
		f.mustCreate(t, f.policy("one", policy.PolicyEffectAllow, nil))
		if _, _, err := f.Policy.Update(f.ctx(t), "one", info, nil, nil, false, &metav1.UpdateOptions{}); err != nil {
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
			stored, err := f.Policy.Get(f.ctx(t), "one", &metav1.GetOptions{})
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
