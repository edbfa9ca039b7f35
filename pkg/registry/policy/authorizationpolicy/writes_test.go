/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationpolicy_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/test/testutil/store"
)

// way is a way of writing a policy that is stored as before, or not at all.
type way struct {
	name   string
	before policy.PolicyEffect
	write  func(ctx context.Context, f *fixture, dryRun []string) error
	// needs are the verbs that it needs.
	needs []string
}

func creating(effect policy.PolicyEffect) func(context.Context, *fixture, []string) error {
	return func(ctx context.Context, f *fixture, dryRun []string) error {
		_, err := f.Objects.Create(ctx, f.policy("one", effect, nil), rest.ValidateAllObjectFunc, &metav1.CreateOptions{DryRun: dryRun})
		return err
	}
}

func updating(change func(*metav1.ObjectMeta, *policy.AuthorizationPolicySpec)) func(context.Context, *fixture, []string) error {
	return func(ctx context.Context, f *fixture, dryRun []string) error {
		_, err := f.update(ctx, "one", &metav1.UpdateOptions{DryRun: dryRun}, false, changing(change))
		return err
	}
}

func to(effect policy.PolicyEffect) func(*metav1.ObjectMeta, *policy.AuthorizationPolicySpec) {
	return func(_ *metav1.ObjectMeta, s *policy.AuthorizationPolicySpec) { s.Effect = effect }
}

func described(_ *metav1.ObjectMeta, s *policy.AuthorizationPolicySpec) { s.Description = "changed" }

func labelled(m *metav1.ObjectMeta, s *policy.AuthorizationPolicySpec) {
	m.Labels = map[string]string{"a": "b"}
	s.Variables = []policy.Variable{} // the same as none
}

// applying is server-side apply of what is not there.
func applying(effect policy.PolicyEffect) func(context.Context, *fixture, []string) error {
	return func(ctx context.Context, f *fixture, dryRun []string) error {
		_, err := f.update(ctx, "one", &metav1.UpdateOptions{DryRun: dryRun}, true, func(context.Context, runtime.Object, runtime.Object) (runtime.Object, error) {
			return f.policy("one", effect, nil), nil
		})
		return err
	}
}

func deleting(ctx context.Context, f *fixture, dryRun []string) error {
	_, _, err := f.Objects.Delete(ctx, "one", rest.ValidateAllObjectFunc, &metav1.DeleteOptions{DryRun: dryRun})
	return err
}

func deletingAll(ctx context.Context, f *fixture, dryRun []string) error {
	_, err := f.Objects.DeleteCollection(ctx, rest.ValidateAllObjectFunc, &metav1.DeleteOptions{DryRun: dryRun}, nil)
	return err
}

func ways() []way {
	escalate, restrict, both := []string{"escalate"}, []string{"restrict"}, []string{"escalate", "restrict"}
	return []way{
		{"create Allow", "", creating("Allow"), escalate},
		{"create Deny", "", creating("Deny"), restrict},
		{"create NoOpinion", "", creating("NoOpinion"), restrict},
		{"apply Allow", "", applying("Allow"), escalate},
		{"apply Deny", "", applying("Deny"), restrict},
		{"apply NoOpinion", "", applying("NoOpinion"), restrict},
		{"change Allow", "Allow", updating(described), escalate},
		{"change Deny", "Deny", updating(described), restrict},
		{"change NoOpinion", "NoOpinion", updating(described), restrict},
		{"Allow to Deny", "Allow", updating(to("Deny")), restrict},
		{"Allow to NoOpinion", "Allow", updating(to("NoOpinion")), restrict},
		{"Deny to Allow", "Deny", updating(to("Allow")), both},
		{"NoOpinion to Allow", "NoOpinion", updating(to("Allow")), both},
		{"Deny to NoOpinion", "Deny", updating(to("NoOpinion")), restrict},
		{"NoOpinion to Deny", "NoOpinion", updating(to("Deny")), restrict},
		{"an effect of the future to Allow", "Future", updating(to("Allow")), both},
		{"label Allow", "Allow", updating(labelled), nil},
		{"label Deny", "Deny", updating(labelled), nil},
		{"label NoOpinion", "NoOpinion", updating(labelled), nil},
		{"delete Allow", "Allow", deleting, nil},
		{"delete Deny", "Deny", deleting, restrict},
		{"delete NoOpinion", "NoOpinion", deleting, restrict},
		{"delete an effect of the future", "Future", deleting, restrict},
		{"deletecollection Allow", "Allow", deletingAll, nil},
		{"deletecollection Deny", "Deny", deletingAll, restrict},
		{"deletecollection NoOpinion", "NoOpinion", deletingAll, restrict},
	}
}

