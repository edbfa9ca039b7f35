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
)

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

// TestResultsAreThoseOfCelGo calls every function with values of every kind, of which most are of a wrong type or ugly. The
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
					// cel-go panics. What cannot be hashed is in no map.
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
