/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package fieldpermissionmapping_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/apis/policy/install"
	"github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/registry/policy/fieldpermissionmapping"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
	"github.com/proviso-authz/proviso/test/testutil/golden"
	"github.com/proviso-authz/proviso/test/testutil/store"
)

func TestMain(m *testing.M) { store.Main(m) }

// check refuses mappings that are described as wrong and warns of odd ones.
func check(_ string, spec *policy.FieldPermissionMappingSpec) (warnings []string, errs field.ErrorList) {
	switch spec.Description {
	case "odd":
		return []string{"it is odd"}, nil
	case "wrong":
		return nil, field.ErrorList{field.Invalid(field.NewPath("spec"), spec.Description, "it is wrong")}
	}
	return nil, nil
}

func newStorage(t *testing.T, checker fieldpermissionmapping.Checker) *stored.Storage {
	t.Helper()
	scheme := store.Scheme(install.Install, v1alpha1.SchemeGroupVersion)
	s, err := fieldpermissionmapping.NewStorage(scheme, store.Options(t, scheme, v1alpha1.SchemeGroupVersion, "fieldpermissionmappings"), checker, nil, authors)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Objects.Destroy)
	return s
}

// authors lets ann restrict, and nobody else.
var authors = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	switch {
	case a.GetUser().GetName() == "err":
		return authorizer.DecisionAllow, "", errors.New("the secret is 42")
	case a.GetUser().GetName() == "ann" && a.GetVerb() == "restrict" && a.GetResource() == "fieldpermissionmappings" && a.GetAPIGroup() == "policy.proviso.dev" && a.GetName() != "":
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
})

func mapping(name, description string) *policy.FieldPermissionMapping {
	return &policy.FieldPermissionMapping{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: policy.FieldPermissionMappingSpec{
			Description: description, Resources: []policy.FieldPermissionResource{{Resource: "pods"}},
			Fields: []policy.FieldPermission{{Path: "spec.boom", Permission: "selfDestruction", Exclusion: &policy.FieldExclusion{}}},
		},
	}
}

func contextWith(t *testing.T) (context.Context, *store.Warnings) {
	t.Helper()
	w := &store.Warnings{}
	return as(genericapirequest.WithNamespace(warning.WithWarningRecorder(t.Context(), w), metav1.NamespaceNone), "ann"), w
}

func as(ctx context.Context, name string) context.Context {
	return genericapirequest.WithUser(ctx, &user.DefaultInfo{Name: name})
}

