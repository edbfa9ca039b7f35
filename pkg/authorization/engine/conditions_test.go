/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/bound"
	"github.com/proviso-authz/proviso/pkg/registry/virtual"
)

func mayRead(answer bool) func(context.Context, authorizer.Attributes, engine.Key) bool {
	return func(context.Context, authorizer.Attributes, engine.Key) bool { return answer }
}

// TestModes asks that only a caller who asks for it, and may read the policy, is shown all
// of it; others see what remains.
func TestModes(t *testing.T) {
	t.Parallel()
	const residual, all = "object.a == 1", `{"expression":"request.name == \"p\" && object.a == 1","request":{"name":"p"}}`
	for _, tc := range []struct {
		name       string
		mode       authorization.Mode
		mayRead    func(context.Context, authorizer.Attributes, engine.Key) bool
		wantType   string
		wantText   string
		wantFolded bool
	}{
		{"none", authorizationapi.ConditionsModeNone, mayRead(true), authorization.ConditionTypeCEL, residual, true},
		{"readable", authorizationapi.ConditionsModeHumanReadable, mayRead(true), authorization.ConditionTypeCEL, residual, false},
		{"optimized for a reader", authorizationapi.ConditionsModeOptimized, mayRead(true), authorization.ConditionTypeCELBound, all, false},
		{"optimized for another", authorizationapi.ConditionsModeOptimized, mayRead(false), authorization.ConditionTypeCEL, residual, false},
		{"optimized where nobody may read", authorizationapi.ConditionsModeOptimized, nil, authorization.ConditionTypeCEL, residual, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := authorization.Request{Attributes: podsOf("update"), Mode: tc.mode}
			granting := partOf(publish(t, map[string]spec{"p": {Effect: allow, Description: "d", Condition: `request.name == "p" && object.a == 1`}}), true)
			granting.MayRead = tc.mayRead
			c := granting.Decide(t.Context(), a).Conditions()[0]
			if text := textOf(t, c); c.Type != tc.wantType || text != tc.wantText || c.ID != "cluster.policy.proviso.dev/p" || c.Description != "d" {
				t.Errorf("got %+v: %s", c, text)
			}
			chain := chainOf(t, &engine.Authorizer{Source: granting.Source}, granting)
			status, _ := (&virtual.Reviewer{Chain: chain, Conditional: true}).Review(t.Context(), podsOf("update"), &authorizationapi.ConditionalAuthorizationConfiguration{Mode: tc.mode})
			if folded := len(status.ConditionsChain) == 0; folded != tc.wantFolded || status.Allowed {
				t.Errorf("got review %+v", status)
			}
		})
	}
}

// TestMayReadIsAskedForThePolicy asks that every policy is shown to those who may read it.
func TestMayReadIsAskedForThePolicy(t *testing.T) {
	t.Parallel()
	specs := map[string]spec{"p": {Effect: allow, Condition: "object.a == 1"}, "n/p": {Effect: allow, Condition: "object.a == 1"}}
	granting := partOf(publish(t, specs), true)
	granting.MayRead = func(_ context.Context, _ authorizer.Attributes, key engine.Key) bool { return key == keyOf("n/p") }
	a := authorization.Request{Attributes: podsOf("update"), Mode: authorizationapi.ConditionsModeOptimized}
	got := map[string]string{}
	for _, c := range granting.Decide(t.Context(), a).Conditions() {
		got[c.ID] = c.Type
	}
	if got["cluster.policy.proviso.dev/p"] != authorization.ConditionTypeCEL || got["n.namespace.policy.proviso.dev/p"] != authorization.ConditionTypeCELBound {
		t.Errorf("got %v", got)
	}
}

