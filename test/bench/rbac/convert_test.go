/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rbac_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/kubectl/convert"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	roles "github.com/proviso-authz/proviso/pkg/kubectl/rbac"
)

// The law of `kubectl proviso convert rbac`.
const (
	convertSeed       = 5681
	randomRoles       = 200
	oddRoles          = 60
	convertAttributes = 100000
)

var convertNamespaces = []string{"", "blue", "red", "kube-system", "kube-public"}

// pools are the values of rules, from which attributes are drawn.
type pools struct {
	verbs, groups, resources, names, urls []string
}

func (p *pools) add(rules []rbacv1.PolicyRule) {
	for _, r := range rules {
		p.verbs, p.groups, p.resources = append(p.verbs, r.Verbs...), append(p.groups, r.APIGroups...), append(p.resources, r.Resources...)
		p.names, p.urls = append(p.names, r.ResourceNames...), append(p.urls, r.NonResourceURLs...)
	}
}

func (p *pools) compact() {
	for _, list := range []*[]string{&p.verbs, &p.groups, &p.resources, &p.names, &p.urls} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
}

func pick[T any](r *rand.Rand, values []T) T { return values[r.IntN(len(values))] }

func some[T any](r *rand.Rand, most int, values []T) (chosen []T) {
	for _, i := range r.Perm(len(values))[:1+r.IntN(min(most, len(values)))] {
		chosen = append(chosen, values[i])
	}
	return chosen
}

// numbered returns more values than a list of a policy may have.
func numbered(prefix string, count int) (values []string) {
	for i := range count {
		values = append(values, fmt.Sprintf("%s%d", prefix, i))
	}
	return values
}

// ordinaryRules are rules that policies can have, though not always in one rule.
func ordinaryRules(r *rand.Rand, p *pools) (rules []rbacv1.PolicyRule) {
	for range 1 + r.IntN(3) {
		switch r.IntN(12) {
		case 0:
			rules = append(rules, rbacv1.PolicyRule{Verbs: some(r, 2, []string{"get", "head", "post", "*"}), NonResourceURLs: some(r, 2, []string{"/metrics", "/metrics/*", "/healthz*", "/logs/**", "*", "/a/b"})})
		case 1:
			rules = append(rules, rbacv1.PolicyRule{Verbs: append(numbered("v", 130), "get"), APIGroups: append(numbered("g", 70), ""), Resources: append(numbered("r", 70), "pods")})
		case 2:
			rules = append(rules, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: append(numbered("n", 600), "n1", "n2")})
		default:
			rule := rbacv1.PolicyRule{Verbs: some(r, 3, p.verbs), APIGroups: some(r, 2, append([]string{"*"}, p.groups...)), Resources: some(r, 3, append([]string{"*/scale", "*/status", "pods/log"}, p.resources...))}
			if r.IntN(3) == 0 {
				rule.ResourceNames = some(r, 2, p.names)
			}
			rules = append(rules, rule)
		}
	}
	return rules
}

// oddRule has entries that policies cannot have.
func oddRule(r *rand.Rand) rbacv1.PolicyRule {
	if r.IntN(3) == 0 {
		return rbacv1.PolicyRule{Verbs: some(r, 2, []string{"get", "GET", "*"}), NonResourceURLs: some(r, 3, []string{"metrics", "/a*b", "/metrics?x", "", "/ok", "/a*b*"})}
	}
	return rbacv1.PolicyRule{
		Verbs: some(r, 2, []string{"get", "GET", "Create", "a b", "list", ""}), APIGroups: some(r, 2, []string{"", "Apps", "apps/v1", "apps"}),
		Resources: some(r, 2, []string{"pods", "pods/*", "Pods", "*/*", "secrets", "pods/", ""}), ResourceNames: some(r, 2, []string{"", "*", "a", strings.Repeat("x", 1100)})[r.IntN(2):],
		NonResourceURLs: [][]string{nil, nil, {"/metrics"}}[r.IntN(3)],
	}
}

