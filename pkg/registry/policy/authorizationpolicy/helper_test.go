/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationpolicy_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/apis/policy/install"
	"github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/registry/policy/authorizationpolicy"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
	"github.com/proviso-authz/proviso/test/testutil/store"
)

func TestMain(m *testing.M) { store.Main(m) }

// chain answers by the text of a check, and remembers what it was asked.
type chain struct {
	mu      sync.Mutex
	asked   []string
	answers map[string]answer
	// otherwise is the answer to everything else.
	otherwise answer
}

type answer struct {
	decision authorizer.Decision
	reason   string
	err      error
}

var (
	allow     = answer{decision: authorizer.DecisionAllow}
	noOpinion = answer{decision: authorizer.DecisionNoOpinion}
)

func (c *chain) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	check := textOf(a)
	c.asked = append(c.asked, check)
	for _, key := range []string{check, a.GetVerb()} {
		if found, ok := c.answers[key]; ok {
			return found.decision, found.reason, found.err
		}
	}
	return c.otherwise.decision, c.otherwise.reason, c.otherwise.err
}

func (c *chain) reset(answers map[string]answer, otherwise answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked, c.answers, c.otherwise = nil, answers, otherwise
}

func textOf(a authorizer.Attributes) string {
	if !a.IsResourceRequest() {
		return fmt.Sprintf("%s: %s %s", a.GetUser().GetName(), a.GetVerb(), a.GetPath())
	}
	return fmt.Sprintf("%s: %s %s/%s/%s %s %s/%s", a.GetUser().GetName(), a.GetVerb(), a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource(), a.GetSubresource(), a.GetNamespace(), a.GetName())
}

// checker refuses expressions that contain "wrong", warns of those with "odd", and has checks for others in those with "others but" and a namespace.
type checker struct{}

func (checker) Check(_ engine.Key, spec *policy.AuthorizationPolicySpec) (warnings []string, errs field.ErrorList) {
	if strings.Contains(spec.Condition, "odd") {
		warnings = append(warnings, "spec.condition: odd")
	}
	if strings.Contains(spec.Condition, "wrong") {
		errs = append(errs, field.Invalid(field.NewPath("spec", "condition"), spec.Condition, "it is wrong"))
	}
	return warnings, errs
}

// CheckChange refuses conditions with the text dear, unless the condition was longer before.
func (checker) CheckChange(key engine.Key, spec, before *policy.AuthorizationPolicySpec) field.ErrorList {
	if strings.Contains(spec.Condition, "dear") && (before == nil || len(before.Condition) < len(spec.Condition)) {
		return field.ErrorList{field.Forbidden(field.NewPath("spec", "condition"), "too dear: "+key.Name)}
	}
	return nil
}

func (checker) Warn(_ context.Context, _ engine.Key, spec *policy.AuthorizationPolicySpec) []string {
	if strings.Contains(spec.Condition, "mistaken") {
		return []string{"spec.condition: mistaken"}
	}
	return nil
}

func (checker) ChecksForOthers(spec *policy.AuthorizationPolicySpec, namespace string) bool {
	return spec.Condition == "others but "+namespace
}

// storeOf returns a scheme with the group, and the options for a store of one resource.
func storeOf(t *testing.T, resource string) (*runtime.Scheme, generic.RESTOptions) {
	t.Helper()
	scheme := store.Scheme(install.Install, v1alpha1.SchemeGroupVersion)
	return scheme, store.Options(t, scheme, v1alpha1.SchemeGroupVersion, resource)
}

// fixture is one kind of policies, stored under a prefix of the test's own.
type fixture struct {
	*stored.Storage
	chain      *chain
	resource   string
	namespaced bool
}

func newFixture(t *testing.T, namespaced bool) *fixture {
	t.Helper()
	return newFixtureWith(t, namespaced, checker{})
}

