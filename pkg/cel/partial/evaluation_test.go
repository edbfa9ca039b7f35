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
	"github.com/proviso-authz/proviso/test/testutil/compilers"
	"github.com/proviso-authz/proviso/test/testutil/rows"
)

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
	return leftOf(tb, compilers.Compiled(tb, c, text), known)
}

// leftOf partially evaluates a compiled expression.
func leftOf(tb testing.TB, expression *partial.Expression, known cel.Values) string {
	tb.Helper()
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
	c := compilers.Policies(t)
	const policy1 = `request.apiGroup == "" && request.userInfo.username == "bob"`
	const policy2 = `request.apiGroup == ""
		&& request.resource == "persistentvolumeclaims"
		&& request.verb == "create"
		&& request.userInfo.username == "alice"
		&& object.spec.storageClassName == "dev"`
	for _, tc := range []struct{ user, want1, want2 string }{
		{user: "alice", want1: "false", want2: `object.spec.storageClassName == "dev"`},
		{user: "bob", want1: "true", want2: "false"},
		{user: "eve", want1: "false", want2: "false"},
	} {
		if got := partially(t, c, policy1, request(tc.user, "create")); got != tc.want1 {
			t.Errorf("policy 1 for %s: got %s, want %s", tc.user, got, tc.want1)
		}
		if got := partially(t, c, policy2, request(tc.user, "create")); got != tc.want2 {
			t.Errorf("policy 2 for %s: got %s, want %s", tc.user, got, tc.want2)
		}
	}
}

// residualRow is a row of residuals.yaml and operators.yaml.
type residualRow struct{ Expression, Want string }

func TestResiduals(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	rows.Run(t, "testdata/residuals.yaml", func(t *testing.T, tc residualRow) {
		got := partially(t, c, tc.Expression, alice())
		if tc.Expression == "!(!object.flag)" { // in which true && may be left out
			got, tc.Want = strings.TrimPrefix(got, "true && "), strings.TrimPrefix(tc.Want, "true && ")
		}
		if got != tc.Want {
			t.Errorf("%s\ngot  %s\nwant %s", tc.Expression, got, tc.Want)
		}
		if strings.Contains(got, "request") {
			t.Errorf("%s still reads what is known", got)
		}
	})
}

// TestHostileNames: data can never become syntax.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	conditions := compilers.Conditions(t)
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
	c := compilers.Policies(t)
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
	c := compilers.Policies(t)
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
	c := compilers.Policies(t)
	type row struct {
		Expression, Want string
	}
	rows.Run(t, "testdata/refused.yaml", func(t *testing.T, tc row) {
		if _, err := c.Compile(tc.Expression); !errors.Is(err, cel.ErrCompile) || !strings.Contains(err.Error(), tc.Want) {
			t.Errorf("got %v, want ErrCompile with %q", err, tc.Want)
		}
	})
}

