/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// typedArguments are expressions of types that are small, deep, wide and dynamic, and otherArguments those with which they are combined. None
// has a type that is found elsewhere, such as that of an empty list: the work for these is counted in another way.
var (
	typedArguments = []string{`"a"`, `1`, `object`, `["a"]`, `[[[1]]]`, `{[1]: {"a": [2]}}`, `optional.of([[1]])`, `[optional.of(1)]`, `type([[1]])`, `[request.userInfo.extra]`, `[{"a": 1}].map(m, {m: [m]})`, `[object]`}
	otherArguments = []string{`"a"`, `1`, `object`, `[[[1]]]`, `optional.of([[1]])`, `[request.userInfo.extra]`}
)

// typedCalls returns the calls of every function with every combination of one or two typed arguments.
func typedCalls(e *engine.Engine) (texts []string) {
	seen := map[string]bool{}
	for name, function := range e.Env.Functions() {
		for _, overload := range function.OverloadDecls() {
			n := len(overload.ArgTypes())
			for _, a := range typedArguments {
				for _, b := range otherArguments {
					var text string
					switch {
					case n == 0 || n > 2 || strings.HasPrefix(name, "@"):
						continue
					case strings.Contains(name, "_"):
						text = strings.Replace(strings.Replace(name, "_", "("+a+")", 1), "_", b, 1)
						if n == 1 {
							text = strings.Replace(name, "_", "("+a+")", 1)
						}
					case n == 1 && overload.IsMemberFunction():
						text = fmt.Sprintf("(%s).%s()", a, name)
					case n == 1:
						text = fmt.Sprintf("%s(%s)", name, a)
					case overload.IsMemberFunction():
						text = fmt.Sprintf("(%s).%s(%s)", a, name, b)
					default:
						text = fmt.Sprintf("%s(%s, %s)", name, a, b)
					}
					if !seen[text] {
						seen[text] = true
						texts = append(texts, text)
					}
				}
			}
		}
	}
	slices.Sort(texts)
	return texts
}

// TestTypesOfEveryFunctionAreBounded calls every function with arguments of many types, and compares the bound of the types with
// those that the checker finds. A bound that is too low would let types double without being counted.
func TestTypesOfEveryFunctionAreBounded(t *testing.T) {
	t.Parallel()
	environment, err := cel.NewPolicyEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	e := environment.Engine()
	checked := 0
	for _, text := range typedCalls(e) {
		parsed, issues := e.Env.Parse("[[" + text + "]]")
		if issues.Err() != nil {
			continue
		}
		result, issues := e.Env.Check(parsed)
		if len(issues.Errors()) > 0 {
			continue
		}
		checked++
		parts, depth := e.Guard.LargestType(parsed.NativeRep().Expr())
		for _, found := range result.NativeRep().TypeMap() {
			if gotParts, gotDepth := sizeOf(found); gotParts > parts || gotDepth > depth {
				t.Errorf("%s: got the bounds %d and %d, but there is the type %s", text, parts, depth, found)
			}
		}
		if parts > 40 {
			t.Errorf("%s: got the bound %d, which is far too high", text, parts)
		}
	}
	if checked < 500 {
		t.Errorf("got %d calls, too few to be of all functions", checked)
	}
}

// TestEveryFunctionOfListsIsGuarded lists the functions that get no guard although they take lists, maps or values of any type: they
// must read no more of them than their size. A new function of the library has to be looked at.
func TestEveryFunctionOfListsIsGuarded(t *testing.T) {
	t.Parallel()
	tw := newTwins(t)
	var unguarded []string
	for name, function := range tw.engine.Env.Functions() {
		takesValues := false
		for _, overload := range function.OverloadDecls() {
			takesValues = takesValues || slices.ContainsFunc(overload.ArgTypes(), func(t *types.Type) bool {
				return t.Kind() == types.ListKind || t.Kind() == types.MapKind || t.Kind() == types.DynKind || t.Kind() == types.TypeParamKind
			})
		}
		if takesValues && !tw.engine.Guard.Walks(name) {
			unguarded = append(unguarded, name)
		}
	}
	slices.Sort(unguarded)
	want := []string{"!_", "@not_strictly_false", "_&&_", "_+_", "_?._", "_?_:_", "_[?_]", "_[_]", "_||_", "cel.@mapInsert", "dyn", "first", "last", "optional.of", "optional.ofNonZeroValue", "or", "orValue", "size", "type", "value"}
	for _, name := range unguarded {
		if !slices.Contains(want, name) {
			t.Errorf("%s takes values of any size, and is not guarded", name)
		}
	}
	if !slices.Contains(unguarded, "size") || len(unguarded) < 8 {
		t.Errorf("got %q, too few to be all", unguarded)
	}
}

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

