/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
	"github.com/proviso-authz/proviso/test/testutil/rows"
)

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	for _, tc := range []struct {
		name, expression, want string
	}{
		{name: "nothing", expression: ``, want: "Syntax error"},
		{name: "half an expression", expression: `object.`, want: "<input>:1:8"},
		{name: "not a bool", expression: `object.spec`, want: "it must yield bool, but yields dyn"},
		{name: "a string", expression: `"true"`, want: "it must yield bool, but yields string"},
		{name: "an unknown variable", expression: `request.verb == "get"`, want: "undeclared reference to 'request'"},
		{name: "an unknown field of a known type", expression: `impersonatedUser.password == ""`, want: "undefined field 'password'"},
		{name: "the status of a namespace", expression: `namespaceObject.status.phase == "Active"`, want: "undefined field 'status'"},
		{name: "an unknown function", expression: `now() == object`, want: "undeclared reference to 'now'"},
		{name: "a bad pattern", expression: `object.name.matches("(")`, want: "invalid matches argument"},
		{name: "what the compiler panics at", expression: `[?object.x].size() == 1`, want: "the compiler failed"},
		{name: "deep nesting", expression: strings.Repeat("(", 1000) + "true" + strings.Repeat(")", 1000), want: "recursion limit exceeded"},
		{name: "too long", expression: `"` + strings.Repeat("x", cel.MaxExpressionBytes) + `" == ""`, want: "longer than 10240 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, time := range []string{"first", "second, from the cache"} {
				program, err := compiler.Compile(tc.expression)
				if program != nil || !errors.Is(err, cel.ErrCompile) || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%s time: got %v, %v, want ErrCompile with %q", time, program, err, tc.want)
				}
				if err != nil && len(err.Error()) > 2000 {
					t.Errorf("%s time: the error is %d bytes long", time, len(err.Error()))
				}
			}
		})
	}
}

// values has something of every shape that JSON has.
func values() cel.Values {
	return cel.Values{
		cel.Object: map[string]any{
			"metadata": map[string]any{"name": "web", "labels": map[string]any{"team": "blue"}, "finalizers": []any{"a", "b"}},
			"spec": map[string]any{
				"replicas": int64(3), "ratio": 1.5, "huge": 1e300, "none": nil, "flag": true, "memory": "2Gi",
				"ports": []any{map[string]any{"name": "http", "port": int64(80)}, map[string]any{"name": "https", "port": "https"}},
			},
		},
		cel.OldObject: nil, cel.Options: nil, cel.Operation: "CREATE", cel.DryRun: false,
		cel.NamespaceObject:     map[string]any{"metadata": map[string]any{"name": "n", "labels": map[string]any{"env": "dev"}}},
		cel.ImpersonatedRequest: map[string]any{"verb": "get", "resource": "pods"},
		cel.ImpersonatedUser:    map[string]any{"username": "bob", "groups": []any{"g"}, "extra": map[string]any{"k": []any{"v"}}},
	}
}

func TestEval(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	type row struct {
		Expression string
		IsFalse    bool
		Error      string
	}
	rows.Run(t, "testdata/eval.yaml", func(t *testing.T, tc row) {
		program := compilers.Compiled(t, compiler, tc.Expression)
		got, _, err := program.Eval(t.Context(), values())
		switch {
		case tc.Error == "" && (err != nil || got == tc.IsFalse):
			t.Errorf("got %v, %v, want %v", got, err, !tc.IsFalse)
		case tc.Error != "" && (err == nil || got || !strings.Contains(err.Error(), tc.Error)):
			t.Errorf("got %v, %v, want an error with %q", got, err, tc.Error)
		}
	})
}

func TestEvalOfUnknownVariables(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	for _, variable := range []string{
		"object", "oldObject", "options", "operation", "dryRun", "namespaceObject", "impersonatedRequest", "impersonatedUser",
	} {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			program := compilers.Compiled(t, compiler, "dyn("+variable+") == null")
			if got, _, err := program.Eval(t.Context(), cel.Values{}); got || !errors.Is(err, cel.ErrEvaluation) {
				t.Errorf("got %v, %v, want ErrEvaluation", got, err)
			}
		})
	}
}