var convertSubjects = func() (subjects []rbacv1.Subject) {
	for i := range 12 {
		subjects = append(subjects, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: fmt.Sprintf("user-%d", i)})
	}
	for _, group := range []string{"devs", "ops", "system:authenticated", "system:serviceaccounts", "system:serviceaccounts:blue"} {
		subjects = append(subjects, rbacv1.Subject{Kind: "Group", APIGroup: rbacv1.GroupName, Name: group})
	}
	return append(subjects, rbacv1.Subject{Kind: "ServiceAccount", Namespace: "blue", Name: "robot"}, rbacv1.Subject{Kind: "ServiceAccount", Namespace: "red", Name: "robot"})
}()

var oddSubjects = []rbacv1.Subject{
	{Kind: "ServiceAccount", Name: "robot"}, {Kind: "Robot", Name: "user-1"}, {Kind: "User", Name: ""}, {Kind: "ServiceAccount", Namespace: "Blue", Name: "robot"},
	{Kind: "User", Name: strings.Repeat("x", 1100)}, {Kind: "User", Namespace: "blue", Name: "user-2"}, {Kind: "Group", Name: "devs"},
}

// permissionsOf returns the built-in roles and random ones, each bound in the cluster or in a namespace.
func permissionsOf(r *rand.Rand) (*roles.Objects, *pools) {
	o, p := &roles.Objects{}, &pools{}
	for _, role := range bootstrappolicy.ClusterRoles() {
		role.ResourceVersion = ""
		o.ClusterRoles = append(o.ClusterRoles, role)
		p.add(role.Rules)
	}
	p.compact()
	for namespace, list := range bootstrappolicy.NamespaceRoles() {
		for _, role := range list {
			role.Namespace = namespace
			o.Roles = append(o.Roles, role)
		}
	}
	o.ClusterRoleBindings = append(o.ClusterRoleBindings, bootstrappolicy.ClusterRoleBindings()...)
	o.ClusterRoleBindings = append(o.ClusterRoleBindings, bootstrappolicy.ControllerRoleBindings()...)
	o.ClusterRoles = append(o.ClusterRoles, bootstrappolicy.ControllerRoles()...)
	for namespace, list := range bootstrappolicy.NamespaceRoleBindings() {
		for _, binding := range list {
			binding.Namespace = namespace
			o.RoleBindings = append(o.RoleBindings, binding)
		}
	}
	builtin := len(o.ClusterRoles)
	for i := range randomRoles + oddRoles {
		rules := ordinaryRules(r, p)
		if i%50 == 0 { // more rules than a policy may have
			for range 70 {
				rules = append(rules, rbacv1.PolicyRule{Verbs: some(r, 1, p.verbs), APIGroups: some(r, 1, p.groups), Resources: some(r, 1, p.resources)})
			}
		}
		if i >= randomRoles {
			rules = []rbacv1.PolicyRule{oddRule(r), oddRule(r)}
		}
		o.ClusterRoles = append(o.ClusterRoles, rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("random:%d", i)}, Rules: rules})
	}
	for i, role := range o.ClusterRoles {
		subjects := some(r, 2, convertSubjects[:12])
		switch {
		case i >= builtin+randomRoles && r.IntN(2) == 0:
			subjects = append(subjects, some(r, 3, oddSubjects)...)
		case r.IntN(20) == 0:
			subjects = nil
			for j := range 300 {
				subjects = append(subjects, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: fmt.Sprintf("user-%d", j)})
			}
		case r.IntN(8) == 0:
			subjects = some(r, 2, convertSubjects[12:])
		}
		meta, ref := metav1.ObjectMeta{Name: fmt.Sprintf("Binding:%d", i)}, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}
		if i >= builtin+randomRoles && r.IntN(5) == 0 {
			ref.Name = "missing"
		}
		if r.IntN(4) > 0 {
			meta.Namespace = pick(r, convertNamespaces[1:3])
			o.RoleBindings = append(o.RoleBindings, rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref})
		} else {
			o.ClusterRoleBindings = append(o.ClusterRoleBindings, rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref})
		}
	}
	return o, p
}

