/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package costbound_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/costbound"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/test/testutil/rows"
)

// policyOf returns a policy with one expression about a resource, such as pods or widgets.example.com.
func policyOf(resource, expression string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	name, group, _ := strings.Cut(resource, ".")
	return &admissionregistrationv1.ValidatingAdmissionPolicy{Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{Rule: admissionregistrationv1.Rule{APIGroups: []string{group}, Resources: []string{name}}},
		}}},
		Validations: []admissionregistrationv1.Validation{{Expression: expression}},
	}}
}

// admission returns the environment of ValidatingAdmissionPolicies, and the compiler of their expressions.
func admission(t *testing.T) (*celgo.Env, *partial.Compiler) {
	t.Helper()
	environment, err := cel.NewAdmissionEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	compiler, err := partial.NewAdmissionCompiler()
	if err != nil {
		t.Fatal(err)
	}
	return environment.Engine().Env, compiler
}

func boundOf(tb testing.TB, resource, expression string) costbound.Bound {
	tb.Helper()
	bound, err := costbound.Of(policyOf(resource, expression))
	if err != nil {
		tb.Fatalf("%s: %v", expression, err)
	}
	return bound
}

const (
	usual   = 256 << 10
	largest = 3 << 20
)

func TestCostBoundWork(t *testing.T) {
	t.Parallel()
	type row struct {
		Resource, Expression string
		Bytes                int
		Most                 float64
	}
	rows.Run(t, "testdata/work.yaml", func(t *testing.T, tc row) {
		bound := boundOf(t, tc.Resource, tc.Expression)
		got := float64(bound.Work(cmp.Or(tc.Bytes, usual))) / 10_000
		if got > tc.Most || got < tc.Most/10 || bound.Unbounded() != "" {
			t.Errorf("got %v ms, unbounded %q, want %v ms, or a little less", got, bound.Unbounded(), tc.Most)
		}
		if small, large := bound.Work(1<<10), bound.Work(largest); small > bound.Work(usual) || large < bound.Work(usual) {
			t.Errorf("got %d for a small object and %d for a large one: the bound does not grow", small, large)
		}
	})
}

func TestUnbounded(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		`object.a.matches(object.b)`:                             "matches",
		`lists.range(object.n).size() > 3`:                       "lists.range",
		`object.l.all(x, x > 0)`:                                 "a macro over a list or a map of any length",
		`object.l.map(x, x).size() > 0`:                          "a macro over a list or a map of any length",
		`[object.l].flatten().distinct().size() > 1`:             "a function of two values of any size",
		`[object.l].flatten().all(x, x > 0)`:                     "a macro over a list or a map of any length",
		`[object.l].first().value().distinct().size() > 1`:       "a function of two values of any size",
		`[object.l].last().orValue([]).all(x, x > 0)`:            "a macro over a list or a map of any length",
		`url(object.a).getQuery().all(k, k == "")`:               "a macro over a list or a map of any length",
		`url(object.a).getHost().indexOf(object.b) > 1`:          "a function of two values of any size",
		`[object.m].transformMapEntry(i, v, v).all(k, k == "")`:  "a macro over a list or a map of any length",
		`[1].transformMapEntry(i, v, {i: object}).all(k, k > 1)`: "",
		`sets.contains(object.l, object.m)`:                      "a function of two values of any size",
		`object.l.distinct().size() > 1`:                         "a function of two values of any size",
		`object.a.replace(object.b, object.c) == ""`:             "a function of two values of any size",
		`object.a.indexOf(object.b) > 1`:                         "a function of two values of any size",
		`object.l.join(object.a) == ""`:                          "a function of two values of any size",
		`object.a.matches("a+")`:                                 "",
		`sets.contains(object.l, ["a"])`:                         "",
		`object.l.join(",") == ""`:                               "",
		`lists.range(3).all(i, object.l[i] > 0)`:                 "",
		`object.a.contains(object.b)`:                            "", // cel-go counts the product
		`[1, 2].all(i, [object.a, object.b].all(o, o[i] > 0))`:   "",
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			bound := boundOf(t, "widgets.example.com", expression)
			if got := bound.Unbounded(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if isMost := bound.Work(1) == math.MaxUint64; isMost != (want != "") {
				t.Errorf("got the bound %d", bound.Work(1))
			}
		})
	}
}