func TestEvalIsBounded(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	digits := "[1,2,3,4,5,6,7,8,9,10]"
	expression := "true"
	for _, variable := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		expression = digits + ".all(" + variable + ", " + expression + ")"
	}
	program := compilers.Compiled(t, compiler, expression)
	if got, cost, err := program.Eval(t.Context(), values()); got || !errors.Is(err, cel.ErrCost) || cost < cel.CostLimit {
		t.Errorf("ten million steps: got %v at cost %d, %v, want ErrCost", got, cost, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, cost, err := program.Eval(ctx, values()); got || !errors.Is(err, context.Canceled) || cost >= cel.CostLimit {
		t.Errorf("with a context that ended: got %v at cost %d, %v, want its error before the limit", got, cost, err)
	}
}

func TestReads(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	for _, tc := range []struct {
		expression string
		reads, not cel.Variable
	}{
		{expression: `object.a == oldObject.a`, reads: cel.OldObject, not: cel.Options},
		{expression: `impersonatedRequest.verb == "get" && "x" in impersonatedUser.groups`, reads: cel.ImpersonatedUser, not: cel.Object},
		{expression: `authorizer.requestResource.check("get").allowed()`, reads: cel.RequestResource, not: cel.Authorizer},
		{expression: `authorizer.path("/x").check("get").allowed()`, reads: cel.Authorizer, not: cel.RequestResource},
		{expression: `["a"].exists(x, x == operation)`, reads: cel.Operation, not: cel.Object},
	} {
		program := compilers.Compiled(t, compiler, tc.expression)
		if !program.Reads(tc.reads) || program.Reads(tc.not) {
			t.Errorf("%s: reads %s %v, reads %s %v", tc.expression, tc.reads, program.Reads(tc.reads), tc.not, program.Reads(tc.not))
		}
	}
}

// FuzzCompileAndEval compiles and evaluates whatever anybody may send.
func FuzzCompileAndEval(f *testing.F) {
	compiler := compilers.Conditions(f)
	for _, seed := range []string{
		`object.spec.storageClassName == "dev"`, `object.metadata.labels.exists(k, v, k == v)`, `[?object.x] == []`,
		`authorizer.group("").resource("x").check("y").allowed()`, `quantity("1Gi").isGreaterThan(quantity(object.spec.memory))`,
		"' || true || '", `"\x00\xff" == object`, `[[[[1]]]].map(a, a).size() > 0`, `object.?a.optMap(v, v).hasValue()`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		program, err := compiler.Compile(expression)
		if err != nil {
			if !errors.Is(err, cel.ErrCompile) {
				t.Errorf("error %v does not wrap ErrCompile", err)
			}
			return
		}
		got, _, err := program.Eval(t.Context(), values())
		if err != nil && got {
			t.Errorf("%q is true and an error at once: %v", expression, err)
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	const expression = `object.spec.storageClassName == "dev" && object.metadata.labels.all(k, v, k != "x")`
	b.Run("cached", func(b *testing.B) {
		compiler := compilers.Conditions(b)
		for b.Loop() {
			if _, err := compiler.Compile(expression); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("uncached", func(b *testing.B) {
		compiler := compilers.Conditions(b)
		i := 0
		for b.Loop() {
			i++
			// A text that was never seen: spaces at the end do not change what it costs.
			if _, err := compiler.Compile(expression + strings.Repeat(" ", i%8000) + strings.Repeat("\n", i/8000)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkEval(b *testing.B) {
	compiler := compilers.Conditions(b)
	program := compilers.Compiled(b, compiler, `object.metadata.name == "web" && object.spec.replicas < 5`)
	data := values()
	for b.Loop() {
		if ok, _, err := program.Eval(b.Context(), data); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

// TestCompileOnce checks that concurrent callers with the same text get the same program.
func TestCompileOnce(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	const callers = 16
	for _, text := range []string{`object.a == 1 && object.b.all(x, x == "a")`, `object.`} {
		var (
			group    sync.WaitGroup
			start    = make(chan struct{})
			programs [callers]*cel.Program
			errs     [callers]error
		)
		for i := range callers {
			group.Go(func() {
				<-start
				programs[i], errs[i] = compiler.Compile(text)
			})
		}
		close(start)
		group.Wait()
		for i := range callers {
			//nolint:errorlint // the very same error
			if programs[i] != programs[0] || errs[i] != errs[0] || (programs[i] == nil) == (errs[i] == nil) {
				t.Errorf("%s: caller %d got %p, %v, and the first %p, %v", text, i, programs[i], errs[i], programs[0], errs[0])
			}
		}
	}
}

// TestLibrary evaluates every operator and function of CEL and of the libraries of Kubernetes on values that the compiler cannot see, as
// the specification of the language and the documents of the libraries say. Authors of policies rely on each of them, also
// at the ends of its range.
func TestLibrary(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	object := map[string]any{
		"zero": int64(0), "one": int64(1), "two": int64(2), "minus": int64(-7), "max": int64(math.MaxInt64), "min": int64(math.MinInt64), "half": 0.5, "nan": math.NaN(), "inf": math.Inf(1), "negzero": math.Copysign(0, -1),
		"yes": true, "no": false, "absent": nil, "empty": "", "a": "a", "text": "Grüße, Welt", "bad": "\xff", "list": []any{int64(3), int64(1), int64(2)}, "words": []any{"b", "a", "b"}, "none": []any{}, "nested": []any{[]any{int64(1)}, []any{int64(2), []any{int64(3)}}},
		"mixed": []any{int64(1), "1", 1.0, nil}, "map": map[string]any{"k": "v", "n": int64(1)}, "nothing": map[string]any{}, "quantity": "1500m", "ip": "10.0.0.1", "cidr": "10.0.0.0/8", "url": "https://u:p@h.example:8443/p%20q/?a=b&a=c&d=", "version": "1.2.3-rc.1+b",
		"time": "2024-02-29T23:59:59.123Z", "duration": "1h30m", "json": `{"a":1}`, "pattern": "^[a-z]+$",
	}
	type row struct {
		Expression string
		IsFalse    bool
		Error      string
	}
	rows.Run(t, "testdata/library.yaml", func(t *testing.T, tc row) {
		got, _, err := compilers.Compiled(t, compiler, tc.Expression).Eval(t.Context(), cel.Values{cel.Object: object})
		switch {
		case tc.Error == "" && (err != nil || got == tc.IsFalse):
			t.Errorf("got %v, %v, want %v", got, err, !tc.IsFalse)
		case tc.Error != "" && (got || !errors.Is(err, cel.ErrEvaluation) || !strings.Contains(err.Error(), tc.Error)):
			t.Errorf("got %v, %v, want ErrEvaluation with %q", got, err, tc.Error)
		}
	})
}

// TestFailureClassQuotesNothing evaluates expressions whose errors quote the object.
func TestFailureClassQuotesNothing(t *testing.T) {
	t.Parallel()
	const secret = "se(cret"
	conditions := compilers.Conditions(t)
	environment, err := cel.NewPolicyEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	policies := cel.NewCompilerFor(environment)
	object := map[string]any{"s": secret, "m": map[string]any{}, "l": []any{}, "i": int64(77), "big": int64(1 << 62)}
	type row struct {
		Expression, Want string
		// IsPolicy says that the expression is in a policy, and not in a condition.
		IsPolicy bool
	}
	rows.Run(t, "testdata/failures.yaml", func(t *testing.T, tc row) {
		compiler := conditions
		if tc.IsPolicy {
			compiler = policies
		}
		program := compilers.Compiled(t, compiler, tc.Expression)
		_, _, err := program.Eval(t.Context(), cel.Values{cel.Object: object})
		if err == nil {
			t.Fatal("the evaluation did not fail")
		}
		if !errors.Is(err, cel.ErrEvaluation) && !errors.Is(err, cel.ErrCost) {
			t.Errorf("got %v, want ErrEvaluation or ErrCost", err)
		}
		got := cel.FailureClass(fmt.Errorf("wrapped: %w", err))
		if got != tc.Want || strings.Contains(got, "cret") || strings.Contains(got, "77") {
			t.Errorf("got class %q of %v, want %q", got, err, tc.Want)
		}
	})
}

// TestFailureClassOfOthers has errors that no evaluation made.
func TestFailureClassOfOthers(t *testing.T) {
	t.Parallel()
	if got := cel.FailureClass(errors.New("no such key: secret")); got != "evaluation failed" {
		t.Errorf("got %q", got)
	}
}

// TestDescribeMistakes asks what the compiler of policies says about names that there are not.
func TestDescribeMistakes(t *testing.T) {
	t.Parallel()
	conditions := compilers.Conditions(t)
	compiler, err := partial.NewPolicyCompiler(conditions)
	if err != nil {
		t.Fatal(err)
	}
	const variables = "; the variables are request, object, oldObject, operation, options, dryRun, namespaceObject, authorizer, variables"
	for condition, want := range map[string]string{
		`user == "a"`:                                            "undeclared reference to 'user'" + variables,
		`Object.a == 1`:                                          "undeclared reference to 'Object', did you mean 'object'?" + variables,
		`oldobject.a == 1 && x.y`:                                "1:1: undeclared reference to 'oldobject', did you mean 'oldObject'?; ERROR: <input>:1:21: undeclared reference to 'x'" + variables,
		`request.user.username == "a"`:                           "undefined field 'user', did you mean 'userInfo' or 'username'?",
		`request.username == "a"`:                                "undefined field 'username'",
		`request.operation == "CREATE"`:                          "undefined field 'operation', did you mean the variable 'operation'?",
		`request.userinfo.username == ""`:                        "undefined field 'userinfo', did you mean 'userInfo'?",
		`request.userInfo.userName == ""`:                        "undefined field 'userName', did you mean 'username'?",
		`namespaceObject.metadata.label.a`:                       "undefined field 'label', did you mean 'labelSelector' or 'labels'?",
		`request.verb == 1`:                                      "found no matching overload for '_==_' applied to '(string, int)'; a number is written without quotes, and a text in quotes",
		`1 in ["1"]`:                                             "'@in' applied to '(int, list(string))'; a number is written without quotes, and a text in quotes",
		`request.userInfo.name == "a"`:                           "undefined field 'name', the fields of userInfo are extra, groups, uid, username",
		`request.verb = "get"`:                                   "token recognition error at: '= '; equality is ==; ERROR: <input>:1:16: Syntax error: extraneous input '\"get\"' expecting <EOF>",
		`object.a == 1 and object.b == 1`:                        "Syntax error: mismatched input 'and' (write &&) expecting <EOF>",
		`object.a.startswith("a")`:                               "undeclared reference to the function 'startswith', did you mean 'startsWith'?",
		`len(object.a) > 0`:                                      "undeclared reference to the function 'len', did you mean 'size'?",
		`frobnicate(object.a)`:                                   "undeclared reference to the function 'frobnicate'",
		`namespaceObject.labels["a"] == "b"`:                     "undefined field 'labels', did you mean 'metadata.labels'?",
		`dryRun == "true"`:                                       "true and false are written without quotes, and ! is for what follows it, so that a comparison needs parentheses: !(a == b)",
		`object.a in "a"`:                                        `what follows in is a list: ["a", "b"]`,
		`request.userInfo.groups.contains("a")`:                  `an element of a list is found with in: "a" in list`,
		`object.a == "a" || "b"`:                                 "each part between && and || is a comparison of its own",
		`authorizer.path("/a").check("get")`:                     "a check ends with .allowed()",
		`object.a ==`:                                            "Syntax error: mismatched input '<EOF>' (the expression ends too early)",
		`object.a == {'[': 1} ) && [`:                            "mismatched input ')' expecting <EOF>",
		`object.metadata.labels.app.kubernetes.io/name == "a"`:   `undeclared reference to 'name' (in container ''); a key with a dot or a slash needs quotes: labels["app.kubernetes.io/name"]`,
		`object.metadata.?annotations.acme/x == optional.none()`: `; a key with a dot or a slash needs quotes: annotations["acme/x"]`,
		`object.metadata.labels.tier.startsWith(x)`:              "undeclared reference to 'x'" + variables,
		`object.metadata.labels["a"] == x`:                       "undeclared reference to 'x'" + variables,
	} {
		_, err := compiler.Compile(condition)
		if err == nil {
			t.Fatalf("%s compiles", condition)
		}
		if got := cel.DescribeMistakes(condition, err.Error()); !strings.HasSuffix(got, want) {
			t.Errorf("%s: got %s\nwant %s", condition, got, want)
		}
	}
}
