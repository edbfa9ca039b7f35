/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package clientstore makes stores for controllers that have the objects of a client, such as a fake one.
package clientstore

import (
	"context"
	"math"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/controller"
)

// revision returns the current revision of a store.
type revision func(ctx context.Context) (uint64, error)

// Latest is the revision of a store that has not gone back, whatever was seen of it.
func Latest(context.Context) (uint64, error) { return math.MaxUint64, nil }

// Of returns a store with the objects of a client.
func Of[L runtime.Object](client controller.Client[L], at revision) controller.Store {
	return store[L]{client, at}
}

// Policies returns the store of each resource of policies, with the objects of a client.
func Policies(client versioned.Interface, revision func(ctx context.Context, resource string) (uint64, error)) func(resource string) controller.Store {
	return func(resource string) controller.Store {
		at := func(ctx context.Context) (uint64, error) { return revision(ctx, resource) }
		if resource == "clusterauthorizationpolicies" {
			return Of(client.PolicyV1alpha1().ClusterAuthorizationPolicies(), at)
		}
		return Of(client.PolicyV1alpha1().AuthorizationPolicies(metav1.NamespaceAll), at)
	}
}

// LatestPolicies returns the store of each resource of policies, which does not go back, with the objects of a client.
func LatestPolicies(client versioned.Interface) func(resource string) controller.Store {
	return Policies(client, func(ctx context.Context, _ string) (uint64, error) { return Latest(ctx) })
}

type store[L runtime.Object] struct {
	client controller.Client[L]
	at     revision
}

func (s store[L]) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return s.client.List(ctx, options)
}

func (s store[L]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return s.client.Watch(ctx, options)
}

// IsWatchListSemanticsUnSupported has informers list before they watch: a fake client delivers no initial events.
func (store[L]) IsWatchListSemanticsUnSupported() bool { return true }

func (s store[L]) Revision(ctx context.Context) (uint64, error) { return s.at(ctx) }
