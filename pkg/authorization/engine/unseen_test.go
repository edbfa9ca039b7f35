/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// TestEngineUnseen decides requests that are decided again where their selectors are not seen.
func TestEngineUnseen(t *testing.T) {
	t.Parallel()
	const onObject, onBoth = `object.a == 1`, `request.labelSelector.requirements.exists(r, r.key == "a") && object.a == 1`
	throughVariable := spec{Effect: allow, Condition: `variables.s > 0`, Variables: []policyv1alpha1.Variable{{Name: "s", Expression: "request.labelSelector.requirements.size()"}}}
	for _, tc := range []struct {
		name  string
		specs map[string]spec
		// want is the decision without Unseen, wantUnseen with it.
		want, wantUnseen string
		wantReason       string
	}{
		{name: "no condition", specs: map[string]spec{"p": {Effect: allow}}, want: "NoOpinion, Allow", wantUnseen: "NoOpinion, Allow"},
		{name: "a condition on the object", specs: map[string]spec{"p": {Effect: allow, Condition: onObject}},
			want: "NoOpinion, [Allow p: object.a == 1]", wantUnseen: "NoOpinion, [Allow p: object.a == 1]"},
		{name: "Allow by labels", specs: map[string]spec{"p": {Effect: allow, Condition: readsLabels}}, want: "NoOpinion, Allow", wantUnseen: "NoOpinion, NoOpinion",
			wantReason: "policy=p reason=Error: its condition reads the path or a selector of the request, which is not seen at admission"},
		{name: "Allow by no fields", specs: map[string]spec{"p": {Effect: allow, Condition: "!(" + readsFields + ")"}}, want: "NoOpinion, Allow", wantUnseen: "NoOpinion, NoOpinion"},
		{name: "Allow by the path", specs: map[string]spec{"p": {Effect: allow, Condition: `request.path == ""`}}, want: "NoOpinion, Allow", wantUnseen: "NoOpinion, NoOpinion"},
		{name: "Allow by the whole request", specs: map[string]spec{"p": {Effect: allow, Condition: `[request].all(r, r.verb != "")`}}, want: "NoOpinion, Allow", wantUnseen: "NoOpinion, NoOpinion"},
		{name: "Allow by a variable", specs: map[string]spec{"p": throughVariable}, want: "NoOpinion, Allow", wantUnseen: "NoOpinion, NoOpinion"},
		{name: "Allow by labels and the object", specs: map[string]spec{"p": {Effect: allow, Condition: onBoth}}, want: "NoOpinion, [Allow p: object.a == 1]", wantUnseen: "NoOpinion, NoOpinion"},
		{name: "Allow by labels, and by the object", specs: map[string]spec{"p": {Effect: allow, Condition: readsLabels}, "q": {Effect: allow, Condition: onObject}},
			want: "NoOpinion, Allow", wantUnseen: "NoOpinion, [Allow q: object.a == 1]"},
		{name: "NoOpinion by labels and the object", specs: map[string]spec{"n": {Effect: noOpinion, Condition: onBoth}, "p": {Effect: allow}},
			want: "NoOpinion, [NoOpinion n: object.a == 1; Allow p: true]", wantUnseen: "NoOpinion, NoOpinion"},
		{name: "NoOpinion by labels that do not hold", specs: map[string]spec{"n": {Effect: noOpinion, Condition: "!(" + readsLabels + ")"}, "p": {Effect: allow}},
			want: "NoOpinion, Allow", wantUnseen: "NoOpinion, Allow"},
		{name: "NoOpinion by the object", specs: map[string]spec{"n": {Effect: noOpinion, Condition: onObject}, "p": {Effect: allow}},
			want: "NoOpinion, [NoOpinion n: object.a == 1; Allow p: true]", wantUnseen: "NoOpinion, [NoOpinion n: object.a == 1; Allow p: true]"},
		{name: "Deny by labels", specs: map[string]spec{"d": {Effect: deny, Condition: readsLabels}, "p": {Effect: allow}}, want: "Deny, Allow", wantUnseen: "Deny, Allow"},
		{name: "Deny by labels and the object", specs: map[string]spec{"d": {Effect: deny, Condition: onBoth}}, want: "[Deny d: object.a == 1], NoOpinion", wantUnseen: "[Deny d: object.a == 1], NoOpinion"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := podsOf("update") // both objects are unknown
			requirements, err := labels.ParseToRequirements("a,b in (x, y)")
			if err != nil {
				t.Fatal(err)
			}
			a.LabelSelectorRequirements = requirements
			source := publish(t, tc.specs)
			if got := decided(t, source, a); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			ctx, unseen := authorization.WithUnseen(t.Context())
			if got := decidedIn(ctx, t, source, a); got != tc.wantUnseen {
				t.Errorf("unseen: got %s, want %s", got, tc.wantUnseen)
			}
			if got := unseen.Reason(); (got == "") == (tc.want != tc.wantUnseen && tc.specs["n"].Effect == "") || tc.wantReason != "" && got != tc.wantReason {
				t.Errorf("got the reason %q", got)
			}
		})
	}
}