// TestMeasuredWork compares bounds with what expressions took that fresh readers had found: the bound is as large, or there is none.
func TestMeasuredWork(t *testing.T) {
	t.Parallel()
	type row struct {
		Resource, Expression string
		// Bytes is the size of the object, and Took the milliseconds that were measured. Without both, the work has no bound.
		Bytes int
		Took  float64
	}
	const few = `(size(object.spec.containers) <= 1000 ? object.spec.containers : dyn(""))`
	four := few + ".all(x, " + few + ".all(y, " + few + ".all(z, " + few + `.all(w, has(w.name) && has(w.name) && has(w.name) && has(w.name) && has(w.name) && has(w.name)))))`
	rows.Run(t, "testdata/measured.yaml", func(t *testing.T, tc row) {
		bound := boundOf(t, cmp.Or(tc.Resource, "widgets.example.com"), strings.NewReplacer("$TWENTY", "map(x, x"+strings.Repeat(" + x", 19)+")", "$QUOTE", strings.Repeat("strings.quote(", 22)+"object.a"+strings.Repeat(")", 22),
			"$SUM", "(object.l"+strings.Repeat(" + object.l", 59)+")", "$LONG", strings.Repeat("a", 400), "$LOWER", strings.Repeat(".lowerAscii()", 20), "$ALL", four).Replace(tc.Expression))
		got := float64(bound.Work(tc.Bytes)) / 12_000
		if isBounded := bound.Unbounded() == ""; isBounded != (tc.Bytes > 0) || isBounded && got < tc.Took {
			t.Errorf("got %v ms, unbounded %q, and it took %v ms", got, bound.Unbounded(), tc.Took)
		}
	})
}

// TestWalksGrowWithTheText compares the work of finding the bound of nested expressions: twice the depth takes some three times as much, and not the square
// as in a walk that repeats the inner part at each level. It is not parallel, because it counts allocations.
func TestWalksGrowWithTheText(t *testing.T) { //nolint:paralleltest // see above
	for name, level := range map[string]string{
		"a type": `(type(%s) == type({}) ? object.b : 1)`, "a size": `(size(%s) <= 3 ? object.b : dyn("more"))`, "a list": `(size([%[1]s]) <= 3 ? [%[1]s] : dyn("more"))`,
		"a map in a macro": `[1].map(x, (type(%s) == type({}) ? object.b : x))`, "an index": `object.a[%s]`, "the type of a default value": `(type(object.?a.orValue(%s)) == type({}) ? object.b : 1)`, "a sum": `(%s + object.a)`, "a quantity": `isQuantity(string(%s))`,
	} {
		nested := func(depth int) string {
			expression := "object.a"
			for range depth {
				expression = fmt.Sprintf(level, expression)
			}
			return expression + " == 1"
		}
		work := func(depth int) float64 {
			policy := policyOf("widgets.example.com", nested(depth))
			return testing.AllocsPerRun(1, func() { _, _ = costbound.Of(policy) })
		}
		one, two := nested(6), nested(12)
		if shorter, longer := work(6), work(12); longer/shorter > 3*float64(len(two))/float64(len(one)) {
			t.Errorf("%s: %v allocations for %d bytes and %v for %d", name, shorter, len(one), longer, len(two))
		}
	}
}

// TestBoundsOfManyFields compares the work of the bounds of many fields: twice as many take some three times as much, and not the cube. It is not parallel,
// because it counts allocations.
func TestBoundsOfManyFields(t *testing.T) { //nolint:paralleltest // see above
	for name, expression := range map[string]string{"in a list": "object in [%s]", "in a sum": "size([%s]) == 1"} {
		work := func(fields int) float64 {
			var list []string
			for n := range fields {
				list = append(list, fmt.Sprintf("object.f%d", n))
			}
			policy := policyOf("widgets.example.com", fmt.Sprintf(expression, strings.Join(list, ",")))
			return testing.AllocsPerRun(1, func() {
				if bound, err := costbound.Of(policy); err != nil || bound.Work(1<<20) == 0 {
					t.Error(err)
				}
			})
		}
		if few, many := work(60), work(120); many > 3*few {
			t.Errorf("%s: %v allocations for 60 fields and %v for 120", name, few, many)
		}
	}
}

// TestEveryFunctionIsKnown fails for a function of the libraries of Kubernetes that the bound does not know.
func TestEveryFunctionIsKnown(t *testing.T) {
	t.Parallel()
	env, _ := admission(t)
	checked := 0
	for name, function := range env.Functions() {
		for _, overload := range function.OverloadDecls() {
			if !costbound.Knows(name, len(overload.ArgTypes())) {
				t.Errorf("the bound does not know %s, %s", name, overload.ID())
			}
			checked++
		}
	}
	if checked < 200 || costbound.Knows("fresh", 1) {
		t.Errorf("got %d overloads, too few to be all, or a function that does not exist is known", checked)
	}
}