// TestWhoMayWrite writes in every way with every set of verbs, for real and as a dry run.
// What is refused changes nothing.
func TestWhoMayWrite(t *testing.T) {
	t.Parallel()
	for _, w := range ways() {
		t.Run(strings.ReplaceAll(w.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			eachKind(t, func(t *testing.T, f *fixture) {
				for _, dryRun := range [][]string{{metav1.DryRunAll}, nil} {
					for _, has := range [][]string{nil, {"escalate"}, {"restrict"}, {"escalate", "restrict"}} {
						writeOnce(t, f, w, has, dryRun)
					}
				}
			})
		})
	}
}

func writeOnce(t *testing.T, f *fixture, w way, has, dryRun []string) {
	t.Helper()
	f.chain.reset(nil, allow)
	if _, err := f.Objects.Store.DeleteCollection(f.ctx(t), rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}, nil); err != nil {
		t.Fatal(err)
	}
	if w.before != "" {
		f.store(t, f.policy("one", w.before, nil))
	}
	before := f.dump(t)
	answers := map[string]answer{}
	for _, verb := range has {
		answers[verb] = allow
	}
	f.chain.reset(answers, noOpinion)
	err := w.write(f.ctx(t), f, dryRun)
	may := !slices.ContainsFunc(w.needs, func(verb string) bool { return !slices.Contains(has, verb) })
	what := fmt.Sprintf("with %q, dry run %q", has, dryRun)
	switch {
	case may && err != nil:
		t.Errorf("%s: got %v, want it to be done", what, err)
	case !may && !apierrors.IsForbidden(err):
		t.Errorf("%s: got %v, want 403", what, err)
	}
	if changed := f.dump(t) != before; changed != (may && dryRun == nil) {
		t.Errorf("%s: changed %v, want %v", what, changed, may && dryRun == nil)
	}
}

// store stores a policy whatever it is.
func (f *fixture) store(t *testing.T, obj runtime.Object) {
	t.Helper()
	meta, _, _ := partsOf(obj)
	key, err := f.Objects.KeyFunc(f.ctx(t), meta.Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Objects.Storage.Create(f.ctx(t), key, obj, f.Objects.New(), 0, false); err != nil {
		t.Fatal(err)
	}
}

// TestRefusalNamesTheVerb makes sure that one can act on a refusal.
func TestRefusalNamesTheVerb(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, f *fixture) {
		f.chain.reset(map[string]answer{"restrict": {reason: "no role"}}, noOpinion)
		err := creating("Deny")(f.ctx(t), f, nil)
		want := fmt.Sprintf(`%[1]s.policy.proviso.dev "one" is forbidden: user "alice" (groups=["devs"]) is attempting to create, change or delete a policy that may restrict others; that needs the verb restrict on %[1]s.policy.proviso.dev`, f.resource)
		if err == nil || !strings.HasPrefix(store.MessageOf(err), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	})
}

// TestDeleteCollectionChecksEach deletes what may be deleted, and stops at what may not.
func TestDeleteCollectionChecksEach(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, f *fixture) {
		f.mustCreate(t, f.policy("a", policy.PolicyEffectAllow, nil))
		f.mustCreate(t, f.policy("b", policy.PolicyEffectDeny, nil))
		f.chain.reset(nil, noOpinion)
		if err := deletingAll(f.ctx(t), f, nil); !apierrors.IsForbidden(err) || !strings.Contains(store.MessageOf(err), `"b" is forbidden`) {
			t.Errorf("got %v, want 403 for b", err)
		}
		if left := f.dump(t); !strings.HasPrefix(left, "b ") {
			t.Errorf("left: %s, want b", left)
		}
	})
}

