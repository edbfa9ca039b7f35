/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard_test

import (
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// TestOrdinaryConditionsCompileWithinTheTypeWork compiles policies of many terms.
func TestOrdinaryConditionsCompileWithinTheTypeWork(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	for _, tc := range []struct{ name, expression string }{
		{name: "300 comparisons of fields", expression: strings.Repeat(`object.spec.x == "a" || `, 300) + "false"},
		{name: "80 labels", expression: strings.Repeat(`object.metadata.labels["team"] == "a" || `, 80) + "false"},
		{name: "a list of 2000 names", expression: `object.metadata.name in [` + strings.Repeat(`"n", `, 1999) + `"n"]`},
		{name: "30 macros over what a function finds", expression: strings.Repeat(`object.list.distinct().all(e, e == "a" && e != "b") && `, 30) + "true"},
		{name: "maps of lists", expression: strings.Repeat(`{"a": [{"b": [{"c": ["d"]}]}]}["a"][0]["b"][0]["c"][0] == "d" && `, 10) + "true"},
		{name: "100 macros", expression: strings.Repeat(`object.list.all(e, e.x == "a") && `, 100) + "true"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if _, err := compiler.Compile(tc.expression); err != nil {
				t.Errorf("got %v, want no error", err)
			}
		})
	}
}

// TestCompileCost compares what compiling costs: it grows with the text and with the generic calls, and
// is the same for a program that is kept and for an expression that does not compile.
func TestCompileCost(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	cost := func(text string) uint64 {
		_, cost, _ := compiler.CompileWithCost(text)
		return cost
	}
	plain, generic := strings.Repeat("1<2||", 100)+"true", strings.Repeat("1==2||", 100)+"true"
	for _, text := range []string{"true", plain, generic, "true +", generic + " == 1"} {
		if first, again := cost(text), cost(text); first != again || first < 1000+32*uint64(len(text)) {
			t.Errorf("%.20s: got the costs %d and %d, want twice the same, at least 32 for a byte", text, first, again)
		}
	}
	if cost(plain) != 1000+32*uint64(len(plain)) {
		t.Errorf("got the cost %d for calls that are not generic, want the cost of the text", cost(plain))
	}
	if got, least := cost(generic), cost(plain)+100*100; got < least {
		t.Errorf("got the cost %d for 100 comparisons, want at least %d", got, least)
	}
	pattern := `object.s.matches("(?i)[!-\uD7FF]")`
	if got, least := cost(pattern), 1000+32*uint64(len(pattern))+20_000; got < least {
		t.Errorf("got the cost %d for a pattern that takes milliseconds, want at least %d", got, least)
	}
	// A map of maps seven deep, whose types double, has 256 parts.
	large := "[1]" + strings.Repeat(".map(a, {a: a})", 7) + ".all(z, [" + strings.Repeat("z,", 50) + "z] == [])"
	if got, least := cost(large), cost(strings.Repeat(" ", len(large)-4)+"true")+50*255; got < least {
		t.Errorf("got the cost %d for 50 values of a large type, want at least %d", got, least)
	}
}