// TestPlansAreSafeForConcurrentUse runs one plan for two users at once, under the race
// detector: cel-go's own pruning writes one request's data into the shared expression.
func TestPlansAreSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	expression := compilers.Compiled(t, compilers.Policies(t), `request.userInfo.groups.exists(g, object.groups.exists(h, g == h)) && object.owner == request.userInfo.username`)
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
	c := compilers.Policies(b)
	for name, text := range map[string]string{
		"policy=simple":  `request.verb == "create" && request.userInfo.username == object.metadata.labels.owner`,
		"policy=decided": `request.verb == "delete" && request.userInfo.username == object.metadata.labels.owner`,
		"policy=medium": `request.verb in ["create", "update"] && request.userInfo.groups.exists(g, g.startsWith("dev")) && object.spec.storageClassName == "dev" &&
			object.spec.containers.all(c, c.image.startsWith("registry/" + request.namespace)) && has(object.metadata.labels)`,
	} {
		expression := compilers.Compiled(b, c, text)
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

	c := compilers.Policies(t)
	for _, tc := range []struct {
		name, expression string
		ctx              context.Context
		want             error
	}{
		{name: "what is known costs too much", expression: `request.userInfo.groups.all(a, request.userInfo.groups.all(b, request.userInfo.groups.all(c, a + b + c != ""))) || object.y`, ctx: t.Context(), want: cel.ErrCost},
		{name: "a request that is gone", expression: `object.x == request.userInfo.username || object.y`, ctx: cancelled, want: context.Canceled},
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
	c := compilers.Policies(t)
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
		{name: "as long as may be", expression: `object.x == request.userInfo.username`, values: request(strings.Repeat("u", cel.MaxExpressionBytes-around), "create"), want: cel.MaxExpressionBytes},
		{name: "a byte longer", expression: `object.x == request.userInfo.username`, values: request(strings.Repeat("u", cel.MaxExpressionBytes-around+1), "create"), want: 0},
		{name: "an escaped character that makes it a byte longer", expression: `object.x == request.userInfo.username`, values: request(strings.Repeat("u", cel.MaxExpressionBytes-around-1)+"\n", "create"), want: 0},
		{name: "many short elements", expression: `object.x in request.userInfo.groups`, values: cel.Values{cel.Request: cel.Known(map[string]any{"userInfo": map[string]any{"groups": many}})}, want: 0},
		{name: "long in sum", expression: `object.x == request.userInfo.username && object.y == request.userInfo.username`, values: request(strings.Repeat("u", cel.MaxExpressionBytes/2), "create"), want: 0},
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

func conditionCompiler(t *testing.T) (*cel.Compiler, *partial.Compiler) {
	t.Helper()
	compiler := compilers.Conditions(t)
	inPart, err := partial.NewConditionCompiler(compiler)
	if err != nil {
		t.Fatal(err)
	}
	return compiler, inPart
}

func TestNoneOf(t *testing.T) {
	t.Parallel()
	compiler, inPart := conditionCompiler(t)
	const holds, fails, errs = `object.x == 1`, `object.x == 2`, `object.missing == 1`
	for _, tc := range []struct {
		name    string
		texts   []string
		want    bool
		wantErr bool
	}{
		{name: "one that holds", texts: []string{holds}, want: false, wantErr: false},
		{name: "one that does not", texts: []string{fails}, want: true, wantErr: false},
		{name: "one that fails", texts: []string{errs}, want: false, wantErr: true},
		{name: "one of several holds", texts: []string{fails, holds, fails}, want: false, wantErr: false},
		{name: "none holds", texts: []string{fails, fails}, want: true, wantErr: false},
		{name: "one fails, another holds", texts: []string{errs, holds}, want: false, wantErr: false},
		{name: "one holds, another fails", texts: []string{holds, errs}, want: false, wantErr: false},
		{name: "one fails, none holds", texts: []string{errs, fails}, want: false, wantErr: true},
		{name: "operators of lower precedence", texts: []string{`object.x == 2 ? true : object.x == 3`, `object.x == 2 || object.x == 3`}, want: true, wantErr: false},
		{name: "a comment at the end", texts: []string{`object.x == 2 // ) || (true`, fails}, want: true, wantErr: false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for range 2 { // the second time from the cache
				text, err := inPart.NoneOf(tc.texts...)
				if err != nil {
					t.Fatal(err)
				}
				program := compilers.Compiled(t, compiler, text)
				got, _, err := program.Eval(t.Context(), cel.Values{cel.Object: cel.Known(map[string]any{"x": 1})})
				if (err != nil) != tc.wantErr || got != tc.want {
					t.Errorf("%s: got %v, %v; want %v, error %v", text, got, err, tc.want, tc.wantErr)
				}
			}
		})
	}
}

func TestNoneOfRefuses(t *testing.T) {
	t.Parallel()
	_, inPart := conditionCompiler(t)
	for name, texts := range map[string][]string{
		"nothing":                nil,
		"no condition":           {`object.x`, `1`},
		"half of one":            {`object.x == 1) || (true`},
		"a variable of policy":   {`request.verb == "get"`},
		"more than a text holds": {strings.Repeat("object.x == 1 || ", 550) + "true", strings.Repeat("object.x == 2 || ", 550) + "true"},
	} {
		if text, err := inPart.NoneOf(texts...); !errors.Is(err, cel.ErrCompile) {
			t.Errorf("%s: got %q, %v; want a refusal", name, text, err)
		}
	}
}

func TestPrepareKeepsPlans(t *testing.T) {
	t.Parallel()
	_, inPart := conditionCompiler(t)
	const text = `impersonatedUser.username == object.owner`
	first, err := inPart.Prepare(text, cel.ImpersonatedUser)
	if err != nil {
		t.Fatal(err)
	}
	again, err := inPart.Prepare(text, cel.ImpersonatedUser)
	if err != nil || first != again {
		t.Errorf("it was planned again, %v", err)
	}
	if other, err := inPart.Prepare(text, cel.ImpersonatedRequest); err != nil || other == first {
		t.Errorf("other variables are known, but the plan is the same, %v", err)
	}
	for range 2 {
		if _, err := inPart.Prepare(`object.`); !errors.Is(err, cel.ErrCompile) {
			t.Errorf("got %v, want a refusal", err)
		}
	}
}

// TestValuesThatHoldThemselvesAreRefused evaluates conditions at authorization. The known data has 8^9 parts, because
// lists contain one list several times, and no function may walk through all of them.
func TestValuesThatHoldThemselvesAreRefused(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	value := "[request.name]" + strings.Repeat(".map(a, [a, a, a, a, a, a, a, a])", 9)
	for _, text := range []string{"dyn(" + value + ").sum() == 1", value + ".flatten(100).size() == 1", value + `.indexOf(dyn("")) == 1`} {
		expression := compilers.Compiled(t, c, text)
		plan, err := expression.Plan(cel.Request)
		if err != nil {
			t.Fatal(err)
		}
		outcome := plan.EvalWithin(t.Context(), request("alice", "create"), cel.NamespacedAuthorizationBudget)
		if err := outcome.Err(); err == nil || !strings.Contains(err.Error(), "too large") {
			t.Errorf("…%s: got %v for %d units, want a refusal", text[len(text)-25:], err, outcome.Cost())
		}
	}
}