// TestGuardSeesTheFinalObject changes what is written as mutating admission would.
func TestGuardSeesTheFinalObject(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, f *fixture) {
		f.mustCreate(t, f.policy("one", policy.PolicyEffectAllow, nil))
		f.chain.reset(map[string]answer{"escalate": allow}, noOpinion)
		mutate := func(_ context.Context, obj, _ runtime.Object) (runtime.Object, error) {
			_, spec, _ := partsOf(obj)
			spec.Effect = policy.PolicyEffectDeny
			return obj, nil
		}
		info := rest.DefaultUpdatedObjectInfo(nil, changing(described), mutate)
		_, _, err := f.Objects.Update(f.ctx(t), "one", info, nil, nil, false, &metav1.UpdateOptions{})
		if !apierrors.IsForbidden(err) || !strings.Contains(store.MessageOf(err), "the verb restrict") {
			t.Errorf("got %v, want 403 for the lack of restrict", err)
		}
	})
}

// TestValidationOfOthersStays makes sure that admission is still asked, and after the
// guard, whatever was written.
func TestValidationOfOthersStays(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, f *fixture) {
		f.mustCreate(t, f.policy("one", policy.PolicyEffectDeny, nil))
		ctx, no := f.ctx(t), apierrors.NewBadRequest("no")
		object := func(context.Context, runtime.Object) error { return no }
		update := func(context.Context, runtime.Object, runtime.Object) error { return no }
		writes := map[string]func() error{
			"create": func() error {
				_, err := f.Objects.Create(ctx, f.policy("two", "Deny", nil), object, &metav1.CreateOptions{})
				return err
			},
			"update": func() error {
				_, _, err := f.Objects.Update(ctx, "one", rest.DefaultUpdatedObjectInfo(nil, changing(labelled)), nil, update, false, &metav1.UpdateOptions{})
				return err
			},
			"apply": func() error {
				info := rest.DefaultUpdatedObjectInfo(f.policy("two", "Deny", nil))
				_, _, err := f.Objects.Update(ctx, "two", info, object, nil, true, &metav1.UpdateOptions{})
				return err
			},
			"delete": func() error {
				_, _, err := f.Objects.Delete(ctx, "one", object, &metav1.DeleteOptions{})
				return err
			},
			"deletecollection": func() error {
				_, err := f.Objects.DeleteCollection(ctx, object, &metav1.DeleteOptions{}, nil)
				return err
			},
		}
		before := f.dump(t)
		for name, write := range writes {
			if err := write(); !apierrors.IsBadRequest(err) {
				t.Errorf("%s: got %v, want what admission said", name, err)
			}
		}
		f.chain.reset(nil, noOpinion)
		for name, write := range writes {
			if err := write(); name != "update" && !apierrors.IsForbidden(err) {
				t.Errorf("%s without permission: got %v, want 403", name, err)
			}
		}
		if after := f.dump(t); after != before {
			t.Errorf("changed from\n%s\nto\n%s", before, after)
		}
	})
}

func finalized(m *metav1.ObjectMeta, _ *policy.AuthorizationPolicySpec) {
	m.Finalizers = []string{"example.com/f"}
}

func unfinalized(m *metav1.ObjectMeta, _ *policy.AuthorizationPolicySpec) { m.Finalizers = nil }

// TestFinalizers: a deletion is decided when it is asked for; who removes the last finalizer
// only completes it.
func TestFinalizers(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, f *fixture) {
		f.mustCreate(t, f.policy("one", policy.PolicyEffectDeny, finalized))
		f.chain.reset(nil, noOpinion)
		if err := deleting(f.ctx(t), f, nil); !apierrors.IsForbidden(err) {
			t.Errorf("delete: got %v, want 403", err)
		}
		now := metav1.Now()
		smuggle := func(m *metav1.ObjectMeta, _ *policy.AuthorizationPolicySpec) {
			m.Finalizers, m.DeletionTimestamp, m.DeletionGracePeriodSeconds = nil, &now, ptr.To[int64](0)
		}
		if err := updating(smuggle)(f.ctx(t), f, nil); !apierrors.IsInvalid(err) {
			t.Errorf("an update that marks the policy as deleted: got %v, want 422", err)
		}
		if err := updating(unfinalized)(f.ctx(t), f, nil); err != nil {
			t.Errorf("an update of the finalizers: got %v, want it to be done", err)
		}
		if f.dump(t) == "" {
			t.Fatal("the policy is gone, though nobody was allowed to delete it")
		}

		f.chain.reset(map[string]answer{"restrict": allow}, noOpinion)
		for _, write := range []error{updating(finalized)(f.ctx(t), f, nil), deleting(f.ctx(t), f, nil)} {
			if write != nil {
				t.Fatal(write)
			}
		}
		f.chain.reset(nil, noOpinion)
		if f.dump(t) == "" {
			t.Fatal("the policy did not wait for its finalizer")
		}
		if err := updating(unfinalized)(f.ctx(t), f, nil); err != nil {
			t.Errorf("removing the last finalizer: got %v, want it to be done", err)
		}
		if left := f.dump(t); left != "" {
			t.Errorf("left: %s, want nothing", left)
		}
	})
}