// TestForAnyName decides requests whose name is not known: what restricts some names restricts them, and what allows some
// names does not.
func TestForAnyName(t *testing.T) {
	t.Parallel()
	named := []rule{{Verbs: []string{"patch"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"q"}}}
	for _, tc := range []struct {
		name             string
		specs            map[string]spec
		want, wantForAny string
		// clusterScoped says that the request has no namespace.
		clusterScoped bool
	}{
		{name: "Deny of some names", specs: map[string]spec{"d": {Effect: deny, Rules: named}}, want: "NoOpinion, NoOpinion", wantForAny: "Deny, NoOpinion"},
		{name: "Deny by the name", specs: map[string]spec{"d": {Effect: deny, Condition: `request.name == "q"`}}, want: "NoOpinion, NoOpinion", wantForAny: "Deny, NoOpinion"},
		{name: "Deny by the whole request", specs: map[string]spec{"d": {Effect: deny, Condition: `[request].exists(r, r.name == "q")`}}, want: "NoOpinion, NoOpinion", wantForAny: "Deny, NoOpinion"},
		{name: "Deny by something else", specs: map[string]spec{"d": {Effect: deny, Condition: `request.verb == "get"`}}, want: "NoOpinion, NoOpinion", wantForAny: "NoOpinion, NoOpinion"},
		{name: "Deny of some names of a namespace", specs: map[string]spec{"n/d": {Effect: deny, Rules: named}}, want: "NoOpinion, NoOpinion", wantForAny: "Deny, NoOpinion"},
		{name: "Deny by the namespace", specs: map[string]spec{"d": {Effect: deny, Condition: `request.namespace == "m"`}}, want: "NoOpinion, NoOpinion", wantForAny: "NoOpinion, NoOpinion"},
		{name: "Deny by the namespace, which the name may be", specs: map[string]spec{"d": {Effect: deny, Condition: `request.namespace == "m"`}}, clusterScoped: true, want: "NoOpinion, NoOpinion", wantForAny: "Deny, NoOpinion"},
		{name: "Deny in another namespace", specs: map[string]spec{"m/d": {Effect: deny, Rules: named}}, want: "NoOpinion, NoOpinion", wantForAny: "NoOpinion, NoOpinion"},
		{name: "Allow of some names", specs: map[string]spec{"p": {Effect: allow, Rules: named}}, want: "NoOpinion, NoOpinion", wantForAny: "NoOpinion, NoOpinion"},
		{name: "Allow by the name", specs: map[string]spec{"p": {Effect: allow, Condition: `request.name == "p"`}}, want: "NoOpinion, Allow", wantForAny: "NoOpinion, NoOpinion"},
		{name: "Allow of everything", specs: map[string]spec{"p": {Effect: allow}}, want: "NoOpinion, Allow", wantForAny: "NoOpinion, Allow"},
		{name: "NoOpinion of some names", specs: map[string]spec{"n": {Effect: noOpinion, Rules: named}, "p": {Effect: allow}}, want: "NoOpinion, Allow", wantForAny: "NoOpinion, NoOpinion"},
		{name: "NoOpinion by the name", specs: map[string]spec{"n": {Effect: noOpinion, Condition: `request.name == "q"`}, "p": {Effect: allow}}, want: "NoOpinion, Allow", wantForAny: "NoOpinion, NoOpinion"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			source := publish(t, tc.specs)
			pods := podsOf("patch")
			if tc.clusterScoped {
				pods.Namespace = ""
			}
			var a authorizer.Attributes = pods
			if got := decided(t, source, a); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if got := decided(t, source, engine.ForAnyName(a)); got != tc.wantForAny {
				t.Errorf("any name: got %s, want %s", got, tc.wantForAny)
			}
			ctx := source.Pin(t.Context())
			if namespaced := source.Namespaced(ctx, engine.ForAnyName(a)); namespaced != nil {
				namespaced.Evaluate(ctx)
				if got := decidedIn(namespaced.In(ctx), t, source, engine.ForAnyName(a)); got != tc.wantForAny {
					t.Errorf("any name, evaluated before: got %s, want %s", got, tc.wantForAny)
				}
			}
		})
	}
}
