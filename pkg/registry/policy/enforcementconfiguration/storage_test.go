/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcementconfiguration_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/apis/policy/install"
	"github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/registry/policy/enforcementconfiguration"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
	"github.com/proviso-authz/proviso/test/testutil/golden"
	"github.com/proviso-authz/proviso/test/testutil/store"
)

func TestMain(m *testing.M) { store.Main(m) }

// authors lets only ann escalate.
var authors = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	switch {
	case a.GetUser().GetName() == "err":
		return authorizer.DecisionAllow, "", errors.New("the secret is 42")
	case a.GetUser().GetName() == "ann" && a.GetVerb() == "escalate" && a.GetResource() == "enforcementconfigurations" && a.GetAPIGroup() == "policy.proviso.dev" && a.GetAPIVersion() == "v1alpha1" && a.GetName() != "":
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
})

func newStorage(t *testing.T) *stored.Storage {
	t.Helper()
	scheme := store.Scheme(install.Install, v1alpha1.SchemeGroupVersion)
	s, err := enforcementconfiguration.NewStorage(scheme, store.Options(t, scheme, v1alpha1.SchemeGroupVersion, "enforcementconfigurations"), authors)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Objects.Destroy)
	return s
}

func configuration(name string) *policy.EnforcementConfiguration {
	return &policy.EnforcementConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policy.EnforcementConfigurationSpec{
		Description: "things", APIGroup: "things.example.com", APIVersions: []string{"v1"}, Resources: []string{"things"},
		Service: policy.EnforcementService{Namespace: "things", Name: "things", Port: 443},
	}}
}

// TestConfigurationsAuthors writes configurations as those who may not, in every way. A deletion needs no verb, because it only closes.
func TestConfigurationsAuthors(t *testing.T) {
	t.Parallel()
	s := newStorage(t)
	ctx := genericapirequest.WithNamespace(t.Context(), metav1.NamespaceNone)
	as := func(name string) context.Context {
		if name == "" {
			return ctx
		}
		return genericapirequest.WithUser(ctx, &user.DefaultInfo{Name: name})
	}
	for _, name := range []string{"one", "two"} {
		if _, err := s.Objects.Create(as("ann"), configuration(name), nil, &metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"bob", "err", ""} {
		_, created := s.Objects.Create(as(name), configuration("three"), nil, &metav1.CreateOptions{})
		_, updated := store.Update(as(name), s.Objects, "one", func(c *policy.EnforcementConfiguration) { c.Spec.Service.Name = "other" })
		for way, err := range map[string]error{"create": created, "update": updated} {
			if !apierrors.IsForbidden(err) || strings.Contains(err.Error(), "42") {
				t.Errorf("%s by %q: got %v, want 403", way, name, err)
			}
		}
	}
	if got, err := store.Update(as("bob"), s.Objects, "one", func(c *policy.EnforcementConfiguration) { c.Labels = map[string]string{"a": "b"} }); err != nil || got.Spec.Service.Name != "things" {
		t.Errorf("a label by bob: %+v, %v", got, err)
	}
	if _, _, err := s.Objects.Delete(as("bob"), "one", nil, &metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete by bob: %v", err)
	}
	if _, err := s.Objects.DeleteCollection(as("bob"), nil, &metav1.DeleteOptions{}, &metainternalversion.ListOptions{}); err != nil {
		t.Errorf("deletecollection by bob: %v", err)
	}
}

// TestWrites validates what is written, and keeps the status apart.
func TestWrites(t *testing.T) {
	t.Parallel()
	s := newStorage(t)
	ctx := genericapirequest.WithUser(genericapirequest.WithNamespace(t.Context(), metav1.NamespaceNone), &user.DefaultInfo{Name: "ann"})
	one := configuration("one")
	one.Status.ObservedGeneration = 7
	got, err := s.Objects.Create(ctx, one, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c := got.(*policy.EnforcementConfiguration); c.Generation != 1 || c.Status.ObservedGeneration != 0 {
		t.Errorf("create: got generation %d, status %+v", c.Generation, c.Status)
	}
	bad := configuration("bad")
	bad.Spec.APIGroup = "apps"
	if _, err := s.Objects.Create(ctx, bad, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("got %v, want 422", err)
	}
	if _, err := store.Update(ctx, s.Objects, "one", func(c *policy.EnforcementConfiguration) { c.Spec.Resources = []string{"*"} }); !apierrors.IsInvalid(err) {
		t.Errorf("got %v, want 422", err)
	}
	if c, err := store.Update(ctx, s.Status, "one", func(c *policy.EnforcementConfiguration) {
		c.Status.ObservedGeneration, c.Spec.APIGroup = 1, "other.example.com"
	}); err != nil || c.Status.ObservedGeneration != 1 || c.Spec.APIGroup != "things.example.com" || c.Generation != 1 {
		t.Errorf("status: got %+v, %v", c, err)
	}
	if _, err := store.Update(ctx, s.Status, "one", func(c *policy.EnforcementConfiguration) { c.Status.ObservedGeneration = 2 }); !apierrors.IsInvalid(err) {
		t.Errorf("a bad status: got %v, want 422", err)
	}
	if _, err := enforcementconfiguration.NewStorage(nil, nil, nil); err == nil {
		t.Error("no error without an authorizer")
	}
}

// TestTable prints configurations as kubectl shows them.
func TestTable(t *testing.T) {
	t.Parallel()
	s := newStorage(t)
	one := configuration("one")
	one.Status.Conditions = []metav1.Condition{{Type: policy.EnforcementEffective, Status: metav1.ConditionTrue}}
	many := configuration("many")
	many.Spec.Resources, many.Spec.Description, many.Spec.APIVersions = []string{"a", "b", "c", "d"}, "", []string{"v1", "v2"}
	table, err := s.Objects.ConvertToTable(t.Context(), &policy.EnforcementConfigurationList{Items: []policy.EnforcementConfiguration{*one, *many}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/table.txt", store.TableText(table))
}
