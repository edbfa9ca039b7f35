/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explanation_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/explanation"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// TestWantedSelectors looks for the requirements of selectors in expressions. They are bounded, and depend on nothing but constants and
// the request.
func TestWantedSelectors(t *testing.T) {
	t.Parallel()
	exists := func(body string) string { return "request.labelSelector.requirements.exists(r, " + body + ")" }
	in := func(key string, values ...string) explanation.Wanted {
		return explanation.Wanted{Key: key, Operator: "In", Values: values}
	}
	var many, long []string
	for i := range 10 {
		many, long = append(many, exists(fmt.Sprintf(`r.key == "k%d" && r.values == ["v"]`, i))), append(long, fmt.Sprintf("%q", fmt.Sprint("v", i)))
	}
	for _, tc := range []struct {
		name, text string
		limit      uint64
		want       [][]explanation.Wanted
	}{
		{name: "no macro", text: `request.name == "a"`},
		{name: "a macro over something else", text: `request.userInfo.groups.exists(r, r == "a")`},
		{name: "a constant", text: exists(`r.key == "a" && r.values == ["b"]`), want: [][]explanation.Wanted{{in("a", "b")}}},
		{name: "a value of the request", text: exists(`r.key == "a" && r.values == [request.name]`), limit: 100, want: [][]explanation.Wanted{{in("a", "n")}}},
		{name: "a value of the request, over the limit", text: exists(`r.key == "a" && r.values == [request.name]`)},
		{name: "a value of the object", text: exists(`r.key == "a" && r.values == [object.b]`), limit: 100},
		{name: "a check", text: exists(`r.key == "a" && r.values == [string(authorizer.group("").resource("pods").check("list").allowed())]`), limit: 100},
		{name: "an error", text: exists(`r.key == "a" && r.values == [request.userInfo.extra["none"][0]]`), limit: 100},
		{name: "no key", text: exists(`r.values == ["b"]`)},
		{name: "what must not be", text: exists(`r.key == "a" && r.values != ["b"]`)},
		{name: "a variable of an inner macro", text: exists(`r.key == "a" && r.values.exists(v, ["b"].exists(w, v == w))`), limit: 100},
		{name: "many macros", text: strings.Join(many, " || "), want: [][]explanation.Wanted{{in("k0", "v")}, {in("k1", "v")}, {in("k2", "v")}, {in("k3", "v")}}},
		{name: "many values", text: exists(`r.key == "a" && r.values.all(v, v in [` + strings.Join(long, ", ") + `])`), limit: 1000, want: [][]explanation.Wanted{{in("a", "v0"), in("a", "v1"), in("a", "v2"), in("a", "v3")}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			expression := compilers.Compiled(t, compilers.Policies(t), tc.text)
			limit := tc.limit
			if limit == 0 {
				limit = 1
			}
			request := map[string]any{"name": "n", "userInfo": map[string]any{"groups": []any{}, "extra": map[string]any{}}}
			got, cost := explanation.WantedSelectors(t.Context(), expression, cel.Values{cel.Request: cel.Known(request)}, limit)
			if diff := cmp.Diff(tc.want, got); diff != "" || tc.limit > 1 && cost > tc.limit {
				t.Errorf("cost %d, -want +got:\n%s", cost, diff)
			}
		})
	}
}

// TestWantedSelectorsAreBounded looks for selectors in a condition with many comparisons: only the first of each part of a requirement are
// looked at.
func TestWantedSelectorsAreBounded(t *testing.T) {
	t.Parallel()
	cost := func(comparisons int) uint64 {
		var parts []string
		for _, field := range []string{"key", "operator", "values[0]"} {
			var alternatives []string
			for i := range comparisons {
				alternatives = append(alternatives, fmt.Sprintf(`r.%s == request.name + "%d"`, field, i))
			}
			parts = append(parts, "("+strings.Join(alternatives, " || ")+")")
		}
		expression := compilers.Compiled(t, compilers.Policies(t), "request.labelSelector.requirements.exists(r, "+strings.Join(parts, " && ")+")")
		wanted, cost := explanation.WantedSelectors(t.Context(), expression, cel.Values{cel.Request: cel.Known(map[string]any{"name": "n"})}, cel.CostLimit)
		if len(wanted) != 1 || len(wanted[0]) == 0 || len(wanted[0]) > 4 {
			t.Errorf("got %v for %d comparisons, want up to four requirements", wanted, comparisons)
		}
		return cost
	}
	if few, many := cost(8), cost(24); few == 0 || many != few {
		t.Errorf("got the cost %d for 24 comparisons and %d for 8, want the same", many, few)
	}
}
