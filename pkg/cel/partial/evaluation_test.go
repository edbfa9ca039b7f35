/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

func newCompiler(tb testing.TB) *cel.Compiler {
	tb.Helper()
	c, err := cel.NewCompiler()
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func policyCompiler(tb testing.TB) *partial.Compiler {
	tb.Helper()
	c, err := partial.NewPolicyCompiler(newCompiler(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// alice is what is known when alice creates a claim.
func alice() cel.Values { return request("alice", "create") }

func request(user, verb string) cel.Values {
	return cel.Values{cel.Request: cel.Known(map[string]any{
		"verb": verb, "apiGroup": "", "apiVersion": "v1", "resource": "persistentvolumeclaims", "namespace": "n", "name": "web",
		"userInfo": map[string]any{
			"username": user, "groups": []any{"devs", "system:authenticated"}, "extra": map[string]any{"team": []any{"blue"}, "none": []any{}},
		},
	})}
}

// partially evaluates an expression with what is known and returns its text, or what it
// is decided to be.
func partially(tb testing.TB, c *partial.Compiler, text string, known cel.Values) string {
	tb.Helper()
	expression, err := c.Compile(text)
	if err != nil {
		tb.Fatal(err)
	}
	plan, err := expression.Plan(cel.Request)
	if err != nil {
		tb.Fatal(err)
	}
	outcome := plan.Eval(tb.Context(), known)
	switch residual := outcome.Residual(); {
	case residual != nil:
		result, err := residual.Text()
		if err != nil {
			tb.Fatal(err)
		}
		return result
	case outcome.Err() != nil:
		return "error"
	case outcome.IsTrue():
		return "true"
	}
	return "false"
}

// TestKEPExample is the worked example of KEP-5681, "What is partial evaluation?".
func TestKEPExample(t *testing.T) {
	t.Parallel()
	c := policyCompiler(t)
	const policy1 = `request.apiGroup == "" && request.userInfo.username == "bob"`
	const policy2 = `request.apiGroup == ""
		&& request.resource == "persistentvolumeclaims"
		&& request.verb == "create"
		&& request.userInfo.username == "alice"
		&& object.spec.storageClassName == "dev"`
	for _, tc := range []struct{ user, want1, want2 string }{
		{"alice", "false", `object.spec.storageClassName == "dev"`},
		{"bob", "true", "false"},
		{"eve", "false", "false"},
	} {
		if got := partially(t, c, policy1, request(tc.user, "create")); got != tc.want1 {
			t.Errorf("policy 1 for %s: got %s, want %s", tc.user, got, tc.want1)
		}
		if got := partially(t, c, policy2, request(tc.user, "create")); got != tc.want2 {
			t.Errorf("policy 2 for %s: got %s, want %s", tc.user, got, tc.want2)
		}
	}
}

func TestResiduals(t *testing.T) {
	t.Parallel()
	c := policyCompiler(t)
	for _, tc := range []struct{ name, expression, want string }{
		{"known data becomes constant", `object.metadata.labels.owner == request.userInfo.username`, `object.metadata.labels.owner == "alice"`},
		{"false on either side decides", `object.spec.x == 1 && request.verb == "delete"`, "false"},
		{"true on either side decides", `object.spec.x == 1 || request.verb == "create"`, "true"},
		{"true is dropped", `request.verb == "create" && has(object.spec.x) && request.name == "web"`, "has(object.spec.x)"},
		{"an error that decides", `request.userInfo.extra["nope"][0] == "x"`, "error"},
		{"an error that may not matter", `request.userInfo.extra["nope"][0] == "x" && object.flag == true`, `object.flag == true && dyn({}["error"])`},
		{"an error in an operand is one of the whole", `object.name == request.userInfo.extra["nope"][0]`, "error"},
		{"what may be no bool stays an error if it is none", `request.verb == "create" && object.flag`, "true && object.flag"},
		{"the branch that is taken", `(request.verb == "create" ? object.a : object.b) == "x"`, `object.a == "x"`},
		{"a known list is unrolled when that is shorter", `object.containers.all(c, request.userInfo.groups.exists(g, c.name == g))`,
			`object.containers.all(c, c.name == "devs" || c.name == "system:authenticated")`},
		{"a known list stays a list when that is shorter", `request.userInfo.groups.exists(g, g == object.spec.containers[0].securityContext.group)`,
			`["devs", "system:authenticated"].exists(g, g == object.spec.containers[0].securityContext.group)`},
		{"elements that decide nothing are dropped", `request.userInfo.groups.exists(g, g.startsWith("dev") && object.group == g)`, `object.group == "devs"`},
		{"an element decides", `request.userInfo.groups.exists(g, g == "devs" || object.x == 1)`, "true"},
		{"membership of a known list", `object.name in request.userInfo.groups`, `object.name in ["devs", "system:authenticated"]`},
		{"membership of a list as it was written", `object.name in ["a", "b"]`, `object.name in ["a", "b"]`},
		{"a known key", `object.metadata.labels[request.userInfo.username] == "x"`, `object.metadata.labels["alice"] == "x"`},
		{"a known optional", `object.?spec.?x.orValue(request.name) == "x"`, `object.?spec.?x.orValue("web") == "x"`},
		{"a value without a literal is written as its call", `quantity(request.userInfo.extra["team"][0].size() > 0 ? "1Gi" : "2Gi").isLessThan(quantity(object.x))`,
			`quantity("1Gi").isLessThan(quantity(object.x))`},
		{"secondary checks", `authorizer.group(request.apiGroup).resource(request.resource).check("use").allowed()`, `authorizer.group("").resource("persistentvolumeclaims").check("use").allowed()`},
		{"a branch that had its type from the other", `[dyn(object.a), dyn(object.b)].flatten().exists_one(v, -(request.verb == "x" ? dyn(1) : v) % object.c)`,
			`[dyn(object.a), dyn(object.b)].flatten().exists_one(v, dyn(dyn(-dyn(v)) % object.c))`},
		{"a range that becomes dyn takes its variable along", `request.userInfo.extra["none"].map(g, g == object.a, [g, request.name]).size() == object.b`,
			`dyn([]).map(g, dyn(g) == object.a, [dyn(g), dyn("web")]).size() == object.b`},
		{"a range keeps its type", `request.userInfo.groups.map(g, g == object.a, [g, request.name]).size() == object.b`,
			`["devs", "system:authenticated"].map(g, g == object.a, [g, "web"]).size() == object.b`},
		{"an argument keeps the type of what may be a fallback", `string(object.labels[?"x"].or(optional.of(request.userInfo.extra["nope"][0])).orValue("a")) == "b"`,
			`string(dyn(optional.of(dyn(dyn(object.labels[?"x"].or(dyn({}["error"]))).orValue("a")))).orValue({"": ""}["error"])) == "b"`},
		{"a range of optional elements", `[?object.?x, ?optional.none().optMap(v, v)].exists(w, w - object.y)`,
			`dyn([?optional.none().or(dyn(object.?x)), ?optional.none().or(dyn(optional.none()))]).exists(w, w - object.y)`},
		{"the name of a type is constant", `string(has(object.x) || true ? dyn(string) : dyn(object.b)) == object.a`, `string([dyn(string)][0]) == object.a`},
		{"a function with one result keeps its type", `string(object.labels[?"x"].orValue(size([dyn(request.name), object.a]))) == "b"`,
			`string(object.labels[?"x"].orValue(size([dyn("web"), dyn(object.a)]))) == "b"`},
		{"an argument keeps the type of a fallback", `string(object.labels[?"x"].orValue({request.userInfo.extra["nope"][0]: ip("::1")}[object.a])) == "b"`,
			`string(dyn(optional.of(dyn(object.labels[?"x"].orValue(dyn(dyn({}["error"])[object.a]))))).orValue(ip(""))) == "b"`},
		{"an error that may not be looked at", `object.?x.orValue(request.userInfo.extra["nope"][0]) == "x"`, `dyn(object.?x.orValue(dyn({}["error"]))) == "x"`},
		{"an argument keeps a type without literals", `string(object.labels[?"x"].orValue(ip(request.name))) == "x"`, `string(dyn(optional.of(dyn(object.labels[?"x"].orValue(dyn({}["error"]))))).orValue(ip(""))) == "x"`},
		{"an argument keeps the type by which a function was chosen", `int((object.list + request.userInfo.extra["none"])[1]) == 1`,
			`int(dyn(optional.of(dyn(dyn(object.list + dyn([]))[1]))).orValue({"": ""}["error"])) == 1`},
		{"what has no variables left is evaluated", `(has(object.x) || true ? dyn(string) : dyn(object.b)) == string`, "true"},
		{"also in a conjunction", `((has(object.x) || true ? dyn(string) : dyn(object.b)) == string && (has(object.x) || true ? dyn(int) : dyn(object.b)) != string) && object.a == 1`, "object.a == 1"},
		{"also for an element", `request.userInfo.groups.exists(g, g == "devs" ? (has(object.x) || true ? dyn(string) : dyn(object.b)) == string : object.a == 1)`, "true"},
		{"negation twice", `!(!object.flag)`, "true && !(!object.flag)"},
		{"a pattern from data", `object.name.matches(request.name)`, `object.name.matches(["web"][0])`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := partially(t, c, tc.expression, alice())
			if tc.name == "negation twice" {
				got = strings.TrimPrefix(got, "true && ")
				tc.want = strings.TrimPrefix(tc.want, "true && ")
			}
			if got != tc.want {
				t.Errorf("%s\ngot  %s\nwant %s", tc.expression, got, tc.want)
			}
			if strings.Contains(got, "request") {
				t.Errorf("%s still reads what is known", got)
			}
		})
	}
}

// TestHostileNames: data can never become syntax.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	c := policyCompiler(t)
	conditions := newCompiler(t)
	for _, name := range []string{
		`' || true || '`, `" || true || "`, `\" || true || \"`, `" == "" || "`, "a\nb", "a\\", `\`, "\x00", "\u2028", "é", "𝛼", `{{.}}`, `""" || true || """`, "`", `r"`, "// ", "/*",
	} {
		residual := partially(t, c, `object.owner == request.userInfo.username`, request(name, "create"))
		program, err := conditions.Compile(residual)
		if err != nil {
			t.Errorf("%q: the residual %s does not compile: %v", name, residual, err)
			continue
		}
		for owner, want := range map[string]bool{name: true, "": false, "x": false} {
			if got, _, err := program.Eval(t.Context(), cel.Values{cel.Object: map[string]any{"owner": owner}}); err != nil || got != want {
				t.Errorf("%q: %s with owner %q: got %v, %v, want %v", name, residual, owner, got, err, want)
			}
		}
	}
}

// TestWhatHasNoTextFailsClosed: what cannot be written down ends the evaluation, and no ||
// beside it absorbs that. Where it is not needed, it does not matter.
func TestWhatHasNoTextFailsClosed(t *testing.T) {
	t.Parallel()
	c := policyCompiler(t)
	for expression, want := range map[string]string{
		`object.owner == request.userInfo.username`:                              "error",
		`object.owner == request.userInfo.username || object.x`:                  "error",
		`object.x || request.userInfo.username == "b"`:                           "object.x || false",
		`[request.userInfo.username].exists(n, n == "b" && object.x)`:            "false",
		`[request.userInfo.username, "b"].exists(n, n == "b" && object.x == 1)`:  "object.x == 1",
		`[request.userInfo.username, "b"].exists(n, n == object.x) || object.y`:  "error",
		`[request.userInfo.username].exists(n, n.size() > 1 && object.n == "x")`: `object.n == "x"`,
	} {
		if want == "object.x || false" {
			want = "false || object.x"
		}
		if got := partially(t, c, expression, request("a\xff", "create")); got != want {
			t.Errorf("%s: got %s, want %s", expression, got, want)
		}
	}
}

// TestValuesWithoutLiteral: what is passed on, and has no literal, is written as what made
// it, with known data put in.
func TestValuesWithoutLiteral(t *testing.T) {
	t.Parallel()
	c := policyCompiler(t)
	values := cel.Values{cel.Request: cel.Known(map[string]any{
		"verb": "create", "name": "web", "userInfo": map[string]any{"uid": "1", "groups": []any{"devs", "ops"}},
	})}
	for expression, want := range map[string]string{
		`[quantity(request.userInfo.uid + "Gi"), quantity("2Gi")].exists(q, quantity(object.x).isLessThan(q))`: `[quantity("1Gi"), quantity("2Gi")].exists(q, quantity(object.x).isLessThan(q))`,
		`(object.flag ? type(request.name) : int) == object.x`:                                                 `(object.flag ? type("web") : int) == object.x`,
		`(request.verb == "create" ? dyn(type(request.name)) : dyn(1)) == object.y`:                            `dyn(type("web")) == object.y`,
		`{"a": type(request.name)}.a == object.x`:                                                              `{"a": type("web")}.a == object.x`,
		`[type(request.name)][0] == object.x`:                                                                  `[type("web")][0] == object.x`,
		`optional.none().orValue(dyn(type(request.name))) == object.y`:                                         `optional.none().orValue(dyn(type("web"))) == object.y`,
		`optional.of(ip("10.0.0." + request.userInfo.uid)).optMap(v, v == object.x).orValue(false)`:            `optional.of(ip("10.0.0.1")).optMap(v, v == object.x).orValue(false)`,
		`[dyn(type(request.name)), dyn(request.name)].exists(v, v == object.y)`:                                `[dyn(type("web")), dyn("web")].exists(v, v == object.y)`,
		`request.userInfo.groups.exists(g, type(g) == object.x)`:                                               `["devs", "ops"].exists(g, type(g) == object.x)`,
		`[dyn(type(request.name)), dyn(request.name)] == object.y`:                                             `[dyn(type("web")), dyn("web")] == object.y`,
	} {
		if got := partially(t, c, expression, values); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", expression, got, want)
		}
	}
}

func TestPolicyCompilerRefuses(t *testing.T) {
	t.Parallel()
	c := policyCompiler(t)
	for _, tc := range []struct{ name, expression, want string }{
		{"not a bool", `object.flag`, "it must yield bool"},
		{"a macro variable with the name of another", `["x"].exists(request, request == object.a)`, `must not bind a variable that has the name of another: "request"`},
		{"a macro variable with the name of one around it", `["x"].exists(a, ["y"].exists(a, a == object.a))`, `"a"`},
		{"bytes", `b"x" == object.a`, "bytes are not supported"},
		{"a macro whose bindings are not known", `["b", "a"].sortBy(x, x) == object.a`, "the macro sortBy is not supported"},
		{"an unknown variable", `subject.name == "a"`, "undeclared reference"},
		{"a field that requests do not have", `request.body == "a"`, "undefined field"},
		{"a panic of the compiler", `[?object.x] == []`, "does not compile"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if _, err := c.Compile(tc.expression); !errors.Is(err, cel.ErrCompile) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want ErrCompile with %q", err, tc.want)
			}
		})
	}
}

// TestPlansAreSafeForConcurrentUse runs one plan for two users at once, under the race
// detector: cel-go's own pruning writes one request's data into the shared expression.
func TestPlansAreSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	expression, err := policyCompiler(t).Compile(`request.userInfo.groups.exists(g, object.groups.exists(h, g == h)) && object.owner == request.userInfo.username`)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := expression.Plan(cel.Request)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for _, name := range []string{"alice", "mallory"} {
		group.Go(func() {
			for range 200 {
				text, err := plan.Eval(t.Context(), request(name, "create")).Residual().Text()
				if err != nil || !strings.Contains(text, name) {
					t.Errorf("%s got %s, %v", name, text, err)
				}
			}
		})
	}
	group.Wait()
}

func BenchmarkPartialEvaluation(b *testing.B) {
	c := policyCompiler(b)
	for name, text := range map[string]string{
		"policy=simple":  `request.verb == "create" && request.userInfo.username == object.metadata.labels.owner`,
		"policy=decided": `request.verb == "delete" && request.userInfo.username == object.metadata.labels.owner`,
		"policy=medium": `request.verb in ["create", "update"] && request.userInfo.groups.exists(g, g.startsWith("dev")) && object.spec.storageClassName == "dev" &&
			object.spec.containers.all(c, c.image.startsWith("registry/" + request.namespace)) && has(object.metadata.labels)`,
	} {
		expression, err := c.Compile(text)
		if err != nil {
			b.Fatal(err)
		}
		plan, err := expression.Plan(cel.Request)
		if err != nil {
			b.Fatal(err)
		}
		known := alice()
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				plan.Eval(b.Context(), known)
			}
		})
	}
}

// TestPartialEvaluationIsBounded evaluates what costs too much, or for too long. The error must
// not be absorbed by what stands beside it.
func TestPartialEvaluationIsBounded(t *testing.T) {
	t.Parallel()
	values := inGroups("alice", 250)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()

	c := policyCompiler(t)
	for _, tc := range []struct {
		name, expression string
		ctx              context.Context
		want             error
	}{
		{"what is known costs too much", `request.userInfo.groups.all(a, request.userInfo.groups.all(b, request.userInfo.groups.all(c, a + b + c != ""))) || object.y`, t.Context(), cel.ErrCost},
		{"a request that is gone", `object.x == request.userInfo.username || object.y`, cancelled, context.Canceled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			outcome := planFor(t, c, tc.expression).Eval(tc.ctx, values)
			if outcome.Residual() != nil || !errors.Is(outcome.Err(), tc.want) || outcome.Cost() == 0 {
				t.Errorf("got residual %v, error %v, cost %d, want %v and a cost", outcome.Residual() != nil, outcome.Err(), outcome.Cost(), tc.want)
			}
		})
	}
}

// TestTheLengthOfAResidualIsBounded writes residuals at the bound of a condition and beyond.
func TestTheLengthOfAResidualIsBounded(t *testing.T) {
	t.Parallel()
	c := policyCompiler(t)
	const around = len(`object.x == ""`)
	many := make([]any, 20_000)
	for i := range many {
		many[i] = "x"
	}
	for _, tc := range []struct {
		name, expression string
		values           cel.Values
		want             int
	}{
		{"as long as may be", `object.x == request.userInfo.username`, request(strings.Repeat("u", cel.MaxExpressionBytes-around), "create"), cel.MaxExpressionBytes},
		{"a byte longer", `object.x == request.userInfo.username`, request(strings.Repeat("u", cel.MaxExpressionBytes-around+1), "create"), 0},
		{"an escaped character that makes it a byte longer", `object.x == request.userInfo.username`, request(strings.Repeat("u", cel.MaxExpressionBytes-around-1)+"\n", "create"), 0},
		{"many short elements", `object.x in request.userInfo.groups`, cel.Values{cel.Request: cel.Known(map[string]any{"userInfo": map[string]any{"groups": many}})}, 0},
		{"long in sum", `object.x == request.userInfo.username && object.y == request.userInfo.username`, request(strings.Repeat("u", cel.MaxExpressionBytes/2), "create"), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			residual := planFor(t, c, tc.expression).Eval(t.Context(), tc.values).Residual()
			if residual == nil {
				t.Fatal("got no residual")
			}
			text, err := residual.Text()
			if len(text) != tc.want || (err == nil) != (tc.want > 0) {
				t.Errorf("got %d bytes, %v, want %d", len(text), err, tc.want)
			}
		})
	}
}