// random makes random objects and expressions.
type random struct{ *rand.Rand }

func (r random) pick(texts ...string) string { return texts[r.IntN(len(texts))] }

func (r random) text() string {
	return strings.Repeat(r.pick("a", "b", "é", " ", `"`), r.IntN(1+1<<r.IntN(9)))
}

func (r random) value(depth int) any {
	switch n := r.IntN(8); {
	case n < 2 && depth > 0:
		list := make([]any, 0)
		for range r.IntN(1 << r.IntN(8)) {
			list = append(list, r.value(depth-1))
		}
		return list
	case n < 4 && depth > 0:
		object := map[string]any{}
		for range r.IntN(1 << r.IntN(6)) {
			object[r.pick("a", "b", "c", r.text())] = r.value(depth - 1)
		}
		return object
	case n < 6:
		return r.text()
	case n == 6:
		return 1e308
	}
	return int64(r.IntN(10))
}

// operand returns an expression of any type that reads objects.
func (r random) operand(variables []string, depth int) string {
	base := r.pick(append([]string{"object", "oldObject", "object.l", "object.m", "object.t", "object.metadata.labels"}, variables...)...)
	if depth == 0 {
		return base
	}
	one, other := r.operand(variables, depth-1), r.operand(variables, depth-1)
	x, y := fmt.Sprintf("x%d", depth), fmt.Sprintf("y%d", depth)
	switch r.IntN(21) {
	case 18:
		return fmt.Sprintf("(size(%s) <= %d ? %s : %s)", one, r.IntN(4)-1, one, r.pick(other, `dyn("other")`))
	case 19:
		return fmt.Sprintf(`%s.find("a+")`, one)
	case 14:
		return fmt.Sprintf("strings.quote(%s)", one)
	case 15:
		return fmt.Sprintf(`%s.format([%s])`, r.pick(`"%s%d%s"`, `"%s"`, `"%e"`, `"%.9f"`, `"%x"`), one)
	case 16:
		return fmt.Sprintf("url(%s).%s()", r.pick(one, fmt.Sprintf(`"https://" + %s`, one), fmt.Sprintf(`"https://a/?b=" + %s`, one)), r.pick("getHost", "getQuery", "getEscapedPath", "getScheme"))
	case 17:
		return fmt.Sprintf("[%s].%s", one, r.pick("flatten()", "first().value()", "last().value()", "map(x, x)"))
	case 0:
		return one + "." + r.pick("a", "b", "c")
	case 1:
		return fmt.Sprintf("%s[%s]", one, r.pick(`"a"`, "0", other))
	case 2:
		return fmt.Sprintf("%s.?%s.orValue(%s)", one, r.pick("a", "b"), other)
	case 3:
		return fmt.Sprintf("%s.map(%s, %s)", one, x, r.operand(append(variables, x), depth-1))
	case 4:
		return fmt.Sprintf("%s.filter(%s, %s)", one, x, r.condition(append(variables, x), depth-1))
	case 5:
		return fmt.Sprintf("[%s, %s]", one, other)
	case 6:
		return fmt.Sprintf("(%s + %s)", one, other)
	case 7:
		return fmt.Sprintf("%s.split(%s)", one, r.pick(`""`, `"a"`))
	case 8:
		return fmt.Sprintf("%s.%s", one, r.pick(`lowerAscii()`, `trim()`, `size()`, `charAt(0)`, `replace("a", "bb")`, `substring(1)`, `findAll("a+")`, `distinct()`, `flatten()`, `reverse()`, `first()`, `first().value()`, `last().orValue([])`, `slice(0, 1)`, `sort()`, `max()`, `sum()`, `last()`))
	case 9:
		return fmt.Sprintf("(%s ? %s : %s)", r.condition(variables, depth-1), one, other)
	case 10:
		return fmt.Sprintf("%s.join(%s)", one, r.pick(`","`, `""`))
	case 11:
		return fmt.Sprintf("%s.transformList(%s, %s, %s)", one, x, y, r.operand(append(variables, x, y), depth-1))
	case 12:
		return fmt.Sprintf("%s.transformMap(%s, %s, %s)", one, x, y, r.operand(append(variables, x, y), depth-1))
	case 13:
		return fmt.Sprintf("%s.transformMapEntry(%s, %s, %s)", one, x, y, r.pick(r.operand(append(variables, x, y), depth-1), fmt.Sprintf("{%s: %s}", x, r.operand(append(variables, x, y), depth-1))))
	}
	return fmt.Sprintf("string(%s)", one)
}

