/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package node_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/node"
)

// data is what a write is about.
type data struct {
	authorizer.ConditionsData
	object, old runtime.Object
}

func (d data) GetObject() runtime.Object    { return d.object }
func (d data) GetOldObject() runtime.Object { return d.old }

func on(name any) runtime.Object {
	return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"nodeName": name}}}
}

func request(name, verb, resource string, groups ...string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: name, Groups: groups}, Verb: verb, Resource: resource, APIVersion: "v1", ResourceRequest: true,
	}
}

func chain(t *testing.T) *authorization.Chain {
	t.Helper()
	c, err := authorization.NewChain(authorization.Member{
		Name: "node", Decider: authorization.DeciderOf(node.Authorizer{Resources: []schema.GroupResource{{Resource: "pods"}}}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOpinions(t *testing.T) {
	t.Parallel()
	subresource := request("system:node:n1", "update", "pods", user.NodesGroup)
	subresource.Subresource = "status"
	for name, tc := range map[string]struct {
		request authorizer.AttributesRecord
		want    bool
	}{
		"a node":                    {request("system:node:n1", "create", "pods", user.NodesGroup), true},
		"without the group":         {request("system:node:n1", "create", "pods"), false},
		"without the name":          {request("n1", "create", "pods", user.NodesGroup), false},
		"with an empty name":        {request("system:node:", "create", "pods", user.NodesGroup), false},
		"another resource":          {request("system:node:n1", "create", "secrets", user.NodesGroup), false},
		"a read":                    {request("system:node:n1", "get", "pods", user.NodesGroup), false},
		"many, one by one":          {request("system:node:n1", "deletecollection", "pods", user.NodesGroup), false},
		"a subresource":             {subresource, false},
		"nobody in particular":      {authorizer.AttributesRecord{Verb: "create", Resource: "pods", ResourceRequest: true}, false},
		"a path that looks like it": {authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "system:node:n1", Groups: []string{user.NodesGroup}}, Verb: "create", Path: "/pods"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := chain(t).Decide(t.Context(), tc.request).CanBecomeAllowed(); got != tc.want {
				t.Errorf("can become allowed: got %v, want %v", got, tc.want)
			}
			if decision, _, _ := chain(t).Authorize(t.Context(), tc.request); decision != authorizer.DecisionNoOpinion {
				t.Errorf("without conditions: got %v, want NoOpinion", decision)
			}
		})
	}
}

// TestEveryRoute evaluates in process, lazily and eagerly, and after the wire: all agree.
func TestEveryRoute(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		data data
		want string
	}{
		"a create on the node":      {data{object: on("n1")}, "Allow"},
		"a create elsewhere":        {data{object: on("n2")}, "NoOpinion"},
		"a create nowhere":          {data{object: &unstructured.Unstructured{Object: map[string]any{}}}, "NoOpinion"},
		"an update that stays":      {data{object: on("n1"), old: on("n1")}, "Allow"},
		"an update that takes":      {data{object: on("n1"), old: on("n2")}, "NoOpinion"},
		"an update that gives away": {data{object: on("n2"), old: on("n1")}, "NoOpinion"},
		"a delete":                  {data{old: on("n1")}, "Allow"},
		"a delete elsewhere":        {data{old: on("n2")}, "NoOpinion"},
		"a name that is no string":  {data{object: on(int64(1))}, "NoOpinion"},
		"nothing at all":            {data{}, "NoOpinion"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, attributes := chain(t), request("system:node:n1", "update", "pods", user.NodesGroup)
			evaluator := authorization.EvaluatorFor(tc.data, nil)
			status := authorization.Status(c.Decide(t.Context(), attributes))
			sets, err := authorization.SetsFromWire(status.ConditionsChain)
			if err != nil || len(sets) == 0 {
				t.Fatalf("over the wire: %+v, %v", status, err)
			}
			for route, got := range map[string]authorization.Decision{
				"lazy":          c.Begin(t.Context(), attributes).Evaluate(t.Context(), evaluator),
				"eager":         c.Decide(t.Context(), attributes).Evaluate(t.Context(), evaluator),
				"over the wire": authorization.Chained(c.WithAuthors(sets...)...).Evaluate(t.Context(), evaluator),
			} {
				if kind(got) != tc.want {
					t.Errorf("%s: got %s (%s, %v), want %s", route, kind(got), got.Reason(), got.Err(), tc.want)
				}
			}
		})
	}
}

