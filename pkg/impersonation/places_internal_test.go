/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation

import (
	"errors"
	"fmt"
	"testing"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

// TestSetsOneAfterTheOther asks that several sets that can allow remain of an impersonation as what
// they decide together, and that what cannot be said in conditions that deny is refused.
func TestSetsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	compiler, err := cel.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	partial, err := partial.NewConditionCompiler(compiler)
	if err != nil {
		t.Fatal(err)
	}
	one := func(effect authorization.Effect, field string) authorization.Condition {
		return authorization.Condition{ID: "example.com/" + field, Effect: effect, Type: authorization.ConditionTypeCEL, Text: "object." + field + " == true"}
	}
	const allow, deny, hold = authorization.EffectAllow, authorization.EffectDeny, authorization.EffectNoOpinion
	set := func(name string, mode authorization.FailureMode, conditions ...authorization.Condition) authorization.Set {
		return authorization.Set{AuthorizerName: name, FailureMode: mode, Decision: authorization.Conditions(conditions...)}
	}
	always := authorization.Set{AuthorizerName: "always", Decision: authorization.Allow("", nil)}
	for _, tc := range []struct {
		name    string
		sets    []authorization.Set
		wantErr error
	}{
		{name: "two that allow", sets: []authorization.Set{set("x", "", one(allow, "a")), set("y", authorization.FailureModeNoOpinion, one(allow, "b"))}},
		{name: "held back by the same", sets: []authorization.Set{set("x", "", one(hold, "c"), one(allow, "a")), set("y", authorization.FailureModeNoOpinion, one(hold, "c"), one(allow, "b"))}},
		{name: "after one that denies", sets: []authorization.Set{set("w", "", one(deny, "d")), set("x", "", one(allow, "a")), set("y", authorization.FailureModeNoOpinion, one(allow, "b"))}},
		{name: "before Allow", sets: []authorization.Set{set("w", "", one(deny, "d")), set("x", "", one(allow, "a")), set("y", authorization.FailureModeNoOpinion, one(allow, "b")), always}},
		{name: "the second held back alone", sets: []authorization.Set{set("x", "", one(allow, "a")), set("y", "", one(hold, "c"), one(allow, "b"))}, wantErr: errShape},
		{name: "the first held back alone", sets: []authorization.Set{set("x", "", one(hold, "c"), one(allow, "a")), set("y", "", one(allow, "b"))}, wantErr: errShape},
		{name: "the second denies", sets: []authorization.Set{set("x", "", one(allow, "a")), set("y", "", one(deny, "d"), one(allow, "b"))}, wantErr: errShape},
		{name: "a Deny that a failure lifts", sets: []authorization.Set{set("x", authorization.FailureModeNoOpinion, one(deny, "d"), one(allow, "a"))}, wantErr: errFailure},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			decision := authorization.Chained(tc.sets...)
			remains, err := (&Conditional{Compiler: compiler, Partial: partial}).denyOnly(decision)
			if !errors.Is(err, tc.wantErr) || tc.wantErr != nil {
				if !errors.Is(err, tc.wantErr) {
					t.Errorf("got %v, want %v", err, tc.wantErr)
				}
				return
			}
			for i := range 16 {
				object := map[string]any{"a": i&1 > 0, "b": i&2 > 0, "c": i&4 > 0, "d": i&8 > 0}
				values := cel.Values{cel.Object: object}
				want := decision.Evaluate(t.Context(), &celeval.Evaluator{Compiler: compiler, Values: values}).IsAllow()
				denied := authorization.Chained(named(remains.all)...).Evaluate(t.Context(), &celeval.Evaluator{Compiler: compiler, Values: values}).IsDeny()
				if denied == want {
					t.Errorf("%s: the sets allow %t, what remains denies %t", fmt.Sprint(object), want, denied)
				}
			}
		})
	}
}