// TestTypesAreBounded compares the bound of the types in an expression with the types that the checker finds.
func TestTypesAreBounded(t *testing.T) {
	t.Parallel()
	environment, err := cel.NewPolicyEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	e := environment.Engine()
	for _, text := range []string{
		`object.a.b[0].c == "x" && has(object.a.b)`,
		`[[1], [2]].map(x, [x]).map(y, {"a": y})`,
		`[1].map(x, {x: [x]}).filter(m, m[1] == [1]).map(m, m.map(k, {k: m[k]}))`,
		`{"a": [1]}.transformMap(k, v, [[v]]).transformList(k, v, {k: v})`,
		`{"a": [1]}.transformMapEntry(k, v, {k: {k: v}})`,
		`[[[1]], []].flatten().map(x, [x, x])`,
		`[{1: {2: [3]}}, {}][0][1][2] == [3]`,
		`[[1], []].distinct().map(x, [[x]])`,
		`object.list.distinct().map(x, {"a": x})`,
		`object.list.sort().map(x, [x])`,
		`[3, 1].sortBy(x, -x).map(x, [[x]])`,
		`lists.range(3).map(x, [x]).reverse().slice(0, 1)`,
		`[?optional.of([1]), ?optional.none()] == [[1]]`,
		`{?"a": optional.of([[1]])}.map(k, [k])`,
		`optional.of([1]).optMap(x, [x, [1]]).optFlatMap(x, optional.of([x])).or(optional.none()).orValue([])`,
		`optional.ofNonZeroValue({"a": [1]}).a.value().map(x, [x]) == [] || object.?a.?b.orValue([]).map(x, [x]) == []`,
		`object.?a[?0].?b.optMap(x, {"k": [x]}).value()`,
		`optional.of({"a": [[1]]}).?a.orValue([[2]]).map(x, optional.of(x))`,
		`optional.of([[1]])[?0].value() + [[1]][0]`,
		`request.userInfo.extra.map(k, {k: request.userInfo.extra[k]}).map(m, [m])`,
		`request.userInfo.groups.map(g, g.split(",")).map(l, {l[0]: l})`,
		`request.fieldSelector.requirements.map(r, r.values.map(v, {r.key: [v]}))`,
		`namespaceObject.metadata.labels.map(k, {k: [namespaceObject.metadata.labels[k]]})`,
		`type([[1]]) == type([[2]]) && type(type([1])) == type(type(1))`,
		`(dryRun ? [[1]] : [[2]]).map(x, dyn(x)).map(x, [[x]])`,
		`(dryRun ? dyn([1]) : [{1: 2}]).map(x, [x])`,
		`[[]].map(x, [x]) == [[[]]] && [{}, {"a": [1]}].map(m, [m]) == []`,
		`"a b".findAll("[a-z]").map(x, {x: x.find("a")}) == []`,
		`sets.contains([[1]], [[1]]) && [[1]] == [[1]] && [1] in [[1]]`,
		`[1, 2].map(x, x + 1).map(x, [x] + [x]) + [[3]]`,
		`[authorizer.group("").resource("pods").check("get")].map(d, {"a": [d]})`,
		`[duration("1s"), duration("2s")].map(d, {string(d): [timestamp("2000-01-01T00:00:00Z") + d]})`,
		`[{"requestResource": [{1: [[2]]}]}].all(authorizer, [authorizer.requestResource].all(x, [[[[[[x]]]]]] == []))`,
		`.sets.contains([[1]], [[1]]) && .lists.range(3).map(x, [x]) == [] && .type([[1]]) == .type([[2]])`,
		`.optional.of([[[[1]]]]).or(.optional.of([])).optMap(x, [[x]]) == .optional.none() && .dyn([1]) == [1]`,
		`[[1]].all(i, v, v.exists(x, [x] == v) && [v] == [[i]])`,
	} {
		parsed, issues := e.Env.Parse(text)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		parts, depth := e.Guard.LargestType(parsed.NativeRep().Expr())
		checked, err := engine.CheckTypes(e.Env, parsed)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for _, found := range checked.NativeRep().TypeMap() {
			if gotParts, gotDepth := sizeOf(found); gotParts > parts || gotDepth > depth {
				t.Errorf("%s: got the bounds %d and %d, but there is the type %s", text, parts, depth, found)
			}
		}
		if parts > 32 {
			t.Errorf("%s: got the bound %d, which is far too high", text, parts)
		}
	}
}

// sizeOf returns the parts and the depth of a type.
func sizeOf(t *types.Type) (parts, depth int) {
	for _, p := range t.Parameters() {
		n, d := sizeOf(p)
		parts, depth = parts+n, max(depth, d)
	}
	return parts + 1, depth + 1
}
