/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rbac

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/cache"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// Permission is a binding with the rules of its role.
type Permission struct {
	// Kind is RoleBinding or ClusterRoleBinding. The namespace of the latter is empty.
	Kind, Namespace, Name string
	Role                  rbacv1.RoleRef
	// Spec is the Allow policy with the subjects and the rules of the binding as they are. It may have more subjects and rules than a policy may
	// have, and texts that a policy may not have.
	Spec *policyv1alpha1.AuthorizationPolicySpec
	// Remarks say which parts of the binding grant nothing, and why.
	Remarks []string
	// Unknown says that the role may exist, but could not be read.
	Unknown bool
}

// String returns the kind and the name of the binding, for messages.
func (p *Permission) String() string {
	return fmt.Sprintf("%s %q", p.Kind, cache.NewObjectName(p.Namespace, p.Name))
}

// Key returns the key of a policy in the same scope, for the rules of the engine.
func (p *Permission) Key() engine.Key { return engine.Key{Namespace: p.Namespace, Name: p.Name} }

// Permissions returns the permissions of all bindings, those of the cluster first, in the order of their names.
func (o *Objects) Permissions() []*Permission {
	var permissions []*Permission
	for i := range o.ClusterRoleBindings {
		b := &o.ClusterRoleBindings[i]
		permissions = append(permissions, o.permission(KindClusterRoleBinding, "", b.Name, b.RoleRef, b.Subjects))
	}
	for i := range o.RoleBindings {
		b := &o.RoleBindings[i]
		permissions = append(permissions, o.permission(KindRoleBinding, b.Namespace, b.Name, b.RoleRef, b.Subjects))
	}
	slices.SortFunc(permissions, func(a, b *Permission) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return permissions
}

func (o *Objects) permission(kind, namespace, name string, role rbacv1.RoleRef, subjects []rbacv1.Subject) *Permission {
	p := &Permission{Kind: kind, Namespace: namespace, Name: name, Role: role}
	p.Spec = &policyv1alpha1.AuthorizationPolicySpec{Effect: policyv1alpha1.PolicyEffectAllow}
	for _, s := range subjects {
		subject, remark := p.subject(s)
		if remark != "" {
			p.Remarks = append(p.Remarks, remark)
			continue
		}
		if !slices.Contains(p.Spec.Subjects, subject) {
			p.Spec.Subjects = append(p.Spec.Subjects, subject)
		}
	}
	rules, found := o.rulesOf(role, namespace)
	switch {
	case !found && slices.Contains(o.Unread, role.Kind) && (role.Kind == KindClusterRole || namespace != ""):
		p.Unknown = true
		p.Remarks = append(p.Remarks, fmt.Sprintf("the %s %q, or its rules, are missing: they could not be read, or are in no file", role.Kind, role.Name))
	case !found:
		p.Remarks = append(p.Remarks, fmt.Sprintf("the %s %q does not exist: the binding grants nothing", role.Kind, role.Name))
	}
	for i := range rules {
		p.Spec.Rules = append(p.Spec.Rules, p.rules(&rules[i])...)
	}
	return p
}

// subject returns a subject as RBAC understands it, or a remark if it matches no user.
func (p *Permission) subject(s rbacv1.Subject) (rbacv1.Subject, string) {
	//guard:convert-kinds-subjects
	switch s.Kind {
	case rbacv1.UserKind, rbacv1.GroupKind:
		return rbacv1.Subject{Kind: s.Kind, APIGroup: rbacv1.GroupName, Name: s.Name}, ""
	case rbacv1.ServiceAccountKind:
		if s.Namespace == "" {
			s.Namespace = p.Namespace
		}
		if s.Namespace == "" {
			return s, fmt.Sprintf("the service account %q has no namespace: it is no user", s.Name)
		}
		return rbacv1.Subject{Kind: s.Kind, Namespace: s.Namespace, Name: s.Name}, ""
	}
	return s, fmt.Sprintf("the subject %q has the kind %q, which RBAC does not have: it is no user", s.Name, s.Kind)
}

// rulesOf returns the rules of a role. The role of a ClusterRoleBinding must be a ClusterRole.
func (o *Objects) rulesOf(role rbacv1.RoleRef, namespace string) (rules []rbacv1.PolicyRule, found bool) {
	switch {
	case role.Kind == KindClusterRole:
		i := slices.IndexFunc(o.ClusterRoles, func(r rbacv1.ClusterRole) bool { return r.Name == role.Name })
		if i >= 0 {
			// The ClusterRoles that an aggregated one selects may be in no file.
			isSelected := o.ClusterRoles[i].AggregationRule == nil || len(o.ClusterRoles[i].Rules) > 0 || !slices.Contains(o.Unread, KindClusterRole)
			return o.ClusterRoles[i].Rules, isSelected
		}
	case role.Kind == KindRole && namespace != "":
		i := slices.IndexFunc(o.Roles, func(r rbacv1.Role) bool { return r.Name == role.Name && r.Namespace == namespace })
		if i >= 0 {
			return o.Roles[i].Rules, true
		}
	}
	return nil, false
}

// rules returns the rules of a policy that match like a rule of RBAC. One that has both resources and URLs, which the validation of
// kube-apiserver refuses, is two rules. In a RoleBinding, URLs match no request.
func (p *Permission) rules(r *rbacv1.PolicyRule) (rules []policyv1alpha1.PolicyRule) {
	if len(r.Resources) > 0 && len(r.APIGroups) > 0 && len(r.Verbs) > 0 {
		rules = append(rules, policyv1alpha1.PolicyRule{Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames})
	}
	switch {
	case len(r.NonResourceURLs) == 0 || len(r.Verbs) == 0:
	//guard:convert-urls-rolebindings
	case p.Namespace != "":
		p.Remarks = append(p.Remarks, fmt.Sprintf("the URLs %q match no request: a RoleBinding is about resources in its namespace", r.NonResourceURLs))
	default:
		rules = append(rules, policyv1alpha1.PolicyRule{Verbs: r.Verbs, NonResourceURLs: r.NonResourceURLs})
	}
	if len(rules) == 0 && (len(r.NonResourceURLs) == 0 || len(r.Verbs) == 0) {
		p.Remarks = append(p.Remarks, "a rule without verbs, or without resources and API groups, matches no request")
	}
	return rules
}

// RulesOf returns the rules of the engine that match the same requests as rules of a ClusterRole, which a ClusterRoleBinding binds.
func RulesOf(rules []rbacv1.PolicyRule) engine.Rules {
	p := &Permission{Kind: KindClusterRoleBinding, Spec: &policyv1alpha1.AuthorizationPolicySpec{Effect: policyv1alpha1.PolicyEffectAllow}}
	for i := range rules {
		p.Spec.Rules = append(p.Spec.Rules, p.rules(&rules[i])...)
	}
	return engine.RulesOf(p.Key(), p.Spec)
}
