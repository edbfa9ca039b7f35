/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestReasons looks at why nothing is allowed, where conditions do not hold whatever the data
// is: the policies that might have allowed the request are named, but not too many.
func TestReasons(t *testing.T) {
	t.Parallel()
	many := map[string]spec{}
	for i := range 20 {
		many[fmt.Sprintf("n/p%02d", i)] = spec{Effect: allow, Condition: `request.name == "other"`}
	}
	for _, tc := range []struct {
		name     string
		policies map[string]spec
		want     string
	}{
		{"nothing is about the request", map[string]spec{"other/a": {Effect: allow, Condition: `request.name == "other"`}}, ""},
		{"it is false", map[string]spec{"a": {Effect: allow, Condition: `request.name == "other"`}}, `no Allow policy holds: ClusterAuthorizationPolicy "a"`},
		{"it fails", map[string]spec{"a": {Effect: allow, Condition: `request.userInfo.extra["b"][0] == ""`}}, `no Allow policy holds: ClusterAuthorizationPolicy "a"`},
		{"described", map[string]spec{
			"n/a": {Effect: allow, Condition: `request.name == "other"`, Description: "others may"},
			"n/b": {Effect: allow, Condition: `object.a == 1 && request.name == "other"`},
			"n/c": {Effect: noOpinion, Condition: `request.name == "other"`},
		}, `no Allow policy holds: AuthorizationPolicy "n/a" (others may); AuthorizationPolicy "n/b"`},
		{"only others", map[string]spec{"a": {Effect: noOpinion, Condition: `request.name == "other"`}}, ""},
		{"many", many, "no Allow policy holds: " + strings.Repeat("AuthorizationPolicy; ", 8) + "…"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := partOf(publish(t, tc.policies), true).Decide(t.Context(), podsOf("create"))
			got := d.Reason()
			if tc.name == "many" {
				for i := range many {
					got = strings.ReplaceAll(got, fmt.Sprintf(" %q", i), "")
				}
			}
			if !d.IsNoOpinion() || got != tc.want {
				t.Errorf("got %s, %q, want %q", show(t, d), got, tc.want)
			}
		})
	}
}