func newFixtureWith(t *testing.T, namespaced bool, checks authorizationpolicy.Checker) *fixture {
	t.Helper()
	f := &fixture{chain: &chain{otherwise: allow}, resource: "clusterauthorizationpolicies", namespaced: namespaced}
	authors, err := authorizationpolicy.NewAuthors(f.chain, unrestricted)
	if err != nil {
		t.Fatal(err)
	}
	makeStorage := authorizationpolicy.NewClusterStorage
	if namespaced {
		f.resource, makeStorage = "authorizationpolicies", authorizationpolicy.NewStorage
	}
	scheme, options := storeOf(t, f.resource)
	f.Storage, err = makeStorage(scheme, options, checks, authors)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Objects.Destroy)
	return f
}

// eachKind runs a test for both kinds.
func eachKind(t *testing.T, test func(*testing.T, *fixture)) {
	t.Helper()
	for name, namespaced := range map[string]bool{"cluster": false, "namespaced": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newFixture(t, namespaced))
		})
	}
}

func (f *fixture) namespace() string {
	if f.namespaced {
		return "n"
	}
	return ""
}

// ctx is the context of a request by alice.
func (f *fixture) ctx(t *testing.T) context.Context {
	t.Helper()
	return genericapirequest.WithUser(f.anonymous(t), &user.DefaultInfo{Name: "alice", Groups: []string{"devs"}})
}

// anonymous is the context of a request by nobody.
func (f *fixture) anonymous(t *testing.T) context.Context {
	t.Helper()
	return genericapirequest.WithNamespace(t.Context(), f.namespace())
}

// policy makes a policy of the kind.
func (f *fixture) policy(name string, effect policy.PolicyEffect, change func(*metav1.ObjectMeta, *policy.AuthorizationPolicySpec)) runtime.Object {
	meta := metav1.ObjectMeta{Name: name, Namespace: f.namespace()}
	spec := policy.AuthorizationPolicySpec{Effect: effect, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: user.AllAuthenticated}}, Rules: []policy.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}}
	if change != nil {
		change(&meta, &spec)
	}
	if f.namespaced {
		return &policy.AuthorizationPolicy{ObjectMeta: meta, Spec: spec}
	}
	return &policy.ClusterAuthorizationPolicy{ObjectMeta: meta, Spec: spec}
}

func partsOf(obj runtime.Object) (*metav1.ObjectMeta, *policy.AuthorizationPolicySpec, *policy.AuthorizationPolicyStatus) {
	if p, ok := obj.(*policy.AuthorizationPolicy); ok {
		return &p.ObjectMeta, &p.Spec, &p.Status
	}
	p := obj.(*policy.ClusterAuthorizationPolicy)
	return &p.ObjectMeta, &p.Spec, &p.Status
}

func (f *fixture) create(ctx context.Context, obj runtime.Object) (runtime.Object, error) {
	return f.Objects.Create(ctx, obj, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
}

// mustCreate creates a policy as somebody who may do everything.
func (f *fixture) mustCreate(t *testing.T, obj runtime.Object) {
	t.Helper()
	f.chain.reset(nil, allow)
	if _, err := f.create(f.ctx(t), obj); err != nil {
		t.Fatal(err)
	}
}

// update changes the stored policy of a name. A PUT has no force, server-side apply has.
func (f *fixture) update(ctx context.Context, name string, options *metav1.UpdateOptions, force bool, change rest.TransformFunc) (runtime.Object, error) {
	got, _, err := f.Objects.Update(ctx, name, rest.DefaultUpdatedObjectInfo(nil, change), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, force, options)
	return got, err
}

// changing changes a copy of the stored policy.
func changing(change func(*metav1.ObjectMeta, *policy.AuthorizationPolicySpec)) rest.TransformFunc {
	return func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		obj := old.DeepCopyObject()
		meta, spec, _ := partsOf(obj)
		change(meta, spec)
		return obj, nil
	}
}

// dump is everything that is stored.
func (f *fixture) dump(t *testing.T) string {
	t.Helper()
	list, err := f.Objects.List(f.ctx(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	if err := apimeta.EachListItem(list, func(obj runtime.Object) error {
		meta, spec, _ := partsOf(obj)
		lines = append(lines, fmt.Sprintf("%s %s %v deleting=%v %+v", meta.Name, meta.ResourceVersion, meta.Labels, meta.DeletionTimestamp != nil, *spec))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