func (r random) condition(variables []string, depth int) string {
	one, other := r.operand(variables, max(depth-1, 0)), r.operand(variables, max(depth-1, 0))
	x := fmt.Sprintf("z%d", depth)
	if depth == 0 {
		return fmt.Sprintf("%s == %s", one, other)
	}
	switch r.IntN(12) {
	case 0:
		return fmt.Sprintf("%s.%s(%s, %s)", one, r.pick("all", "exists", "exists_one"), x, r.condition(append(variables, x), depth-1))
	case 1:
		return fmt.Sprintf("%s in %s", one, other)
	case 2:
		return fmt.Sprintf("%s %s %s", one, r.pick("==", "!=", "<", ">="), other)
	case 3:
		return fmt.Sprintf("(%s %s %s)", r.condition(variables, depth-1), r.pick("&&", "||"), r.condition(variables, depth-1))
	case 4:
		return fmt.Sprintf("!(%s)", r.condition(variables, depth-1))
	case 5:
		return fmt.Sprintf("%s.%s(%s)", one, r.pick("startsWith", "endsWith", "contains"), r.pick(`"a"`, other))
	case 6:
		return fmt.Sprintf("%s.matches(%s)", one, r.pick(`"a+b?"`, `"^(a|b)*$"`, `"[a-z]{3}"`))
	case 7:
		return fmt.Sprintf("has(%s.%s)", one, r.pick("a", "b"))
	case 8:
		return fmt.Sprintf("sets.%s(%s, %s)", r.pick("contains", "intersects", "equivalent"), one, r.pick(`["a"]`, other))
	case 9:
		return fmt.Sprintf("%s.%s() > 1", one, r.pick("size", "sum", "min", "max"))
	case 10:
		return fmt.Sprintf("%s.isSorted()", one)
	}
	return fmt.Sprintf("%s.indexOf(%s) > 0", one, r.pick(`"a"`, "1"))
}

// TestBoundIsAboveTheCost compares the bound with the cost that kube-apiserver counts, of random expressions and objects.
func TestBoundIsAboveTheCost(t *testing.T) {
	t.Parallel()
	env, compiler := admission(t)
	compared, evaluated := 0, 0
	for seed := range uint64(7000) {
		r := random{rand.New(rand.NewPCG(7, seed))} //nolint:gosec // no secret
		expression, err := compiler.Compile(r.condition(nil, 3))
		if err != nil {
			continue
		}
		limited, _ := expression.AdmissionText(math.MaxInt)
		checked, issues := env.Compile(limited)
		if issues.Err() != nil {
			continue
		}
		bound := boundOf(t, "widgets.example.com", limited)
		program, err := env.Program(checked)
		if err != nil {
			continue
		}
		compared++
		for range 4 {
			object, old := r.object(), r.object()
			_, details, err := program.Eval(map[string]any{"object": object, "oldObject": old})
			if err == nil {
				evaluated++
			}
			if details == nil || details.ActualCost() == nil {
				continue
			}
			size := max(sizeOf(t, object), sizeOf(t, old))
			if cost := *details.ActualCost(); cost > bound.Cost(size) && cost <= cel.CostLimit {
				t.Errorf("seed %d: %s\ncost %d, bound %d for %d bytes", seed, limited, cost, bound.Cost(size), size)
			}
		}
	}
	if compared < 2000 || evaluated < 1000 {
		t.Errorf("got %d expressions and %d values: the test compares too little", compared, evaluated)
	}
}

