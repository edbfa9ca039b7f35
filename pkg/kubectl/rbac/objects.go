/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package rbac reads Roles, ClusterRoles and their bindings, from files or from a cluster, and returns the permissions of each binding
// in the form of an Allow policy. RBAC is a part of what Allow policies can express, so that commands match both by the rules of the
// engine.
//
// Invariants:
//
//   - A permission allows the same requests as its binding, and never more: whatever RBAC ignores is left out, and has a remark.
//   - Objects that could not be read are reported, and never taken as absent.
//
// The package must not import the server, pkg/apiserver.
package rbac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"

	"github.com/proviso-authz/proviso/pkg/kubectl/document"
)

// The kinds of RBAC.
const (
	KindRole               = "Role"
	KindClusterRole        = "ClusterRole"
	KindRoleBinding        = "RoleBinding"
	KindClusterRoleBinding = "ClusterRoleBinding"
)

// Objects are the objects of RBAC.
type Objects struct {
	Roles               []rbacv1.Role
	ClusterRoles        []rbacv1.ClusterRole
	RoleBindings        []rbacv1.RoleBinding
	ClusterRoleBindings []rbacv1.ClusterRoleBinding
	// Unread has the kinds of roles that could not be read, so that a role that is missing here may exist. Files never have all roles.
	Unread []string
}

// IsEmpty reports whether there are no objects.
func (o *Objects) IsEmpty() bool {
	return len(o.Roles)+len(o.ClusterRoles)+len(o.RoleBindings)+len(o.ClusterRoleBindings) == 0
}

var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	if err := rbacv1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	//guard:convert-unknown-fields
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}()

var errNoNamespace = errors.New("metadata.namespace: Required value: set it, or the flag --namespace")

// Load returns the objects of RBAC in documents, and the other documents. The items of lists are documents of their own. Namespaced objects
// that name no namespace get the given one, which may be empty. Aggregated ClusterRoles without rules get the rules that the controller would give them.
func Load(documents []document.Document, namespace string) (objects *Objects, others []document.Document, errs []error) {
	l := &loader{objects: &Objects{Unread: []string{KindRole, KindClusterRole}}, namespace: namespace}
	l.Each(documents, l.load)
	l.objects.aggregate()
	return l.objects, l.others, l.Errs
}

type loader struct {
	document.Errors
	objects   *Objects
	others    []document.Document
	namespace string
}

func (l *loader) load(d document.Document, meta metav1.TypeMeta) {
	if meta.GroupVersionKind().Group != rbacv1.GroupName {
		l.others = append(l.others, d)
		return
	}
	object, err := runtime.Decode(decoder, d.JSON)
	if err != nil {
		l.Fail(d.Source, "", err)
		return
	}
	l.EachItem(d.Source, object, l.add)
}

func (l *loader) add(at document.Source, object runtime.Object) {
	o := l.objects
	switch object := object.(type) {
	case *rbacv1.Role:
		accept(l, &o.Roles, at, KindRole, object, true)
	case *rbacv1.ClusterRole:
		accept(l, &o.ClusterRoles, at, KindClusterRole, object, false)
	case *rbacv1.RoleBinding:
		accept(l, &o.RoleBindings, at, KindRoleBinding, object, true)
	case *rbacv1.ClusterRoleBinding:
		accept(l, &o.ClusterRoleBindings, at, KindClusterRoleBinding, object, false)
	default:
		kind := object.GetObjectKind().GroupVersionKind()
		l.Fail(at, "", fmt.Errorf("kind %q of apiVersion %q is not read", kind.Kind, kind.GroupVersion()))
	}
}

