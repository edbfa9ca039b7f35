/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"context"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// namespacesOf is a cache with the namespace n, which has the label tier and an annotation.
func namespacesOf(lookups *int, tier string) authorization.Namespaces {
	return func(name string) (map[string]any, bool) {
		*lookups++
		if name != "n" {
			return nil, false
		}
		return map[string]any{"metadata": map[string]any{"name": "n", "labels": map[string]any{"tier": tier}}, "spec": map[string]any{"finalizers": []any{"x"}}}, true
	}
}

// TestConditionsOnNamespaces decides requests by conditions that read the namespace, with a cache and without one.
func TestConditionsOnNamespaces(t *testing.T) {
	t.Parallel()
	const isDev, isProd = `namespaceObject.metadata.labels["tier"] == "dev"`, `namespaceObject.metadata.labels["tier"] == "prod"`
	inOther, ofCluster := podsOf("get"), podsOf("get")
	inOther.Namespace, ofCluster.Namespace = "other", ""
	for _, tc := range []struct {
		name    string
		specs   map[string]spec
		request authorizer.Attributes
		tier    string // of the namespace in the cache; without it there is no cache
		want    string
	}{
		{"Allow, holds", map[string]spec{"p": {Effect: allow, Condition: isDev}}, podsOf("get"), "dev", "NoOpinion, Allow"},
		{"Allow, does not hold", map[string]spec{"p": {Effect: allow, Condition: isDev}}, podsOf("get"), "prod", "NoOpinion, NoOpinion"},
		{"Deny, holds", map[string]spec{"p": {Effect: deny, Condition: isProd}}, podsOf("list"), "prod", "Deny, NoOpinion"},
		{"Deny, does not hold", map[string]spec{"p": {Effect: deny, Condition: isProd}}, podsOf("list"), "dev", "NoOpinion, NoOpinion"},
		{"of the namespace", map[string]spec{"n/p": {Effect: deny, Condition: isProd}}, podsOf("delete"), "prod", "Deny, NoOpinion"},
		{"an error", map[string]spec{"p": {Effect: deny, Condition: `namespaceObject.metadata.labels["none"] == ""`}}, podsOf("get"), "dev", "Deny, NoOpinion"},
		{"spec is not shown", map[string]spec{"p": {Effect: allow, Condition: `has(dyn(namespaceObject).spec)`}}, podsOf("get"), "dev", "NoOpinion, NoOpinion"},
		{"the object as well", map[string]spec{"p": {Effect: deny, Condition: isProd + " && object.a == 1"}}, podsOf("create"), "prod", "[Deny p: object.a == 1], NoOpinion"},
		{"the object does not matter", map[string]spec{"p": {Effect: deny, Condition: isProd + " && object.a == 1"}}, podsOf("create"), "dev", "NoOpinion, NoOpinion"},
		{"a namespace that is not in the cache", map[string]spec{"p": {Effect: deny, Condition: isProd}}, inOther, "dev", "[Deny p: " + isProd + "], NoOpinion"},
		{"no cache", map[string]spec{"p": {Effect: allow, Condition: isDev}}, podsOf("get"), "", "NoOpinion, [Allow p: " + isDev + "]"},
		{"a Deny for a request without a namespace", map[string]spec{"p": {Effect: deny, Condition: isProd}}, ofCluster, "dev", "Deny, NoOpinion"},
		{"an Allow for a request without a namespace", map[string]spec{"p": {Effect: allow, Condition: isDev}}, ofCluster, "dev", "NoOpinion, NoOpinion"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			source, lookups := publish(t, tc.specs), 0
			ctx := t.Context()
			if tc.tier != "" {
				ctx = authorization.WithNamespaces(ctx, namespacesOf(&lookups, tc.tier))
			}
			if got := decidedIn(ctx, t, source, tc.request); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if n := source.Namespaced(ctx, tc.request); n != nil {
				n.Evaluate(ctx)
				if got := decidedIn(n.In(ctx), t, source, tc.request); got != tc.want {
					t.Errorf("evaluated before: got %s, want %s", got, tc.want)
				}
			}
		})
	}
}

// TestNamespaceIsLookedUpOnce counts how often one decision looks up the namespace: never if no condition reads it, and
// once if three conditions do.
func TestNamespaceIsLookedUpOnce(t *testing.T) {
	t.Parallel()
	const reads = `namespaceObject.metadata.name == "m"`
	for _, tc := range []struct {
		name  string
		specs map[string]spec
		want  int
	}{
		{"none reads it", map[string]spec{"a": {Effect: deny, Condition: `request.name == "x"`}, "b": {Effect: deny}}, 0},
		{"three read it", map[string]spec{"a": {Effect: deny, Condition: reads}, "b": {Effect: deny, Condition: reads}, "c": {Effect: deny, Condition: reads}}, 1},
	} {
		lookups := 0
		ctx := authorization.WithNamespaces(context.Background(), namespacesOf(&lookups, "dev"))
		partOf(publish(t, tc.specs), false).Decide(ctx, podsOf("get"))
		if lookups != tc.want {
			t.Errorf("%s: got %d lookups, want %d", tc.name, lookups, tc.want)
		}
	}
}