func kind(d authorization.Decision) string {
	switch {
	case d.IsAllow():
		return "Allow"
	case d.IsNoOpinion():
		return "NoOpinion"
	case d.IsDeny():
		return "Deny"
	}
	return "conditional"
}

// TestForeignConditions gives the authorizer conditions that it did not make.
func TestForeignConditions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]authorizer.GenericCondition{
		"another type":      {ID: "example.com/a", Type: "example.com/b", Condition: `{"condition":"require-pod-node-name","nodeName":"n1"}`},
		"no JSON":           {ID: "example.com/a", Type: node.ConditionType, Condition: `n1`},
		"another condition": {ID: "example.com/a", Type: node.ConditionType, Condition: `{"condition":"anything","nodeName":"n1"}`},
		"no name":           {ID: "example.com/a", Type: node.ConditionType, Condition: `{"condition":"require-pod-node-name"}`},
		"far too long":      {ID: "example.com/a", Type: node.ConditionType, Condition: `{"condition":"require-pod-node-name","nodeName":"n1"}` + strings.Repeat(" ", 2000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			decision := authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, []authorizer.Condition{c})
			got, _, err := node.Authorizer{}.EvaluateConditions(t.Context(), decision, data{object: on("n1")})
			if got == authorizer.DecisionAllow || err == nil {
				t.Errorf("got %v, %v, want no Allow and an error", got, err)
			}
		})
	}
}

// TestConditionsAtTheirBound evaluates a condition of as many bytes as one may have, and of one more.
func TestConditionsAtTheirBound(t *testing.T) {
	t.Parallel()
	const text = `{"condition":"require-pod-node-name","nodeName":"n1"}`
	for _, tc := range []struct {
		name, text string
		data       data
		want       authorizer.Decision
		wantErr    bool
	}{
		{name: "as long as may be", text: text + strings.Repeat(" ", 1024-len(text)), data: data{object: on("n1")}, want: authorizer.DecisionAllow},
		{name: "a byte more", text: text + strings.Repeat(" ", 1025-len(text)), data: data{object: on("n1")}, want: authorizer.DecisionNoOpinion, wantErr: true},
		{name: "null", text: "null", data: data{object: on("n1")}, want: authorizer.DecisionNoOpinion, wantErr: true},
		{name: "a name of another type", text: `{"condition":"require-pod-node-name","nodeName":["n1"]}`, data: data{object: on("n1")}, want: authorizer.DecisionNoOpinion, wantErr: true},
		{name: "an old object that cannot be read", text: text, data: data{object: on("n1"), old: on(map[string]any{})}, want: authorizer.DecisionNoOpinion, wantErr: true},
		{name: "an object that is not there, of a type", text: text, data: data{object: (*unstructured.Unstructured)(nil)}, want: authorizer.DecisionNoOpinion, wantErr: true},
		{name: "no objects", text: text, want: authorizer.DecisionNoOpinion, wantErr: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			decision := authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, []authorizer.Condition{
				authorizer.GenericCondition{ID: "example.com/a", Type: node.ConditionType, Condition: tc.text},
			})
			got, _, err := node.Authorizer{}.EvaluateConditions(t.Context(), decision, tc.data)
			if got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("got %v, %v, want %v, and an error: %v", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

// TestWithoutConditions asks for those who do not know conditions: nothing is allowed, and nodes learn why.
func TestWithoutConditions(t *testing.T) {
	t.Parallel()
	a := node.Authorizer{Resources: []schema.GroupResource{{Resource: "pods"}}}
	for name, want := range map[string]string{"system:node:n1": "nodes may write on conditions only", "alice": ""} {
		decision, reason, err := a.Authorize(t.Context(), request(name, "create", "pods", user.NodesGroup))
		if decision != authorizer.DecisionNoOpinion || reason != want || err != nil {
			t.Errorf("%s: got %v, %q, %v, want NoOpinion and %q", name, decision, reason, err, want)
		}
	}
	other := request("system:node:n1", "create", "pods", user.NodesGroup)
	other.APIGroup = "example.com"
	if authorization.FromUpstream("node", a.ConditionsAwareAuthorize(t.Context(), other)).CanBecomeAllowed() {
		t.Error("pods of another group can become allowed")
	}
}