// TestDeletionOfAllowTakesNoRestrictionAlong deletes an Allow policy, which needs no permission on other policies. The policy must not become a Deny that
// is removed with its last finalizer.
func TestDeletionOfAllowTakesNoRestrictionAlong(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, f *fixture) {
		f.mustCreate(t, f.policy("one", policy.PolicyEffectAllow, finalized))
		f.chain.reset(nil, noOpinion)
		if err := deleting(f.ctx(t), f, nil); err != nil {
			t.Fatal(err)
		}
		f.chain.reset(nil, allow)
		if err := updating(to(policy.PolicyEffectDeny))(f.ctx(t), f, nil); !apierrors.IsInvalid(err) {
			t.Errorf("got %v, want 422", err)
		}
	})
}

// TestUnsafeDeletes deletes policies that cannot be read and may be restrictions.
func TestUnsafeDeletes(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, f *fixture) {
		client := store.Client(t)
		key := fmt.Sprintf("%s/%s/one", store.Prefix(t), f.resource)
		if f.namespaced {
			key = fmt.Sprintf("%s/%s/n/one", store.Prefix(t), f.resource)
		}
		if _, err := client.Put(t.Context(), key, "garbage"); err != nil {
			t.Fatal(err)
		}
		options := func() *metav1.DeleteOptions {
			return &metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: ptr.To(true)}
		}
		f.chain.reset(map[string]answer{"restrict": noOpinion}, allow)
		deleter := f.Objects.GetCorruptObjDeleter()
		if deleter == nil {
			t.Fatal("there is no unsafe deletion, so the test proves nothing")
		}
		if _, _, err := deleter.Delete(f.ctx(t), "one", nil, options()); !apierrors.IsForbidden(err) {
			t.Errorf("unsafe delete: got %v, want 403", err)
		}
		if _, _, err := f.Objects.Delete(f.ctx(t), "none", nil, options()); !apierrors.IsForbidden(err) {
			t.Errorf("unsafe delete of what is not there: got %v, want 403", err)
		}
		if _, err := f.Objects.DeleteCollection(f.ctx(t), nil, options(), nil); !apierrors.IsForbidden(err) {
			t.Errorf("unsafe deletecollection: got %v, want 403", err)
		}
		if got, err := client.Get(t.Context(), key); err != nil || got.Count != 1 {
			t.Fatalf("the policy is gone: %v, %v", got, err)
		}
		want := []string{
			"alice: restrict policy.proviso.dev/v1alpha1/" + f.resource + "  " + f.namespace() + "/one",
			"alice: restrict policy.proviso.dev/v1alpha1/" + f.resource + "  " + f.namespace() + "/none",
			"alice: restrict policy.proviso.dev/v1alpha1/" + f.resource + "  " + f.namespace() + "/",
		}
		if fmt.Sprint(f.chain.asked) != fmt.Sprint(want) {
			t.Errorf("asked %q, want %q", f.chain.asked, want)
		}
		f.chain.reset(map[string]answer{"restrict": allow}, noOpinion)
		if _, _, err := deleter.Delete(f.ctx(t), "one", nil, options()); err != nil {
			t.Errorf("unsafe delete with restrict: got %v, want it to be done", err)
		}
		if got, err := client.Get(t.Context(), key); err != nil || got.Count != 0 {
			t.Errorf("the policy is still there: %v, %v", got, err)
		}
	})
}