// TestBoundOfMadeValues compares the bound with the cost of expressions that make large values of small ones, or take a large value out of one that looks small.
func TestBoundOfMadeValues(t *testing.T) {
	t.Parallel()
	env, _ := admission(t)
	words := map[string]any{"l": slices.Repeat([]any{"word"}, 900)}
	number := map[string]any{"n": 1e308}
	address := map[string]any{"u": "https://" + strings.Repeat("a", 5000) + "/" + strings.Repeat("b", 5000) + "?" + strings.Repeat("c", 5000) + "=1"}
	lower := strings.Repeat(".lowerAscii()", 5)
	for expression, object := range map[string]map[string]any{
		`"%.100f".format([object.n])` + lower + ` == ""`: number, `"%f%f%f".format([1e308, 1e308, 1e308])` + lower + ` == ""`: number,
		`url(object.u).getHost()` + lower + ` == ""`: address, `url(object.u).getEscapedPath()` + lower + ` == ""`: address,
		`(size(url(object.u).getQuery()) <= 1000 ? url(object.u).getQuery() : dyn("")).map(k, k` + lower + `) == []`: address,
		`[object.l].first().value() == object.l`: words, `[object.l].last().orValue([]) == object.l`: words, `[object.l].flatten() == object.l`: words, `[object.l].flatten().isSorted()`: words,
		`(size([object.l].flatten()) <= 1000 ? [object.l].flatten() : dyn("")).all(x, x == "word")`: words,
		`[{"a": object.l}].transformMapEntry(i, v, v) == {"a": object.l}`:                           words,
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			checked, issues := env.Compile(expression)
			if issues.Err() != nil {
				t.Fatal(issues.Err())
			}
			program, err := env.Program(checked)
			if err != nil {
				t.Fatal(err)
			}
			_, details, err := program.Eval(map[string]any{"object": object})
			if details == nil || details.ActualCost() == nil {
				t.Fatal(err)
			}
			bound := boundOf(t, "widgets.example.com", expression)
			if got, cost := bound.Cost(sizeOf(t, object)), *details.ActualCost(); bound.Unbounded() != "" || got < cost {
				t.Errorf("bound %d, unbounded %q, cost %d", got, bound.Unbounded(), cost)
			}
		})
	}
}

// sizeOfValue returns a lower bound of the size of a value, as costbound counts it, and the number of its elements.
func sizeOfValue(v ref.Val) (size, count int) {
	switch v := v.(type) {
	case types.String:
		return utf8.RuneCountInString(string(v)), 0
	case traits.Mapper:
		for it := v.Iterator(); it.HasNext() == types.True; count++ {
			key := it.Next()
			keySize, _ := sizeOfValue(key)
			entry, _ := sizeOfValue(v.Get(key))
			size += keySize + entry
		}
	case traits.Lister:
		for it := v.Iterator(); it.HasNext() == types.True; count++ {
			element, _ := sizeOfValue(it.Next())
			size += element
		}
	case *types.Optional:
		if v.HasValue() {
			return sizeOfValue(v.GetValue())
		}
	}
	return size, count
}

// TestValuesAreWithinTheirBounds compares random values with the bounds of their sizes and of the numbers of their elements, from which the bound of a
// cost is made.
func TestValuesAreWithinTheirBounds(t *testing.T) {
	t.Parallel()
	env, compiler := admission(t)
	compared := 0
	for seed := range uint64(6000) {
		r := random{rand.New(rand.NewPCG(8, seed))} //nolint:gosec // no secret
		expression, err := compiler.Compile("dyn(" + r.operand(nil, 1+r.IntN(3)) + ") == null")
		if err != nil {
			continue
		}
		text, _ := expression.AdmissionText(math.MaxInt)
		text = strings.TrimSuffix(strings.TrimPrefix(text, "dyn("), ") == null")
		checked, issues := env.Compile(text)
		if issues.Err() != nil {
			continue
		}
		bound, ok := costbound.ValueOf(checked.NativeRep())
		if !ok {
			continue
		}
		program, err := env.Program(checked)
		if err != nil {
			continue
		}
		for range 4 {
			object, old := r.object(), r.object()
			value, _, err := program.Eval(map[string]any{"object": object, "oldObject": old})
			if err != nil {
				continue
			}
			compared++
			size, count := sizeOfValue(value)
			most, counted := bound.Count()
			if of := max(sizeOf(t, object), sizeOf(t, old)); float64(size) > bound.Bytes(of) || counted && float64(count) > most || bound.IsSmall() && count > 0 {
				t.Errorf("seed %d: %s\nsize %d of %v for %d bytes, %d elements of %v %t", seed, text, size, bound.Bytes(of), of, count, most, counted)
			}
		}
	}
	if compared < 4000 {
		t.Errorf("got %d values: the test compares too little", compared)
	}
}

func (r random) object() map[string]any {
	return map[string]any{"l": r.value(3), "m": r.value(3), "t": r.text(), "metadata": map[string]any{"name": "x", "labels": map[string]any{"a": "b", "c": "a"}}}
}

func sizeOf(t *testing.T, object any) int {
	t.Helper()
	encoded, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return len(encoded)
}
