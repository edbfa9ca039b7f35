/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rbac

import (
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
	"k8s.io/client-go/tools/cache"

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
		if l.accept(at, KindRole, &object.ObjectMeta, true) {
			o.Roles = append(o.Roles, *object)
		}
	case *rbacv1.ClusterRole:
		if l.accept(at, KindClusterRole, &object.ObjectMeta, false) {
			o.ClusterRoles = append(o.ClusterRoles, *object)
		}
	case *rbacv1.RoleBinding:
		if l.accept(at, KindRoleBinding, &object.ObjectMeta, true) {
			o.RoleBindings = append(o.RoleBindings, *object)
		}
	case *rbacv1.ClusterRoleBinding:
		if l.accept(at, KindClusterRoleBinding, &object.ObjectMeta, false) {
			o.ClusterRoleBindings = append(o.ClusterRoleBindings, *object)
		}
	default:
		kind := object.GetObjectKind().GroupVersionKind()
		l.Fail(at, "", fmt.Errorf("kind %q of apiVersion %q is not read", kind.Kind, kind.GroupVersion()))
	}
}

// accept checks the metadata of an object, and sets its namespace.
func (l *loader) accept(at document.Source, kind string, meta *metav1.ObjectMeta, namespaced bool) bool {
	switch {
	case !namespaced:
		meta.Namespace = ""
	case meta.Namespace == "":
		meta.Namespace = l.namespace
	}
	title := fmt.Sprintf("%s %q", kind, cache.NewObjectName(meta.Namespace, meta.Name))
	if namespaced && meta.Name != "" && meta.Namespace == "" {
		l.Fail(at, title, errNoNamespace)
		return false
	}
	return l.IsNew(at, title, meta.Name)
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