// accept adds an object to a list if its metadata have no mistake, and sets its namespace.
func accept[T any, P interface {
	*T
	metav1.Object
}](l *loader, to *[]T, at document.Source, kind string, object P, namespaced bool) {
	switch {
	case !namespaced:
		object.SetNamespace("")
	case object.GetNamespace() == "":
		object.SetNamespace(l.namespace)
	}
	title := fmt.Sprintf("%s %q", kind, cache.MetaObjectToName(object))
	if namespaced && object.GetName() != "" && object.GetNamespace() == "" {
		l.Fail(at, title, errNoNamespace)
	} else if l.IsNew(at, title, "object", object.GetName()) {
		*to = append(*to, *object)
	}
}

// aggregate sets the rules of aggregated ClusterRoles that have none, as the controller does: the rules of all selected ClusterRoles in the
// order of their names. An aggregated ClusterRole may select others. Rules that are there come from a cluster, and stay.
func (o *Objects) aggregate() {
	slices.SortFunc(o.ClusterRoles, func(a, b rbacv1.ClusterRole) int { return strings.Compare(a.Name, b.Name) })
	var empty []*rbacv1.ClusterRole
	for i := range o.ClusterRoles {
		if o.ClusterRoles[i].AggregationRule != nil && len(o.ClusterRoles[i].Rules) == 0 {
			empty = append(empty, &o.ClusterRoles[i])
		}
	}
	for range empty { // a round for each step from one aggregated ClusterRole to the next
		for _, aggregated := range empty {
			aggregated.Rules = selected(o.ClusterRoles, aggregated)
		}
	}
}

// selected returns the rules of the ClusterRoles that an aggregated one selects. A selector that is not valid selects nothing.
func selected(roles []rbacv1.ClusterRole, aggregated *rbacv1.ClusterRole) (rules []rbacv1.PolicyRule) {
	for i := range aggregated.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&aggregated.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			continue
		}
		for j := range roles {
			if roles[j].Name == aggregated.Name || !selector.Matches(labels.Set(roles[j].Labels)) {
				continue
			}
			for _, rule := range roles[j].Rules {
				if !slices.ContainsFunc(rules, func(other rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(rule, other) }) {
					rules = append(rules, rule)
				}
			}
		}
	}
	return rules
}

// Read reads the objects in one namespace of a cluster, or in all namespaces if it is empty, and the objects without a namespace. It returns the objects that
// could be read, and an error for each kind that could not.
func Read(ctx context.Context, client rbacclient.RbacV1Interface, namespace string) (o *Objects, errs []error) {
	o = &Objects{}
	note := func(kind string, err error) {
		if err == nil {
			return
		}
		errs = append(errs, fmt.Errorf("%ss cannot be listed: %w", kind, err))
		if kind == KindRole || kind == KindClusterRole {
			o.Unread = append(o.Unread, kind)
		}
	}
	note(KindClusterRoleBinding, EachItem(ctx, client.ClusterRoleBindings().List, func(b *rbacv1.ClusterRoleBinding) {
		o.ClusterRoleBindings = append(o.ClusterRoleBindings, *b)
	}))
	note(KindRoleBinding, EachItem(ctx, client.RoleBindings(namespace).List, func(b *rbacv1.RoleBinding) { o.RoleBindings = append(o.RoleBindings, *b) }))
	note(KindClusterRole, EachItem(ctx, client.ClusterRoles().List, func(r *rbacv1.ClusterRole) { o.ClusterRoles = append(o.ClusterRoles, *r) }))
	note(KindRole, EachItem(ctx, client.Roles(namespace).List, func(r *rbacv1.Role) { o.Roles = append(o.Roles, *r) }))
	return o, errs
}

// EachItem calls a function for each object of a list, which it reads in pages.
func EachItem[L runtime.Object, T any](ctx context.Context, list func(context.Context, metav1.ListOptions) (L, error), visit func(*T)) error {
	page := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return list(ctx, options)
	}
	return pager.New(page).EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		item, ok := object.(any).(*T)
		if !ok {
			return fmt.Errorf("the server has answered with an object of type %T", object)
		}
		visit(item)
		return nil
	})
}