// load returns objects as the command reads them from a file.
func load(t *testing.T, o *roles.Objects) *roles.Objects {
	t.Helper()
	var documents []document.Document
	add := func(kind string, list any) {
		text, err := json.Marshal(map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind + "List", "items": list})
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, document.Document{JSON: text})
	}
	add("Role", o.Roles)
	add("ClusterRole", o.ClusterRoles)
	add("RoleBinding", o.RoleBindings)
	add("ClusterRoleBinding", o.ClusterRoleBindings)
	loaded, others, errs := roles.Load(documents, "")
	if len(errs)+len(others) > 0 {
		t.Fatal(errs, others)
	}
	return loaded
}

// evaluator returns the authorizer of kube-apiserver, with the rules of aggregated roles as the controller sets them.
func evaluator(t *testing.T, o *roles.Objects) *rbac.RBACAuthorizer {
	t.Helper()
	stores := [4]cache.Indexer{}
	for i := range stores {
		stores[i] = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	add := func(store cache.Indexer, object any) {
		if err := store.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	clusterRoles := slices.Clone(o.ClusterRoles)
	for range 3 { // view is a part of edit, and edit of admin
		for i := range clusterRoles {
			if clusterRoles[i].AggregationRule != nil {
				clusterRoles[i].Rules = union(t, clusterRoles, &clusterRoles[i])
			}
		}
	}
	for i := range o.Roles {
		add(stores[0], &o.Roles[i])
	}
	for i := range o.RoleBindings {
		add(stores[1], &o.RoleBindings[i])
	}
	for i := range clusterRoles {
		add(stores[2], &clusterRoles[i])
	}
	for i := range o.ClusterRoleBindings {
		add(stores[3], &o.ClusterRoleBindings[i])
	}
	return rbac.New(
		&rbac.RoleGetter{Lister: rbaclisters.NewRoleLister(stores[0])},
		&rbac.RoleBindingLister{Lister: rbaclisters.NewRoleBindingLister(stores[1])},
		&rbac.ClusterRoleGetter{Lister: rbaclisters.NewClusterRoleLister(stores[2])},
		&rbac.ClusterRoleBindingLister{Lister: rbaclisters.NewClusterRoleBindingLister(stores[3])},
	)
}

func union(t *testing.T, all []rbacv1.ClusterRole, of *rbacv1.ClusterRole) (rules []rbacv1.PolicyRule) {
	t.Helper()
	for i := range of.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&of.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			t.Fatal(err)
		}
		for _, role := range all {
			if role.Name != of.Name && selector.Matches(labels.Set(role.Labels)) {
				rules = append(rules, role.Rules...)
			}
		}
	}
	return rules
}

// policiesOf compiles policies.
func policiesOf(t *testing.T, converted []convert.Policy) *engine.Authorizer {
	t.Helper()
	residuals, err := cel.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	compiler, err := partial.NewPolicyCompiler(residuals)
	if err != nil {
		t.Fatal(err)
	}
	compiled := map[engine.Key]*engine.Policy{}
	for _, p := range converted {
		if compiled[p.Key] != nil {
			t.Fatalf("%v is there twice", p.Key)
		}
		if compiled[p.Key], err = engine.New(p.Key, p.Spec, compiler); err != nil {
			t.Fatal(err)
		}
	}
	source := &engine.Source{}
	source.Publish(engine.NewBuilder().Apply(compiled))
	return &engine.Authorizer{Source: source, Part: engine.Granting}
}

