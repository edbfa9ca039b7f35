/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
)

// outage answers secondary checks by their verb; it cannot answer some.
func outage(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	switch a.GetVerb() {
	case "yes":
		return authorizer.DecisionAllow, "", nil
	case "no":
		return authorizer.DecisionNoOpinion, "", nil
	}
	return authorizer.DecisionDeny, "", errors.New("out of order")
}

// withChecks writes the checks of a condition out.
func withChecks(condition string) string {
	for _, verb := range []string{"fails", "yes", "no"} {
		condition = regexp.MustCompile(`\b`+verb+`\b`).ReplaceAllString(condition, `authorizer.path("/x").check("`+verb+`").allowed()`)
	}
	return condition
}

// failingChecks are conditions with operands that decide without the check that fails, known
// ones and unknown ones, before the check and after it.
var failingChecks = []string{
	`fails || request.verb == "update"`,
	`request.verb == "update" || fails`,
	`fails && request.verb == "get"`,
	`!fails`,
	`!fails || request.verb == "update"`,
	`(fails || request.verb == "update") && object.a == 1`,
	`(fails && request.verb == "get") || object.a == 1`,
	`(fails && request.verb == "get") || yes`,
	`(fails || request.verb == "update") && yes`,
	`(fails || request.verb == "update") && no`,
	`fails || object.a == 1`,
	`object.a == 1 || fails`,
	`fails || object.a == 2`,
	`fails && object.a == 2`,
	`fails ? object.a == 1 : object.a == 1`,
	`[fails, yes].exists(x, x) && object.a == 1`,
	`[1, 2].exists(x, fails || x == 2) && object.a == 1`,
	`fails || fails || request.verb == "update"`,
}

// TestFailingChecksAgree asks for the same answer of every route during an outage of what
// answers secondary checks, whichever checks a route makes: at once, in process, from the
// residual text and from the bound form.
func TestFailingChecksAgree(t *testing.T) {
	t.Parallel()
	residuals, bounds := newEvaluators(t)
	checks := authorizer.AuthorizerFunc(outage)
	for _, name := range failingChecks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			condition := withChecks(name)
			granting := partOf(publish(t, map[string]spec{"p": {Effect: allow, Condition: condition}}), true)
			granting.Checks, granting.MayRead = checks, mayRead(true)
			a := podsOf("update")
			data := conditionsData{attributes: a, operation: "UPDATE", object: map[string]any{"a": int64(1)}}
			evaluate := func(c authorization.Condition) authorization.Outcome {
				evaluator := celeval.Evaluator{Compiler: residuals, Bound: bounds, Values: data.values(), Secondary: &celeval.SecondaryChecks{Authorizer: checks, User: data.GetUserInfo(), Resource: data}}
				return evaluator.EvaluateCondition(t.Context(), c)
			}
			whole, err := json.Marshal(map[string]any{"expression": condition, "request": map[string]any{"verb": "update"}})
			if err != nil {
				t.Fatal(err)
			}
			want := evaluate(authorization.Condition{ID: "example.com/c", Effect: authorization.EffectAllow, Type: authorization.ConditionTypeCELBound, Text: string(whole)})
			for _, mode := range []authorization.Mode{authorizationapi.ConditionsModeHumanReadable, authorizationapi.ConditionsModeOptimized} {
				decision := granting.Decide(t.Context(), authorization.Request{Attributes: a, Mode: mode})
				if decision.IsUnconditional() {
					if decision.IsAllow() != want.IsTrue() {
						t.Errorf("%s: decided %+v, at once %+v", mode, decision, want)
					}
					continue
				}
				c := decision.Conditions()[0]
				here := c.EvaluateFunc(t.Context(), data)
				c.Text, c.TextFunc, c.EvaluateFunc = textOf(t, c), nil, nil
				there := evaluate(c)
				for route, got := range map[string]authorization.Outcome{"in process": here, "from " + c.Text: there} {
					if got.IsTrue() != want.IsTrue() || got.IsFalse() != want.IsFalse() {
						t.Errorf("%s: %+v, at once %+v", route, got, want)
					}
				}
			}
		})
	}
}
