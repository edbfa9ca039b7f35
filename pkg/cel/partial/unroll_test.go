/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// inGroups is what is known of a user in n groups, which are named g0, g1 and so on.
func inGroups(user string, n int) cel.Values {
	groups := make([]any, 0, n)
	for i := range n {
		groups = append(groups, fmt.Sprintf("g%d", i))
	}
	return cel.Values{cel.Request: cel.Known(map[string]any{
		"verb": "create", "namespace": "n", "userInfo": map[string]any{"username": user, "groups": groups, "extra": map[string]any{"groups": groups}},
	})}
}

func planFor(tb testing.TB, c *partial.Compiler, text string) *partial.Plan {
	tb.Helper()
	expression := compilers.Compiled(tb, c, text)
	plan, err := expression.Plan(cel.Request)
	if err != nil {
		tb.Fatal(err)
	}
	return plan
}

// TestUnrollingIsTheSameForAllSizes evaluates quantifiers over known lists in each other, whose
// unrolled form costs the square or the cube of the size of the list.
func TestUnrollingIsTheSameForAllSizes(t *testing.T) {
	t.Parallel()
	c, conditions := compilers.Policies(t), compilers.Conditions(t)
	for _, tc := range []struct{ name, expression string }{
		{name: "exists in exists", expression: `request.userInfo.groups.exists(g, request.userInfo.groups.exists(h, object.x == g + h))`},
		{name: "all in exists", expression: `request.userInfo.groups.exists(g, request.userInfo.groups.all(h, object.x == g || object.y == h))`},
		{name: "three deep", expression: `request.userInfo.groups.exists(a, request.userInfo.groups.exists(b, request.userInfo.groups.exists(c, object.x == a + b + c)))`},
		{name: "one after the other", expression: strings.TrimSuffix(strings.Repeat(`request.userInfo.groups.exists(g, request.userInfo.groups.exists(h, object.x == g + h)) || `, 2), " || ")},
		{name: "beside what is known", expression: `request.userInfo.groups.exists(g, request.userInfo.groups.exists(h, object.x == g + h)) && request.verb == "create"`},
	} {
		plan := planFor(t, c, tc.expression)
		for _, size := range []int{1, 2, 17, 80, 100, 150, 200, 255, 256, 257, 300} {
			t.Run(fmt.Sprintf("%s/%d groups", tc.name, size), func(t *testing.T) {
				t.Parallel()
				outcome := plan.Eval(t.Context(), inGroups("alice", size))
				if outcome.Residual() == nil {
					t.Fatalf("got no residual, but %v", outcome.Err())
				}
				if outcome.Cost() > cel.CostLimit {
					t.Errorf("it costs %d", outcome.Cost())
				}
				text, err := outcome.Residual().Text()
				if err != nil {
					t.Fatal(err)
				}
				program := compilers.Compiled(t, conditions, text)
				object := map[string]any{"x": "g0g0", "y": "g0"}
				if tc.name == "three deep" {
					object["x"] = "g0g0g0"
				}
				want := tc.name != "all in exists" || size == 1
				if got, _, err := program.Eval(t.Context(), cel.Values{cel.Object: object}); err != nil || got != want {
					t.Errorf("the residual gives %v, %v, want %v", got, err, want)
				}
			})
		}
	}
}

