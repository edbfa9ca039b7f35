/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rbac

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/tools/pager"
)

// Read reads the objects of a cluster: those of one namespace, or of all if it is empty, and those without a namespace. It returns the objects that
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
	note(KindClusterRoleBinding, EachItem(ctx, client.ClusterRoleBindings().List, func(b *rbacv1.ClusterRoleBinding) { o.ClusterRoleBindings = append(o.ClusterRoleBindings, *b) }))
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