// twins evaluates expressions with the guard, and with cel-go and Kubernetes' estimator of costs alone.
type twins struct {
	engine *engine.Engine
}

func newTwins(t *testing.T) twins {
	t.Helper()
	environment, err := cel.NewConditionEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	return twins{environment.Engine()}
}

type outcome struct {
	value ref.Val
	cost  uint64
	err   error
}

// compile returns the two evaluations of an expression.
func (tw twins) compile(t *testing.T, text string) (guarded, plain func(cel.Values) outcome) {
	t.Helper()
	checked, err := engine.Check(tw.engine.Env, tw.engine.Guard, text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	native := checked.NativeRep()
	planned, err := tw.engine.Plan(native, []ast.Expr{native.Expr()})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	program, err := tw.engine.Env.Program(checked, celgo.CostTracking(&library.CostEstimator{}))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	guarded = func(values cel.Values) outcome {
		value, cost, err := tw.engine.Eval(t.Context(), planned[0], values, cel.CostLimit)
		return outcome{value, cost, err}
	}
	plain = func(values cel.Values) outcome {
		value, details, err := program.Eval(values)
		result := outcome{value: value, err: err}
		if details != nil && details.ActualCost() != nil {
			result.cost = *details.ActualCost()
		}
		return result
	}
	return guarded, plain
}

// arguments returns the values of expressions.
func (tw twins) arguments(t *testing.T, texts ...string) (values []ref.Val) {
	t.Helper()
	for _, text := range texts {
		_, plain := tw.compile(t, text)
		result := plain(cel.Values{})
		if result.err != nil {
			t.Fatalf("%s: %v", text, result.err)
		}
		values = append(values, result.value)
	}
	return values
}

// same reports whether two values are the same: equal, or both no number.
func same(a, b ref.Val) bool {
	return a.Type() == b.Type() && (types.Equal(a, b) == types.True || fmt.Sprint(a.Value()) == fmt.Sprint(b.Value()))
}

// dearer are functions that cost more than Kubernetes counts, also for small values: they walk through values of any type, parse
// a pattern or a format at each call, or find a time zone.
var dearer = regexp.MustCompile(`includes|ndexOf| in |distinct|findAll|find|matches|==|!=|join|max|min|sum|flatten|sets\.|sort|isSorted|getQuery|format|\.get[A-Z][a-zA-Z]*\(dyn`)

// TestResultsAreThoseOfCelGo calls every function with values of every kind. Most have a wrong type or are ugly. The
// guard must not change a result, and nothing may cost less than Kubernetes counts.
func TestResultsAreThoseOfCelGo(t *testing.T) {
	t.Parallel()
	tw := newTwins(t)
	seconds := tw.arguments(t, `null`, `1`, `0.0 / 0.0`, `""`, `"a"`, `["b", "a"]`, `{"a": dyn(1), "b": dyn([2])}`, `optional.of("a")`)
	firsts := append(slices.Clone(seconds), types.String("\xff"), types.NewErr("an error"))
	firsts = append(firsts, tw.arguments(t, `true`, `-9223372036854775808`, `2u`, `-0.0`, `"1"`, `b"a"`, `duration("1h")`, `timestamp("2000-01-01T00:00:00Z")`, `[]`, `[dyn([1]), dyn([dyn(2), dyn([3])])]`, `[dyn(1), dyn(2.0), dyn(2u)]`,
		`[0.0 / 0.0]`, `{}`, `int`, `optional.none()`, `quantity("1Gi")`, `semver("1.2.3")`, `url("https://a/b?c=d")`, `ip("10.0.0.1")`, `cidr("10.0.0.0/8")`, `format.named("uuid").value()`)...)
	for _, call := range calls(t) {
		expression := strings.TrimSuffix(call, ".size() == 7")
		guarded, plain := tw.compile(t, expression)
		others := seconds
		if !strings.Contains(expression, "oldObject") {
			others = seconds[:1]
		}
		for _, a := range firsts {
			for _, b := range others {
				values := cel.Values{cel.Object: a, cel.OldObject: b}
				got, want := guarded(values), plain(values)
				switch {
				case strings.Contains(expression, " in ") && want.err != nil && strings.Contains(want.err.Error(), "hash of unhashable type"):
					// cel-go panics. A value that cannot be hashed is not in any map.
					if got.err != nil || !same(got.value, types.DefaultTypeAdapter.NativeToValue([]bool{false})) {
						t.Errorf("%s of %.50v and %.50v: got %v, %v, want false", expression, a.Value(), b.Value(), got.value, got.err)
					}
				case (got.err == nil) != (want.err == nil):
					t.Errorf("%s of %.50v and %.50v: got the error %v, want %v", expression, a.Value(), b.Value(), got.err, want.err)
				case got.err == nil && !same(got.value, want.value):
					t.Errorf("%s of %.50v and %.50v: got %v, want %v", expression, a.Value(), b.Value(), got.value, want.value)
				case got.err == nil && (got.cost < want.cost || got.cost > want.cost && !dearer.MatchString(expression)):
					t.Errorf("%s of %.50v and %.50v: got the cost %d, want %d", expression, a.Value(), b.Value(), got.cost, want.cost)
				}
			}
		}
	}
}

// TestLargeValuesCostWhatKubernetesCounts evaluates functions of texts and lists, with the types known and with them unknown, over large
// values. The guard replaces some calls, so that cel-go no longer knows them: the cost must not become smaller.
func TestLargeValuesCostWhatKubernetesCounts(t *testing.T) {
	t.Parallel()
	tw := newTwins(t)
	groups, extra := make([]any, 300), map[string]any{}
	for i := range groups {
		groups[i] = fmt.Sprint("group ", i)
		extra[fmt.Sprint("key ", i)] = []any{"a"}
	}
	values := cel.Values{cel.Operation: strings.Repeat("a", 8_000), cel.ImpersonatedUser: map[string]any{"groups": groups, "extra": extra}}
	for _, expression := range []string{
		`operation + operation`, `operation.contains(operation)`, `operation.contains("b")`, `operation.startsWith(operation)`, `operation.endsWith(operation)`, `operation == operation`, `operation != "b"`, `operation < operation`, `operation <= "b"`,
		`operation > "b"`, `operation >= operation`, `bytes(operation)`, `string(bytes(operation))`, `bytes(operation) == bytes(operation)`, `operation.size()`, `operation.upperAscii()`, `operation.lowerAscii()`, `operation.trim()`, `operation.replace("a", "b")`,
		`operation.replace("a", "b", 3)`, `operation.split("a")`, `operation.split("a", 3)`, `operation.substring(1)`, `operation.substring(1, 9)`, `operation.charAt(3)`, `operation.indexOf("b")`, `operation.lastIndexOf("b", 9)`, `strings.quote(operation)`,
		`"%s".format([operation])`, `operation.matches("a{10}b")`, `operation.matches("")`, `operation.find("a{10}b")`, `operation.find("")`, `operation.findAll("aaaaaaaaaaaaaaaa*")`, `operation.findAll("a", 5)`, `isURL(operation)`,
		`operation in impersonatedUser.groups`, `operation in ["a", "b"]`, `operation in {"a": 1}`, `operation in impersonatedUser.extra`, `impersonatedUser.groups.join()`, `impersonatedUser.groups.join(",")`, `impersonatedUser.groups.sort()`,
		`impersonatedUser.groups.distinct()`, `impersonatedUser.groups.min()`, `impersonatedUser.groups.max()`, `impersonatedUser.groups.isSorted()`, `impersonatedUser.groups.indexOf("b")`, `impersonatedUser.groups.lastIndexOf("b")`,
		`impersonatedUser.groups.includes("b")`, `impersonatedUser.groups == impersonatedUser.groups`, `impersonatedUser.groups + impersonatedUser.groups`, `impersonatedUser.groups.reverse()`, `impersonatedUser.groups.slice(1, 250)`,
		`impersonatedUser.groups.sortBy(g, g)`, `impersonatedUser.groups.map(g, g)`, `impersonatedUser.groups.filter(g, g == "b")`, `impersonatedUser.groups.exists(g, g.startsWith("b"))`, `sets.contains(impersonatedUser.groups, ["group 299"])`,
		`sets.intersects(impersonatedUser.groups, ["b"])`, `sets.equivalent(impersonatedUser.groups, impersonatedUser.groups)`, `impersonatedUser.extra == impersonatedUser.extra`, `impersonatedUser.extra.all(k, k != "b")`,
		`impersonatedUser.extra.transformMap(k, v, v)`, `impersonatedUser.extra.transformMapEntry(k, v, {k: v})`, `[impersonatedUser.groups, [operation]].flatten()`, `lists.range(1000)`, `[operation, operation]`, `{operation: operation}`,
		`impersonatedUser.extra[?operation].hasValue()`, `format.dns1123Label().validate(operation)`, `type(operation) == string`, `operation.contains("b") || operation.matches("b")`,
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			guarded, plain := tw.compile(t, expression)
			got, want := guarded(values), plain(values)
			if got.err != nil || want.err != nil || !same(got.value, want.value) || got.cost < want.cost {
				t.Errorf("got %.50v, %v at cost %d, want %.50v, %v at cost %d or more", got.value, got.err, got.cost, want.value, want.err, want.cost)
			}
		})
	}
}