// attributesOf returns a random request.
func attributesOf(r *rand.Rand, p *pools) authorizer.AttributesRecord {
	record := authorizer.AttributesRecord{Verb: pick(r, append([]string{"get", "list", "*", "GET", "Create", "v129", "head"}, p.verbs...))}
	switch s := pick(r, convertSubjects); s.Kind {
	case "User":
		record.User = &user.DefaultInfo{Name: s.Name, Groups: []string{user.AllAuthenticated}}
	case "Group":
		record.User = &user.DefaultInfo{Name: pick(r, []string{"user-299", "member"}), Groups: []string{s.Name, user.AllAuthenticated}}
	default:
		record.User = &user.DefaultInfo{Name: serviceaccount.MakeUsername(s.Namespace, s.Name), Groups: append(serviceaccount.MakeGroupNames(s.Namespace), user.AllAuthenticated)}
	}
	if r.IntN(8) == 0 {
		record.Path = strings.TrimRight(pick(r, append([]string{"/metrics", "/metrics/x", "/healthz/x", "/logs/a", "/a/b", "metrics", "/a*b", "/axb", "/a*bc", "/ok", ""}, p.urls...)), "*") + pick(r, []string{"", "", "x"})
		return record
	}
	record.ResourceRequest, record.APIVersion, record.Namespace = true, "v1", pick(r, convertNamespaces)
	record.APIGroup = pick(r, append([]string{"", "", "*", "g69", "apps", "Apps", "apps/v1"}, p.groups...))
	resource := pick(r, append([]string{"pods", "pods", "pods/log", "pods/*", "Pods", "r69", "deployments/scale", "*", "secrets"}, p.resources...))
	record.Resource, record.Subresource, _ = strings.Cut(resource, "/")
	record.Name = pick(r, append([]string{"", "", "a", "*", "n599", "n1"}, p.names...))
	return record
}

// TestConvert compares converted roles with the authorizer of kube-apiserver. The policies of a binding of which nothing was left out decide alike;
// no others allow more.
func TestConvert(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(convertSeed, 1))
	objects, p := permissionsOf(r)
	converted, results := convert.Policies(load(t, objects).Permissions())
	leftOut, complete := map[string][]string{}, 0
	for _, result := range results {
		if len(result.LeftOut) > 0 {
			leftOut[result.Source] = result.LeftOut
		} else {
			complete++
		}
	}
	authorizer1, policies := evaluator(t, objects), policiesOf(t, converted)
	counts := map[string]int{}
	for range convertAttributes {
		record := attributesOf(r, p)
		decision, reason, _ := authorizer1.Authorize(t.Context(), record) // the error is about bindings to missing roles
		want, got := decision == authorizer.DecisionAllow, policies.Decide(t.Context(), record).IsAllow()
		binding := bindingOf(reason)
		switch {
		case got && !want:
			t.Fatalf("%+v of %+v is allowed by a policy, and not by RBAC", record, record.User)
		case want && !got && len(leftOut[binding]) == 0:
			t.Fatalf("%+v of %+v is not allowed by policies, and by %s, of which nothing was left out", record, record.User, binding)
		case want && !got:
			counts["left out"]++
		case want:
			counts["allowed"]++
		default:
			counts["not allowed"]++
		}
	}
	t.Logf("%d bindings, %d of them complete, %d policies; attributes: %v", len(results), complete, len(converted), counts)
	if counts["allowed"] < convertAttributes/10 || counts["not allowed"] < convertAttributes/10 || counts["left out"] == 0 {
		t.Errorf("the attributes have too few different results: %v", counts)
	}
	for i, result := range results {
		if strings.Contains(result.Source, "Binding:") || len(result.LeftOut) == 0 {
			continue
		}
		t.Errorf("of the built-in binding %v is left out: %v", results[i].Source, result.LeftOut)
	}
}

// bindingOf returns the binding in a reason of RBAC, as results name it: RBAC: allowed by RoleBinding "Binding:1/blue" of ClusterRole "reader".
func bindingOf(reason string) string {
	_, reason, _ = strings.Cut(reason, "allowed by ")
	kind, reason, _ := strings.Cut(reason, " ")
	name := strings.Split(reason, `"`)
	if len(name) < 2 {
		return ""
	}
	if before, namespace, ok := strings.Cut(name[1], "/"); ok {
		return fmt.Sprintf("%s %q", kind, namespace+"/"+before)
	}
	return fmt.Sprintf("%s %q", kind, name[1])
}