// hostile are names that would be something else if they were not data.
var hostile = []string{
	`alice`, `' || true || '`, `" || true || "`, "a\nb", "a\x00b", `\`, `\"`, `"""`, `'''`, `r"`, "a/b", "*", "ü\u2028", "\U0001F600", "}}", `{"expression":"true"}`,
	strings.Repeat("x", 2000), "not\xffutf-8",
}

// routeConditions read what is known, and what is not, in different ways.
var routeConditions = []string{
	`object.owner == request.userInfo.username`,
	`object.owner in request.userInfo.groups || object.a == 1`,
	`request.userInfo.username == "alice" ? object.a == 1 : object.owner.contains(request.userInfo.username)`,
	`variables.who == object.owner && operation == "UPDATE"`,
	`has(object.owner) && !(object.owner == request.userInfo.username)`,
	`object.owner == request.userInfo.extra["k"][0] || oldObject.owner == request.name`,
	`object.missing == 1 || object.owner == request.userInfo.username`,
	`object.a / (request.userInfo.groups.size() - 2) == 1`,
}

// TestRoutesAgree asks that evaluating in process, from the residual text, and from the
// bound form, give the same, whatever users are called.
func TestRoutesAgree(t *testing.T) {
	t.Parallel()
	residuals, bounds := newEvaluators(t)
	for i, condition := range routeConditions {
		s := spec{Effect: deny, Condition: condition, Variables: []policyv1alpha1.Variable{{Name: "who", Expression: "request.userInfo.username"}}}
		restricting := partOf(publish(t, map[string]spec{"p": s}), false)
		restricting.MayRead = mayRead(true)
		for _, name := range hostile {
			t.Run(fmt.Sprintf("%d %.20q", i, name), func(t *testing.T) {
				t.Parallel()
				a := podsOf("update")
				a.User = &user.DefaultInfo{Name: name, Groups: []string{name, "g"}, Extra: map[string][]string{"k": {name}}}
				for _, owner := range []any{name, "other", 1.5, nil} {
					for _, count := range []any{int64(1), "1", nil} {
						object := map[string]any{"owner": owner, "a": count}
						data := conditionsData{attributes: a, operation: "UPDATE", object: object, before: object}
						agree(t, restricting, residuals, bounds, data)
					}
				}
			})
		}
	}
}

func newEvaluators(tb testing.TB) (*cel.Compiler, *bound.Compiler) {
	tb.Helper()
	residuals, err := cel.NewCompiler()
	if err != nil {
		tb.Fatal(err)
	}
	bounds, err := bound.NewCompiler()
	if err != nil {
		tb.Fatal(err)
	}
	return residuals, bounds
}

func agree(t *testing.T, restricting *engine.Authorizer, residuals *cel.Compiler, bounds *bound.Compiler, data conditionsData) {
	t.Helper()
	record, ok := data.attributes.(authorizer.AttributesRecord)
	if !ok {
		t.Fatalf("got %T", data.attributes)
	}
	for _, mode := range []authorization.Mode{authorizationapi.ConditionsModeHumanReadable, authorizationapi.ConditionsModeOptimized} {
		for _, c := range restricting.Decide(t.Context(), authorization.Request{Attributes: record, Mode: mode}).Conditions() {
			here := c.EvaluateFunc(t.Context(), data)
			text, err := c.TextFunc()
			if err != nil {
				continue // it cannot be serialised: the review fails closed
			}
			evaluator := celeval.Evaluator{Compiler: residuals, Bound: bounds, Values: data.values()}
			there := evaluator.EvaluateCondition(t.Context(), authorization.Condition{ID: c.ID, Effect: c.Effect, Type: c.Type, Text: text})
			if here.IsTrue() != there.IsTrue() || here.IsFalse() != there.IsFalse() {
				t.Errorf("%v: in process %+v, from %s %+v", data.object, here, text, there)
			}
		}
	}
}

// TestHostileNames asks that a name decides for the one who has it, and for nobody else.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	for i, name := range hostile {
		t.Run(fmt.Sprintf("%.20q", name), func(t *testing.T) {
			t.Parallel()
			source := publish(t, map[string]spec{"p": {Effect: allow, Subjects: []rbacv1.Subject{{Kind: "User", Name: name}}}})
			for j, other := range hostile {
				a := podsOf("get")
				a.User = &user.DefaultInfo{Name: other}
				want := map[bool]string{true: "NoOpinion, Allow", false: "NoOpinion, NoOpinion"}[i == j]
				if got := decided(t, source, a); got != want {
					t.Errorf("%.20q: got %s, want %s", other, got, want)
				}
			}
		})
	}
}

// TestOperations asks that what a verb fixes is known, and is not where a POST may be a
// connection or an update become a create.
func TestOperations(t *testing.T) {
	t.Parallel()
	const condition = `(operation == "CREATE" && oldObject == null) || (operation == "DELETE" && object == null)`
	for _, tc := range []struct {
		verb, subresource string
		known             bool
	}{
		{"create", "", true},
		{"create", "exec", false},
		{"delete", "", true},
		{"delete", "exec", false},
		{"deletecollection", "", true},
		{"update", "", false},
		{"patch", "", false},
		{"get", "", false},
	} {
		t.Run(tc.verb+" "+tc.subresource, func(t *testing.T) {
			t.Parallel()
			for _, verb := range []string{tc.verb, "*"} {
				rules := []rule{{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{"pods", "pods/exec"}}}
				a := podsOf(tc.verb)
				a.Subresource = tc.subresource
				d := partOf(publish(t, map[string]spec{"p": {Effect: allow, Rules: rules, Condition: condition}}), true).Decide(t.Context(), a)
				if d.IsAllow() != tc.known || (!tc.known && len(d.Conditions()) != 1) {
					t.Errorf("by rules for %s: got %s", verb, show(t, d))
				}
			}
		})
	}
}

// unconvertible is an object of which one field has no value in JSON that CEL could have.
type unconvertible struct {
	metav1.TypeMeta `json:",inline"`

	Name  string `json:"name"`
	Count uint64 `json:"count"`
}

func (u *unconvertible) DeepCopyObject() runtime.Object { return u }

type unconvertibleData struct {
	conditionsData
}

func (unconvertibleData) GetObject() runtime.Object { return &unconvertible{Name: "n", Count: 1 << 63} }

// TestUnconvertibleObjects asks that what cannot be read is an error, whatever the condition
// makes of its absence.
func TestUnconvertibleObjects(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		condition string
		wantError bool
	}{
		{`object.name == "n"`, false},
		{`object.count == 1`, true},
		{`!has(object.count)`, true},
		{`object.name == "n" || object.count == 1`, false},
		{`object.count == 1 || object.name == "n"`, true},
		{`object.all(k, k == "none")`, true},
		{`size(object) == 0`, true},
	} {
		t.Run(tc.condition, func(t *testing.T) {
			t.Parallel()
			a := podsOf("update")
			granting := partOf(publish(t, map[string]spec{"p": {Effect: allow, Condition: tc.condition}}), true)
			data := unconvertibleData{conditionsData{attributes: a, operation: "UPDATE"}}
			got := granting.Decide(t.Context(), a).Conditions()[0].EvaluateFunc(t.Context(), data)
			if got.IsError() != tc.wantError || got.IsTrue() == tc.wantError {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestPathOfResourceRequests asks that a request, which has a URL, is decided as its review,
// which has none, whether the path is read by itself or with the whole request.
func TestPathOfResourceRequests(t *testing.T) {
	t.Parallel()
	for _, condition := range []string{`request.path == ""`, `!request.path.startsWith("/")`, `dyn(request)["path"] == ""`} {
		t.Run(condition, func(t *testing.T) {
			t.Parallel()
			source := publish(t, map[string]spec{"p": {Effect: allow, Condition: condition}})
			review, request := podsOf("get"), podsOf("get")
			request.Path = "/api/v1/namespaces/n/pods/p"
			for name, a := range map[string]authorizer.AttributesRecord{"review": review, "request": request} {
				if got := decided(t, source, a); got != "NoOpinion, Allow" {
					t.Errorf("%s: got %s, want that it is allowed", name, got)
				}
			}
		})
	}
	rules := []rule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}}
	source := publish(t, map[string]spec{"p": {Effect: allow, Condition: `request.path == "/metrics"`, Rules: rules}})
	path := authorizer.AttributesRecord{User: podsOf("get").User, Verb: "get", Path: "/metrics"}
	if got := decided(t, source, path); got != "NoOpinion, Allow" {
		t.Errorf("a path: got %s, want that it is allowed", got)
	}
}
