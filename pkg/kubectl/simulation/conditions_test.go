/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package simulation_test

import (
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// TestEvaluate evaluates conditions that a review has shown. If the decision could depend on one that only a server evaluates, there is an error and no Allow.
func TestEvaluate(t *testing.T) {
	t.Parallel()
	compilers, err := simulation.NewCompilers()
	if err != nil {
		t.Fatal(err)
	}
	type (
		set       = authorizationv1alpha1.SubjectAccessReviewConditionSet
		condition = authorizationv1alpha1.SubjectAccessReviewCondition
	)
	of := func(name string, mode authorizationv1alpha1.FailureMode, conditions ...condition) set {
		return set{AuthorizerName: name, FailureMode: mode, Conditions: conditions}
	}
	in := func(id string, effect authorizationv1alpha1.ConditionEffect, text string) condition {
		return condition{ID: "cluster.policy.proviso.dev/" + id, Effect: effect, Type: authorization.ConditionTypeCEL, Condition: text}
	}
	foreign := func(effect authorizationv1alpha1.ConditionEffect) condition {
		return condition{ID: "example.com/c", Effect: effect, Type: "example.com/rego", Condition: "true"}
	}
	allow := in("a", "Allow", `object.class == "dev"`)
	const checks = `authorizer.group("").resource("pods").check("get").allowed()`
	for _, tc := range []struct {
		name      string
		sets      []set
		namespace string
		// want is yes or no, or a part of the error.
		want string
	}{
		{"a condition that is true", []set{of("a", "", allow)}, "", "yes"},
		{"a condition that is false", []set{of("a", "", in("a", "Allow", `object.class == "prod"`))}, "", "no"},
		{"a condition that fails", []set{of("a", "", in("a", "Allow", `object.none == "dev"`))}, "", "no"},
		{"a Deny", []set{of("a", "", in("d", "Deny", `object.class == "dev"`), allow)}, "", "no"},
		{"a Deny that fails", []set{of("a", "NoOpinion", in("d", "Deny", `object.none == "dev"`)), of("b", "", allow)}, "", "yes"}, // as its failure mode says
		{"a NoOpinion", []set{of("a", "", in("n", "NoOpinion", `object.class == "dev"`), allow)}, "", "no"},
		{"an Allow after conditions", []set{of("a", "", in("d", "Deny", `object.class == "prod"`)), {AuthorizerName: "b", Allowed: true}}, "", "yes"},
		{"a Deny after conditions", []set{of("a", "", in("a", "Allow", `object.class == "prod"`)), {AuthorizerName: "b", Denied: true}}, "", "no"},
		{"nested sets", []set{{AuthorizerName: "a", ConditionsChain: []set{of("b", "", allow)}}}, "", "yes"},
		{"the user and the options", []set{of("a", "", in("a", "Allow", `options.kind == "UpdateOptions" && operation == "UPDATE" && !dryRun`))}, "", "yes"},
		{"no sets", nil, "", "no"},

		{"another type", []set{of("a", "", foreign("Allow"))}, "", "example.com/c cannot be evaluated here: it is not in CEL"},
		{"another type that could deny, before an Allow", []set{of("a", "NoOpinion", foreign("Deny")), of("b", "", allow)}, "", "it is not in CEL"},
		{"another type that could deny, before an Allow without conditions", []set{of("a", "NoOpinion", foreign("Deny")), {AuthorizerName: "b", Allowed: true}}, "", "it is not in CEL"},
		{"another type in a nested set", []set{{AuthorizerName: "a", ConditionsChain: []set{of("b", "NoOpinion", foreign("Deny"))}}, of("c", "", allow)}, "", "it is not in CEL"},
		{"another type after the set that decides", []set{of("a", "", allow), of("b", "", foreign("Deny"))}, "", "yes"},
		{"another type after a Deny", []set{of("a", "", in("d", "Deny", `object.class == "dev"`)), of("b", "", foreign("Allow"))}, "", "no"},
		{"a bound condition", []set{of("a", "", condition{ID: "example.com/c", Effect: "Allow", Type: authorization.ConditionTypeCELBound, Condition: "true"})}, "", "it is not in CEL"},
		{"a check of permissions", []set{of("a", "", in("a", "Allow", checks))}, "", "policy=a cannot be evaluated here: it checks permissions"},
		{"a check that could deny, before an Allow", []set{of("a", "NoOpinion", in("d", "Deny", checks)), of("b", "", allow)}, "", "it checks permissions"},
		{"a language that is not known", []set{of("a", "NoOpinion", in("d", "Deny", `object.later() == 1`)), of("b", "", allow)}, "", "undeclared reference"},
		{"a namespace that is not known", []set{of("a", "NoOpinion", in("d", "Deny", `namespaceObject.metadata.name == "x"`)), of("b", "", allow)}, "", "it reads the namespace, which is not known"},
		{"a namespace", []set{of("a", "", in("a", "Allow", `namespaceObject.metadata.labels["tier"] == "dev"`))}, `{"metadata": {"name": "n", "labels": {"tier": "dev"}}}`, "yes"},
		{"a broken set", []set{of("a", "", condition{Effect: "Allow", Type: authorization.ConditionTypeCEL, Condition: "true"})}, "", "invalid"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := data(`{"apiVersion": "v1", "kind": "Thing", "class": "dev"}`)
			d.Options = &runtime.RawExtension{Raw: []byte(`{"apiVersion": "meta.k8s.io/v1", "kind": "UpdateOptions"}`)}
			if tc.namespace != "" {
				d.NamespaceObject = &runtime.RawExtension{Raw: []byte(tc.namespace)}
			}
			r := &simulation.Request{Data: d, Spec: &authorizationv1alpha1.SubjectAccessReviewSpec{
				User: "alice", ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "update", Version: "v1", Resource: "things", Namespace: "n", Name: "a"},
			}}
			decision, err := compilers.Evaluate(t.Context(), tc.sets, r)
			got := map[bool]string{true: "yes", false: "no"}[decision.IsAllow()]
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, tc.want) || err != nil && !decision.IsDeny() {
				t.Errorf("got %q and %v, want %q", got, decision, tc.want)
			}
		})
	}
	if _, err := compilers.Evaluate(t.Context(), []set{of("a", "", allow)}, &simulation.Request{Data: data("[]"), Spec: &authorizationv1alpha1.SubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{},
	}}); err == nil {
		t.Error("want an error for what is no object")
	}
}