// TestUnrollingKeepsErrors evaluates quantifiers over known lists in which the body is an error for one element. The residual is an error for
// the same objects as the whole expression.
func TestUnrollingKeepsErrors(t *testing.T) {
	t.Parallel()
	c, conditions := compilers.Policies(t), compilers.Conditions(t)
	request := cel.Known(map[string]any{"verb": "create", "userInfo": map[string]any{"groups": []any{"1", "x", "2"}, "extra": map[string]any{"1": []any{}, "x": []any{}}}})
	for _, tc := range []struct {
		name, expression string
		want             map[int64]string // by object.i
	}{
		{name: "all", expression: `request.userInfo.groups.all(g, int(g) == object.i)`, want: map[int64]string{1: "false", 3: "false"}},
		{name: "all that hold", expression: `request.userInfo.groups.all(g, int(g) >= object.i)`, want: map[int64]string{1: "error", 2: "false"}},
		{name: "all of a map", expression: `request.userInfo.extra.all(k, int(k) == object.i)`, want: map[int64]string{1: "error", 2: "false"}},
		{name: "all, with the index", expression: `request.userInfo.groups.all(i, g, i < object.i && int(g) > 0)`, want: map[int64]string{3: "error", 2: "false"}},
		{name: "all, negated", expression: `!request.userInfo.groups.all(g, int(g) >= object.i)`, want: map[int64]string{1: "error", 2: "true"}},
		{name: "all with an element that is known to hold", expression: `request.userInfo.groups.all(g, g == "2" || int(g) == object.i)`, want: map[int64]string{1: "error", 2: "false"}},
		{name: "exists", expression: `request.userInfo.groups.exists(g, int(g) == object.i)`, want: map[int64]string{1: "true", 3: "error"}},
		{name: "exists in a map", expression: `request.userInfo.extra.exists(k, int(k) == object.i)`, want: map[int64]string{1: "true", 2: "error"}},
		{name: "exists, with the index", expression: `request.userInfo.groups.exists(i, g, i == object.i || int(g) < 0)`, want: map[int64]string{0: "true", 3: "error"}},
		{name: "exists, negated", expression: `!request.userInfo.groups.exists(g, int(g) == object.i)`, want: map[int64]string{1: "false", 3: "error"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			expression := compilers.Compiled(t, c, tc.expression)
			atOnce, err := expression.Plan(cel.Request, cel.Object)
			if err != nil {
				t.Fatal(err)
			}
			text := partially(t, c, tc.expression, cel.Values{cel.Request: request})
			residual := compilers.Compiled(t, conditions, text)
			for i, want := range tc.want {
				object := map[string]any{"i": i}
				got := "error"
				if value, _, err := residual.Eval(t.Context(), cel.Values{cel.Object: object}); err == nil {
					got = fmt.Sprint(value)
				}
				whole := atOnce.Eval(t.Context(), cel.Values{cel.Request: request, cel.Object: cel.Known(object)})
				if isWhole := map[string]bool{"true": whole.IsTrue(), "false": whole.IsFalse(), "error": whole.Err() != nil}; got != want || !isWhole[want] {
					t.Errorf("for %d the residual %s is %s, and at once it is %v, want %s", i, text, got, isWhole, want)
				}
			}
		})
	}
}

