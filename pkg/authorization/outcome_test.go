/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization_test

import (
	"context"
	"testing"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// TestBecause has conditions say why they are what they are.
func TestBecause(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		effect  authorization.Effect
		outcome authorization.Outcome
		want    string
	}{
		{"an Allow that does not hold", authorization.EffectAllow, authorization.False().Because("the field x"), `condition=example.com/a reason=NotMet: about: the field x`},
		{"an Allow that does not hold, without reason", authorization.EffectAllow, authorization.False(), `condition=example.com/a reason=NotMet: about`},
		{"an Allow that holds", authorization.EffectAllow, authorization.True().Because("the field x"), `condition=example.com/a reason=Allowed: about: the field x`},
		{"a Deny that does not hold", authorization.EffectDeny, authorization.False().Because("the field x"), ""},
		{"a Deny that holds", authorization.EffectDeny, authorization.True().Because("the field x"), `condition=example.com/a reason=Denied: about: the field x`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			decision := authorization.Conditions(authorization.Condition{ID: "example.com/a", Effect: tc.effect, Type: "example.com/t", Description: "about"})
			got := decision.Evaluate(t.Context(), authorization.ConditionEvaluatorFunc(func(context.Context, authorization.Condition) authorization.Outcome { return tc.outcome }))
			if got.Reason() != tc.want {
				t.Errorf("got  %s\nwant %s", got.Reason(), tc.want)
			}
		})
	}
}