// TestAuthors writes mappings as those who may not, in every way, and looks that nothing was
// written.
func TestAuthors(t *testing.T) {
	t.Parallel()
	s := newStorage(t, check)
	ctx, _ := contextWith(t)
	if _, err := s.Objects.Create(ctx, mapping("one", "who may"), nil, &metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	before, err := s.Objects.Get(ctx, "one", &metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bob", "err", ""} {
		ctx := as(ctx, name)
		if name == "" {
			ctx = genericapirequest.WithUser(ctx, nil)
		}
		for way, write := range map[string]func() error{
			"create": func() error {
				_, err := s.Objects.Create(ctx, mapping("two", "who may"), nil, &metav1.CreateOptions{})
				return err
			},
			"update": func() error {
				_, err := store.Update(ctx, s.Objects, "one", func(m *policy.FieldPermissionMapping) { m.Spec.Fields[0].Exclusion = nil })
				return err
			},
			"delete": func() error {
				_, _, err := s.Objects.Delete(ctx, "one", nil, &metav1.DeleteOptions{})
				return err
			},
			"deletecollection": func() error {
				_, err := s.Objects.DeleteCollection(ctx, nil, &metav1.DeleteOptions{}, &metainternalversion.ListOptions{})
				return err
			},
		} {
			if err := write(); !apierrors.IsForbidden(err) || strings.Contains(err.Error(), "42") {
				t.Errorf("%s by %q: got %v, want 403", way, name, err)
			}
		}
	}
	after, err := s.Objects.Get(ctx, "one", &metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("something was written (-before +after):\n%s", diff)
	}
	if _, err := store.Update(as(ctx, "bob"), s.Objects, "one", func(m *policy.FieldPermissionMapping) { m.Labels = map[string]string{"a": "b"} }); err != nil {
		t.Errorf("a label by bob: %v", err)
	}
	if _, _, err := s.Objects.Delete(ctx, "one", nil, &metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete by ann: %v", err)
	}
}

func TestWrites(t *testing.T) {
	t.Parallel()
	s := newStorage(t, check)
	ctx, warnings := contextWith(t)
	one := mapping("one", "odd")
	one.Status.ObservedGeneration, one.Generation = 7, 7
	got, err := s.Objects.Create(ctx, one, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if m := got.(*policy.FieldPermissionMapping); m.Generation != 1 || m.Status.ObservedGeneration != 0 {
		t.Errorf("create: got generation %d, status %+v", m.Generation, m.Status)
	}
	if strings.Join(*warnings, ";") != "it is odd" {
		t.Errorf("create: got warnings %q", *warnings)
	}
	for name, bad := range map[string]*policy.FieldPermissionMapping{"by structure": mapping("two", ""), "by the checker": mapping("two", "wrong")} {
		if name == "by structure" {
			bad.Spec.Fields = nil
		}
		if _, err := s.Objects.Create(ctx, bad, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("create of what is wrong %s: got %v, want 422", name, err)
		}
		if _, err := store.Update(ctx, s.Objects, "one", func(m *policy.FieldPermissionMapping) { m.Spec = *bad.Spec.DeepCopy() }); !apierrors.IsInvalid(err) {
			t.Errorf("update to what is wrong %s: got %v, want 422", name, err)
		}
	}
	*warnings = nil
	m, err := store.Update(ctx, s.Objects, "one", func(m *policy.FieldPermissionMapping) {
		m.Labels, m.Status.ObservedGeneration = map[string]string{"a": "b"}, 1
	})
	if err != nil || m.Generation != 1 || m.Status.ObservedGeneration != 0 || len(*warnings) != 0 {
		t.Errorf("a label: got %+v, %v, warnings %q", m, err, *warnings)
	}
	if m, err = store.Update(ctx, s.Objects, "one", func(m *policy.FieldPermissionMapping) { m.Spec.Fields[0].Path = "spec.bang" }); err != nil || m.Generation != 2 || len(*warnings) != 1 {
		t.Errorf("a path: got %+v, %v, warnings %q", m, err, *warnings)
	}
	if m, err = store.Update(ctx, s.Status, "one", func(m *policy.FieldPermissionMapping) {
		m.Status.ObservedGeneration, m.Labels, m.Spec.Description = 2, nil, "wrong"
	}); err != nil || m.Status.ObservedGeneration != 2 || m.Labels["a"] != "b" || m.Spec.Description != "odd" || m.Generation != 2 {
		t.Errorf("status: got %+v, %v", m, err)
	}
	if _, err = store.Update(ctx, s.Status, "one", func(m *policy.FieldPermissionMapping) { m.Status.ObservedGeneration = 3 }); !apierrors.IsInvalid(err) {
		t.Errorf("a bad status: got %v, want 422", err)
	}
	for _, by := range []store.Updater{s.Objects, s.Status} {
		if _, err = store.Update(ctx, by, "none", func(m *policy.FieldPermissionMapping) { *m = *mapping("none", "") }); !apierrors.IsNotFound(err) {
			t.Errorf("an update of what is not there: got %v, want 404", err)
		}
	}
}

// TestInvalidMappingsCanGo checks that a mapping that was valid once can lose its last
// finalizer, but not become something else.
func TestInvalidMappingsCanGo(t *testing.T) {
	t.Parallel()
	refusing := false
	s := newStorage(t, func(string, *policy.FieldPermissionMappingSpec) ([]string, field.ErrorList) {
		if refusing {
			return nil, field.ErrorList{field.Invalid(field.NewPath("spec"), "", "not any more")}
		}
		return nil, nil
	})
	ctx, _ := contextWith(t)
	one := mapping("one", "")
	one.Finalizers = []string{"example.com/x"}
	if _, err := s.Objects.Create(ctx, one, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Objects.Delete(ctx, "one", rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	refusing = true
	if _, err := store.Update(ctx, s.Objects, "one", func(m *policy.FieldPermissionMapping) { m.Spec.Fields[0].Path = "spec.x" }); !apierrors.IsInvalid(err) {
		t.Errorf("another path: got %v, want 422", err)
	}
	if _, err := store.Update(ctx, s.Objects, "one", func(m *policy.FieldPermissionMapping) { m.Finalizers = nil }); err != nil {
		t.Errorf("the last finalizer: got %v", err)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	s := newStorage(t, check)
	many := mapping("many", "several\nlines")
	many.Spec.Resources = append(many.Spec.Resources, policy.FieldPermissionResource{APIGroup: "demo.proviso.dev", Resource: "virtualmachines"})
	many.Spec.Fields = []policy.FieldPermission{{Path: "spec.a", Permission: "a1"}, {Path: "spec.b", Permission: "b1"}, {Path: "spec.c", Permission: "c1"}, {Path: "spec.d", Permission: "d1"}}
	many.Status.Conditions = []metav1.Condition{{Type: "Other", Status: metav1.ConditionTrue}, {Type: policy.PolicyReady, Status: metav1.ConditionFalse}}
	table, err := s.Objects.ConvertToTable(t.Context(), &policy.FieldPermissionMappingList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []policy.FieldPermissionMapping{*mapping("one", "who may"), *many}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/table.txt", store.TableText(table))
	if table.ResourceVersion != "7" {
		t.Errorf("got resource version %q", table.ResourceVersion)
	}
	if table, err = s.Status.ConvertToTable(t.Context(), many, &metav1.TableOptions{NoHeaders: true}); err != nil || len(table.ColumnDefinitions) != 0 || len(table.Rows) != 1 {
		t.Errorf("one without headers: got %+v, %v", table, err)
	}
	if _, err := s.Objects.ConvertToTable(t.Context(), &metav1.Status{}, nil); err == nil {
		t.Error("something else was rendered")
	}
	if got := s.Objects.GetSingularName() + " " + strings.Join(s.Objects.ShortNames(), " "); got != "fieldpermissionmapping fpm" {
		t.Errorf("got names %q", got)
	}
}

// TestOwnFinalizerOfMappings checks that a user cannot add the finalizer of barriers to a mapping, as to no policy.
func TestOwnFinalizerOfMappings(t *testing.T) {
	t.Parallel()
	s := newStorage(t, check)
	ctx, _ := contextWith(t)
	one := mapping("one", "")
	one.Finalizers = []string{v1alpha1.BarrierFinalizer, "example.com/other"}
	got, err := s.Objects.Create(ctx, one, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"example.com/other"}, got.(*policy.FieldPermissionMapping).Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
}

func TestNoChecker(t *testing.T) {
	t.Parallel()
	if _, err := fieldpermissionmapping.NewStorage(runtime.NewScheme(), generic.RESTOptions{}, nil, nil, authors); err == nil {
		t.Error("a store without checker was made")
	}
}

// TestMappingStorageFloodOfWrites has one user, who may not write mappings, write more of them than may wait, in dry runs. The rest is
// refused at once, and others write.
func TestMappingStorageFloodOfWrites(t *testing.T) {
	t.Parallel()
	const sent, fit = 60, 2 + 32
	var checking, tooMany atomic.Int64
	open := make(chan struct{})
	s := newStorage(t, func(_ string, spec *policy.FieldPermissionMappingSpec) ([]string, field.ErrorList) {
		if spec.Description != "hold" {
			return nil, nil
		}
		defer checking.Add(-1)
		if n := checking.Add(1); n > 2 {
			tooMany.Store(n)
			return nil, nil
		}
		<-open
		return nil, nil
	})
	ctx, _ := contextWith(t)
	create := func(ctx context.Context, name, description string) error {
		_, err := s.Objects.Create(ctx, mapping(name, description), rest.ValidateAllObjectFunc, &metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	results := store.Flood(t, sent, fit, func(i int) error { return create(as(ctx, "bob"), fmt.Sprintf("m%d", i), "hold") })
	if err := create(ctx, "one", "another author"); err != nil {
		t.Errorf("another author: %v", err)
	}
	if _, err := store.Update(as(ctx, "bob"), s.Objects, "one", func(*policy.FieldPermissionMapping) {}); !apierrors.IsTooManyRequests(err) {
		t.Errorf("an update in the flood: got %v, want 429", err)
	}
	close(open)
	for range fit {
		if err := <-results; !apierrors.IsForbidden(err) {
			t.Errorf("one that waited: got %v, want 403", err)
		}
	}
	if n := tooMany.Load(); n > 0 {
		t.Errorf("got %d checks for one user at a time, want at most 2", n)
	}
}