// TestUnrollingDecides keeps the decisions that unrolling finds, also where what remains of other
// elements would be longer than a condition may be.
func TestUnrollingDecides(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	for _, tc := range []struct {
		name, expression, user string
		want                   string
	}{
		{name: "the last element", expression: `request.userInfo.groups.exists(g, g == "g255" || object.x == g)`, user: "alice", want: "true"},
		{name: "the last element after what is too long", expression: `request.userInfo.groups.exists(g, g == "g255" || object.x == request.userInfo.username)`, user: strings.Repeat("u", cel.MaxExpressionBytes), want: "true"},
		{name: "no element", expression: `request.userInfo.groups.exists(g, g == "x" && object.x == request.userInfo.username)`, user: strings.Repeat("u", cel.MaxExpressionBytes), want: "false"},
		{name: "what is too long beside what decides", expression: `object.x == request.userInfo.username && request.verb == "delete"`, user: strings.Repeat("u", cel.MaxExpressionBytes), want: "false"},
		{name: "what is long in the branch that is not taken", expression: `(request.verb == "create" ? "a" : request.userInfo.username) == object.x`, user: strings.Repeat("u", cel.MaxExpressionBytes), want: `"a" == object.x`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := partially(t, c, tc.expression, inGroups(tc.user, 256)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestWhatIsTooLongHasNoText: a residual that would be longer than a condition may be is one that
// the process can evaluate, and no other. Neither its text nor its tree is made.
func TestWhatIsTooLongHasNoText(t *testing.T) {
	c := compilers.Policies(t)
	const (
		mebibyte = 1 << 20
		// maxAllocated is a small part of what a copy of the name would take for each group.
		maxAllocated = 8 * mebibyte
		// maxCost is what may be spent on a name that is not written down. Half of the budget
		// is for unrolling, and some of the rest for the macros that stay.
		maxCost = cel.CostLimit * 4 / 5
	)
	known := inGroups(strings.Repeat("u", mebibyte), 256)
	for _, tc := range []struct{ name, expression string }{
		{name: "once for each element", expression: `request.userInfo.groups.exists(g, object.metadata.labels[?g].orValue("") == request.userInfo.username)`},
		{name: "in a list", expression: `object.x in [request.userInfo.username]`},
		{name: "in a map", expression: `{"name": request.userInfo.username}[object.x] == "a"`},
		{name: "as a key", expression: `object[request.userInfo.username] == "a"`},
		{name: "in a macro that stays", expression: `object.containers.all(c, c.name == request.userInfo.username)`},
		{name: "in quantifiers in each other", expression: `request.userInfo.groups.exists(g, request.userInfo.groups.exists(h, object[g][h] == request.userInfo.username))`},
		{name: "as a pattern", expression: `object.x.matches(request.userInfo.username)`},
		{name: "in a branch", expression: `(object.x ? request.userInfo.username : object.y) == "a"`},
		{name: "in what has a type without literals", expression: `[dyn(type(request.userInfo.username)), dyn(object.x)] == object.y && object.z == request.userInfo.username`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plan := planFor(t, c, tc.expression)
			plan.Eval(t.Context(), inGroups("alice", 256)) // what is planned later is planned now
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			outcome := plan.Eval(t.Context(), known)
			residual := outcome.Residual()
			if residual == nil {
				t.Fatalf("got no residual, but %v", outcome.Err())
			}
			text, err := residual.Text()
			runtime.ReadMemStats(&after)
			if text != "" || !errors.Is(err, cel.ErrCompile) || !strings.Contains(err.Error(), "longer than 10240 bytes") {
				t.Errorf("got %d bytes, %v, want an error about the length", len(text), err)
			}
			allocated := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d bytes were allocated, cost %d", allocated, outcome.Cost())
			if allocated > maxAllocated {
				t.Errorf("%d bytes were allocated, want at most %d", allocated, maxAllocated)
			}
			if outcome.Cost() > maxCost {
				t.Errorf("it costs %d, want at most %d", outcome.Cost(), maxCost)
			}
		})
	}
}

// TestManyElementsAreNotWrittenDown: of a list that has more elements than a condition has bytes
// no tree is made.
func TestManyElementsAreNotWrittenDown(t *testing.T) {
	c := compilers.Policies(t)
	many := make([]any, 1<<17)
	for i := range many {
		many[i] = "g"
	}
	known := cel.Values{cel.Request: cel.Known(map[string]any{"userInfo": map[string]any{"groups": many, "extra": map[string]any{"a": many}}})}
	for _, expression := range []string{`object.x in request.userInfo.groups`, `request.userInfo.extra[object.x] == object.y`, `object.x == {request.userInfo.groups[0]: request.userInfo.groups}`} {
		t.Run(expression, func(t *testing.T) {
			plan := planFor(t, c, expression)
			plan.Eval(t.Context(), inGroups("alice", 1))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			residual := plan.Eval(t.Context(), known).Residual()
			runtime.ReadMemStats(&after)
			if residual == nil {
				t.Fatal("got no residual")
			}
			const maxAllocated = 8 << 20
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > maxAllocated {
				t.Errorf("%d bytes were allocated, want at most %d", allocated, maxAllocated)
			}
		})
	}
}

// TestWhatIsTooLongIsNotBound: of data that is too long for a bound form nothing is copied.
func TestWhatIsTooLongIsNotBound(t *testing.T) {
	many := make([]any, 1<<20)
	for i := range many {
		many[i] = "g"
	}
	const maxAllocated = 1 << 20
	for _, tc := range []struct {
		name     string
		userInfo map[string]any
	}{
		{name: "a name", userInfo: map[string]any{"username": strings.Repeat("u", 1<<20)}},
		{name: "many groups", userInfo: map[string]any{"groups": many}},
		{name: "a key", userInfo: map[string]any{"extra": map[string]any{strings.Repeat("k", 1<<20): []any{}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			expression := compilers.Compiled(t, compilers.Policies(t), `object.x == dyn(request)`)
			if _, err := expression.Bound(map[string]any{}); err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			text, err := expression.Bound(map[string]any{"userInfo": tc.userInfo})
			runtime.ReadMemStats(&after)
			if text != "" || err == nil || !strings.Contains(err.Error(), "longer than 10240 bytes") {
				t.Errorf("got %d bytes, %v, want an error about the length", len(text), err)
			}
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > maxAllocated {
				t.Errorf("%d bytes were allocated, want at most %d", allocated, maxAllocated)
			}
		})
	}
}

// prepared is what a server keeps of a policy.
type prepared struct {
	expression     *partial.Expression
	plan, creation *partial.Plan
}

// prepare compiles a policy of medium size, and plans it.
func prepare(tb testing.TB, c *partial.Compiler, serial int) prepared {
	tb.Helper()
	expression, err := c.CompileWithVariables([]cel.NamedExpression{
		{Name: "subject", Expression: `operation == "DELETE" ? oldObject : object`},
	}, fmt.Sprintf(`request.verb in ["create", "update"] && request.userInfo.groups.exists(g, g.startsWith("dev-%d")) &&
		variables.subject.spec.storageClassName == "class-%d" && object.spec.containers.all(c, c.image.startsWith("registry-%d/" + request.namespace)) &&
		has(object.metadata.labels) && (oldObject == null || oldObject.metadata.labels.owner == request.userInfo.username)`, serial, serial, serial))
	if err != nil {
		tb.Fatal(err)
	}
	plan, err := expression.Plan(cel.Request)
	if err != nil {
		tb.Fatal(err)
	}
	creation, err := expression.Plan(cel.Request, cel.Operation, cel.OldObject)
	if err != nil {
		tb.Fatal(err)
	}
	return prepared{expression, plan, creation}
}

func liveHeap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// BenchmarkPolicyCompile compiles policies, each with the two plans that a server has of it,
// and reports what each keeps of the heap.
func BenchmarkPolicyCompile(b *testing.B) {
	c := compilers.Policies(b)
	prepare(b, c, 0)
	before := liveHeap()
	var policies []prepared
	for b.Loop() {
		policies = append(policies, prepare(b, c, len(policies)))
	}
	b.StopTimer()
	if after := liveHeap(); after > before {
		b.ReportMetric(float64(after-before)/float64(len(policies)), "heap-bytes/policy")
	}
	runtime.KeepAlive(policies)
}

// TestPlansAreMadeAtAnyTime: what the compiler made is dropped, and made again of the text
// for a plan that is asked for later.
func TestPlansAreMadeAtAnyTime(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	p := prepare(t, c, 1)
	early := p.plan.Eval(t.Context(), request("alice", "delete"))
	expression := p.expression
	runtime.GC()
	runtime.GC()
	plan, err := expression.Plan(cel.Request, cel.DryRun)
	if err != nil {
		t.Fatal(err)
	}
	if late := plan.Eval(t.Context(), request("alice", "delete")); early.IsFalse() != late.IsFalse() {
		t.Errorf("got false %v, want %v", late.IsFalse(), early.IsFalse())
	}
	values := request("alice", "create")
	values[cel.Request] = cel.Known(map[string]any{"verb": "create", "namespace": "n", "userInfo": map[string]any{"username": "alice", "groups": []any{"dev-1"}}})
	plan, err = expression.Plan(cel.Request)
	if err != nil {
		t.Fatal(err)
	}
	const want = `(operation == "DELETE" ? oldObject : object).spec.storageClassName == "class-1" && object.spec.containers.all(c, c.image.startsWith("registry-1/n")) && ` +
		`has(object.metadata.labels) && (oldObject == null || oldObject.metadata.labels.owner == "alice")`
	got, err := plan.Eval(t.Context(), values).Residual().Text()
	if err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

// TestLongExpressionsArePlannedAgain plans an expression whose checked form has been collected. With its variables put in, it is
// longer than the parser accepts.
func TestLongExpressionsArePlannedAgain(t *testing.T) {
	t.Parallel()
	variables := []cel.NamedExpression{
		{Name: "a", Expression: `request.name == "` + strings.Repeat("x", 2000) + `"`},
		{Name: "b", Expression: strings.Repeat("variables.a || ", 15) + "variables.a"},
	}
	expression, err := compilers.Policies(t).CompileWithVariables(variables, "dryRun && ("+strings.Repeat("variables.b || ", 3)+"variables.b)")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(expression.Text()); n < 100_000 {
		t.Errorf("the text has %d bytes, want more than the parser accepts", n)
	}
	runtime.GC()
	runtime.GC()
	variables[0].Expression = "true" // the expression has its own copy
	if _, err := expression.Plan(cel.Request); err != nil {
		t.Error(err)
	}
}
