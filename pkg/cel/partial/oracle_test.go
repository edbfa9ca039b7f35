/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/bound"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/test/testutil/cases"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// requests are what is known at authorization: ordinary, hostile, and nearly nothing.
func requests() []map[string]any {
	user := func(name string, extra map[string]any, groups ...any) map[string]any {
		return map[string]any{"username": name, "uid": "", "groups": groups, "extra": extra}
	}
	request := func(verb, name string, userInfo map[string]any) map[string]any {
		return map[string]any{
			"verb": verb, "apiGroup": "", "apiVersion": "v1", "resource": "things", "subresource": "", "namespace": "n", "name": name, "path": "", "userInfo": userInfo,
			"labelSelector": map[string]any{"requirements": []any{requirement("app", "In", "web", "a"), requirement(name, "Exists")}},
		}
	}
	literals := []any{}
	for _, l := range literalTable {
		literals = append(literals, l.text)
	}
	last := map[string]any{"verb": "list", "name": nil, "resource": int64(7), "userInfo": map[string]any{"username": "1", "groups": []any{"2Gi", "10.0.0.1"}},
		"fieldSelector": map[string]any{"requirements": []any{requirement("a", "=", "b")}}}
	return []map[string]any{
		last,
		request("create", "web", user("alice", map[string]any{"team": []any{"blue", "dev"}, "web": []any{}, "f": []any{"9007199254740992.0", "9007199254740992"}, "l": literals}, "devs", "system:authenticated")),
		request("update", "team", user("' || true || '", map[string]any{`"`: []any{`\`}, "l": literals}, "\" || true || \"", "line\nbreak", "(")),
		request("", "", user("", map[string]any{})),
	}
}

func requirement(key, operator string, values ...any) map[string]any {
	return map[string]any{"key": key, "operator": operator, "values": append([]any{}, values...)}
}

// objects are what is unknown at authorization.
func objects() []cel.Values {
	full := map[string]any{
		"a": "alice", "b": int64(1), "f": 1.5, "t": true, "n": nil, "list": []any{"devs", int64(1), 2.5, nil}, "web": "x",
		"i": int64(9007199254740993), "big": uint64(math.MaxUint64), "least": int64(math.MinInt64), "memory": "2Gi", "address": "10.0.0.1",
		"spec": map[string]any{"x": "web", "y": true, "huge": 1e300, "list": []any{[]any{"a"}, map[string]any{"a": int64(1)}}}, "labels": map[string]any{"owner": "alice", "web": "web", "a": "b"},
	}
	other := map[string]any{
		"a": true, "b": "b", "list": []any{}, "spec": map[string]any{"x": false}, "labels": map[string]any{}, "missing": map[string]any{"a": "a"},
		"n": map[string]any{"x": nil}, "big": int64(math.MaxInt64), "least": -1e300, "memory": int64(2), "address": "::1",
	}
	rest := func(v cel.Values) cel.Values {
		v[cel.Operation], v[cel.DryRun] = "UPDATE", false
		v[cel.NamespaceObject] = map[string]any{"metadata": map[string]any{"name": "n", "labels": map[string]any{"env": "dev"}}}
		v[cel.ImpersonatedRequest] = map[string]any{"verb": "get"}
		v[cel.Authorizer] = library.NewAuthorizerVal(caller, fakeAuthorizer{})
		v[cel.RequestResource] = library.NewResourceAuthorizerVal(caller, fakeAuthorizer{}, fakeResource{})
		v[cel.ImpersonatedUser] = map[string]any{"username": "bob", "groups": []any{"devs"}, "extra": map[string]any{}}
		return v
	}
	return []cel.Values{
		rest(cel.Values{cel.Object: full, cel.OldObject: other, cel.Options: nil}),
		rest(cel.Values{cel.Object: other, cel.OldObject: full, cel.Options: map[string]any{"x": int64(3)}}),
		rest(cel.Values{cel.Object: nil, cel.OldObject: full, cel.Options: nil}),
		{cel.Object: full, cel.OldObject: nil, cel.Options: nil, cel.Operation: "CREATE", cel.DryRun: true},
		{cel.Object: map[string]any{"a": map[string]any{"a": "web"}, "spec": "text", "list": map[string]any{"a": "b"}, "labels": []any{"x"}}, cel.OldObject: nil, cel.Options: nil, cel.Operation: "", cel.DryRun: true},
	}
}

var caller = &user.DefaultInfo{Name: "alice", Groups: []string{"devs"}}

// fakeAuthorizer answers by what it is asked, and always the same.
type fakeAuthorizer struct{}

func (fakeAuthorizer) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	switch hash := crc32.ChecksumIEEE([]byte(a.GetUser().GetName() + "\n" + a.GetVerb() + "\n" + a.GetResource() + "\n" + a.GetName() + "\n" + a.GetPath())); hash % 4 {
	case 0:
		return authorizer.DecisionDeny, "web", nil
	case 1:
		return authorizer.DecisionNoOpinion, "", errors.New("no answer")
	default:
		return authorizer.DecisionAllow, a.GetName(), nil
	}
}

type fakeResource struct{}

func (fakeResource) GetName() string        { return "web" }
func (fakeResource) GetNamespace() string   { return "n" }
func (fakeResource) GetSubresource() string { return "" }
func (fakeResource) GetResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "things"}
}

type verdict string

func verdictOf(value bool, err error) verdict {
	if err != nil {
		return "error"
	}
	return verdict(strconv.FormatBool(value))
}

// oracle checks the one law of partial evaluation: for every expression, known and unknown
// data, all ways of evaluating give the same: at once, the text of the residual, the bound form,
// in the process that decided the program with the known data, and the expression and the text of
// the residual in cel-go without what this package puts around it. Objects of built-in kinds have
// their Go types where the process evaluates, and are decoded from JSON elsewhere.
type oracle struct {
	conditions *cel.Compiler
	policies   *partial.Compiler
	bounds     *bound.Compiler
	requests   []map[string]any
	objects    []cel.Values
	typed      []typedInput
	// plain are cel-go without what this package puts around it, for policies and for conditions.
	plainPolicies, plainConditions *partial.Plain

	unlike                                                                   map[string]int
	cases, refused, decided, residuals, unbound, costly, unordered, excepted int
}

func newOracle(tb testing.TB) *oracle {
	tb.Helper()
	conditions := compilers.Conditions(tb)
	policies, err := partial.NewPolicyCompiler(conditions)
	if err != nil {
		tb.Fatal(err)
	}
	bounds, err := bound.NewCompiler()
	if err != nil {
		tb.Fatal(err)
	}
	plainPolicies, plainConditions, err := partial.NewPlain()
	if err != nil {
		tb.Fatal(err)
	}
	return &oracle{
		conditions: conditions, policies: policies, bounds: bounds, requests: requests(), objects: objects(), typed: typedInputs(tb),
		plainPolicies: plainPolicies, plainConditions: plainConditions, unlike: map[string]int{},
	}
}

// randomObjects is how many objects at random each expression meets besides the others.
const randomObjects = 4

// unknowns are what is unknown at authorization: once in general, and once for a create.
func (o *oracle) unknowns(g *generator) (general, created []input) {
	for _, values := range o.objects {
		general = append(general, input{values: values})
	}
	for range randomObjects {
		general = append(general, input{values: g.admission()})
	}
	typed := o.typed[g.IntN(len(o.typed))]
	general = append(general, input{values: cel.Values{cel.Object: typed.decoded, cel.OldObject: nil, cel.Options: nil, cel.Operation: "UPDATE", cel.DryRun: false}, typed: typed.object})
	for _, in := range general {
		in.values = maps.Clone(in.values)
		delete(in.values, cel.Operation)
		delete(in.values, cel.OldObject)
		created = append(created, in)
	}
	return general, created
}

// check returns what is wrong with an expression, or nothing. It is evaluated twice: once
// knowing the request alone, and once knowing also what a create makes known.
func (o *oracle) check(ctx context.Context, g *generator, variables []cel.NamedExpression, text string) string {
	expression, err := o.policies.CompileWithVariables(variables, text)
	if err != nil {
		o.refused++
		return ""
	}
	again, err := o.policies.Compile(expression.Text())
	if err != nil && variables != nil && strings.Contains(err.Error(), " than ") {
		o.refused++ // with what they stand for it is too much for one text
		return ""
	}
	if err != nil {
		return "its text " + expression.Text() + " does not compile: " + err.Error()
	}
	if !partial.SameTree(expression, again) {
		return "its text " + expression.Text() + " is another expression"
	}
	plan, err := expression.Plan(cel.Request)
	if err != nil {
		return "it cannot be planned: " + err.Error()
	}
	creation, err := expression.Plan(cel.Request, cel.Operation, cel.OldObject)
	if err != nil {
		return "it cannot be planned for a create: " + err.Error()
	}
	plain, err := o.plainPolicies.Compile(expression.Text())
	if err != nil {
		return "cel-go does not compile it: " + err.Error()
	}
	general, created := o.unknowns(g)
	for _, data := range o.requests {
		request := cel.Known(data)
		var condition *bound.Program
		if text, err := expression.Bound(data); err != nil {
			o.unbound++
		} else if condition, err = o.bounds.Compile(text); err != nil {
			return "its bound form " + text + " does not compile: " + err.Error()
		}
		ways := route{expression: expression, plain: plain, plan: plan, bound: condition}
		if problem := o.compare(ctx, ways, cel.Values{cel.Request: request}, general); problem != "" {
			return problem
		}
		ways.plan, ways.extra = creation, cel.Values{cel.Operation: "CREATE", cel.OldObject: nil}
		known := cel.Values{cel.Request: request, cel.Operation: cel.Known("CREATE"), cel.OldObject: cel.Known(nil)}
		if problem := o.compare(ctx, ways, known, created); problem != "" {
			return "for a create " + problem
		}
	}
	return ""
}

// route is what an expression is evaluated by for one request.
type route struct {
	expression *partial.Expression
	// plain is the expression as cel-go alone evaluates it.
	plain func(cel.Values) (bool, error)
	plan  *partial.Plan
	bound *bound.Program
	// extra is what is known besides the request, as data.
	extra cel.Values
}

// residual evaluates in part, and makes an evaluation of what remains.
func (o *oracle) residual(ctx context.Context, plan *partial.Plan, known cel.Values) (eval func(cel.Values) (bool, uint64, error), text, problem string) {
	outcome := plan.Eval(ctx, known)
	r := outcome.Residual()
	if r == nil {
		o.decided++
		return func(cel.Values) (bool, uint64, error) { return outcome.IsTrue(), 0, outcome.Err() }, "none", ""
	}
	o.residuals++
	text, err := r.Text()
	if err != nil {
		return nil, "", "its residual cannot be expressed: " + err.Error() + "\nresidual: " + partial.ResidualText(r)
	}
	if n := partial.ResidualLength(r); n != len(text) {
		return nil, "", fmt.Sprintf("the length of its residual %s is %d, but it is counted as %d", text, len(text), n)
	}
	program, err := o.conditions.Compile(text)
	if err != nil {
		return nil, "", "its residual does not compile: " + err.Error()
	}
	plain, err := o.plainConditions.Compile(text)
	if err != nil {
		return nil, "", "cel-go does not compile its residual: " + err.Error()
	}
	return func(object cel.Values) (bool, uint64, error) {
		value, cost, err := program.Eval(ctx, object)
		if r.NeverTrue() && value {
			return value, cost, errors.New("it is true, though its residual is said to be never")
		}
		if alone, plainErr := plain(object); verdictOf(alone, plainErr) != verdictOf(value, err) && !errors.Is(err, cel.ErrCost) && !o.isUnlike(err, plainErr) {
			return alone, cost, fmt.Errorf("cel-go alone evaluates the residual to %s: %w", verdictOf(alone, plainErr), cmp.Or(plainErr, errAlone))
		}
		return value, cost, err
	}, text, ""
}

var errAlone = errors.New("without an error")

// compare evaluates in every way, for all objects.
func (o *oracle) compare(ctx context.Context, ways route, known cel.Values, objects []input) string {
	inTwoStages, residual, problem := o.residual(ctx, ways.plan, known)
	if problem != "" {
		return problem
	}
	for _, object := range objects {
		o.cases++
		all, later := object.inProcess(), maps.Clone(object.values)
		maps.Copy(all, known)
		maps.Copy(later, ways.extra)
		value, _, wholeErr := ways.expression.Program().Eval(ctx, all)
		want := verdictOf(value, wholeErr)
		if wholeErr != nil && strings.Contains(wholeErr.Error(), "internal error") {
			return "a function panics, which ends an evaluation even where || would not look: " + wholeErr.Error()
		}
		differs := func(way string, value bool, _ uint64, err error) string {
			if errors.Is(wholeErr, cel.ErrCost) || errors.Is(err, cel.ErrCost) {
				o.costly++ // each evaluation has a budget of its own
				return ""
			}
			if got := verdictOf(value, err); got != want && !o.varies(ctx, ways.expression, object, known, want) {
				return fmt.Sprintf("it is %s at once, but %s %s\nresidual: %s\nat once: %v\n%s: %v", want, got, way, residual, wholeErr, way, err)
			}
			return ""
		}
		value, cost, err := inTwoStages(object.values)
		problem := differs("in two stages", value, cost, err)
		if problem == "" && ways.bound != nil {
			value, cost, err = ways.bound.Eval(ctx, later)
			problem = differs("when bound", value, cost, err)
		}
		if problem == "" && ways.extra != nil {
			later[cel.Request] = known[cel.Request]
			value, cost, err = ways.expression.Program().Eval(ctx, later)
			problem = differs("in the process", value, cost, err)
		}
		if problem == "" {
			all = object.inProcess() // a reader is for one evaluation
			maps.Copy(all, known)
			value, err = ways.plain(all)
			if verdictOf(value, err) != want && !o.isUnlike(wholeErr, err) {
				problem = differs("for cel-go alone", value, 0, err)
			}
		}
		if problem != "" {
			return problem
		}
	}
	return ""
}

// isUnlike reports whether an evaluation is one that differs from that of cel-go on purpose.
func (o *oracle) isUnlike(ours, plain error) bool {
	for _, exception := range plainExceptions {
		if (exception.plain != "" && plain != nil && strings.Contains(plain.Error(), exception.plain)) ||
			(exception.ours != "" && ours != nil && strings.Contains(ours.Error(), exception.ours)) {
			o.unlike[exception.name]++
			o.excepted++
			return true
		}
	}
	return false
}

// plainExceptions are where evaluation differs from that of cel-go, by the errors that show it. Two
// more, keys of types that CEL has no keys of, and quantities that are too large, are in Plain.
var plainExceptions = []struct{ name, ours, plain string }{
	{name: "a function panics, which ends the evaluation of cel-go", plain: "internal error"},
	{name: "a function would do too much", ours: "the arguments of a function are too large"},
	{name: "the cost, which cel-go estimates otherwise for functions over lists", plain: "cost limit exceeded"},
	{name: "a pattern is too large", ours: "its regular expressions are larger"},
	{name: "a pattern of the object is too long", ours: "a regular expression that is not a constant is longer"},
	{name: "a pattern takes too long to parse", ours: "regular expressions take too long to parse"},
}

// varies reports whether an expression gives different verdicts for the same data: the
// macros over maps take the keys in any order.
func (o *oracle) varies(ctx context.Context, expression *partial.Expression, object input, known cel.Values, want verdict) bool {
	const often = 64
	for range often {
		values := object.inProcess()
		maps.Copy(values, known)
		value, _, err := expression.Program().Eval(ctx, values)
		if verdictOf(value, err) != want {
			o.unordered++
			return true
		}
	}
	return false
}

// oracleCases is how many cases TestOracle compares. ORACLE_CASES sets another number,
// ORACLE_SEED another start, ORACLE_WORKERS how many do it at a time, and ORACLE_FAILURES
// after how many failures each stops.
const oracleCases = 60_000

// oracleTime is the time for the cases, unless ORACLE_CASES is set.
const oracleTime = 10 * time.Second

func environmentNumber(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestOracle(t *testing.T) {
	t.Parallel()
	want, workers := environmentNumber(t, "ORACLE_CASES", oracleCases), environmentNumber(t, "ORACLE_WORKERS", 1)
	limit := cases.For(oracleTime, want)
	seed, enough := environmentNumber(t, "ORACLE_SEED", 1), environmentNumber(t, "ORACLE_FAILURES", 20)
	_, isLong := os.LookupEnv("ORACLE_CASES")
	var group sync.WaitGroup
	for worker := range workers {
		o := newOracle(t)
		group.Go(func() {
			failures := 0
			for i := worker; o.cases < want/workers && failures < enough && (isLong || !limit.IsOver()); i += workers {
				g := &generator{Rand: rand.New(rand.NewPCG(uint64(seed), uint64(i)))}
				variables, text := g.policy(1 + g.IntN(4))
				if len(text) > cel.MaxExpressionBytes/4 {
					continue
				}
				if problem := o.check(t.Context(), g, variables, text); problem != "" {
					t.Errorf("%s\n%s\n%s", variables, text, problem)
					failures++
				}
			}
			t.Logf("seed %d; unlike cel-go: %v", seed, o.unlike)
			t.Logf("%d cases, %d expressions refused, %d decided, %d residuals, %d not bound, %d cases too costly, %d of no order",
				o.cases, o.refused, o.decided, o.residuals, o.unbound, o.costly, o.unordered)
			if decisions := o.decided + o.residuals; o.unbound*8 > decisions || o.refused*4 > decisions || o.costly*20 > o.cases || o.unordered*1000 > o.cases || o.excepted*20 > o.cases {
				t.Error("too little was compared")
			}
		})
	}
	group.Wait()
}

// FuzzOracle lets the fuzzer choose what the generator does.
func FuzzOracle(f *testing.F) {
	o := newOracle(f)
	for i := range uint64(64) {
		f.Add(i, i*i, 2+int(i%3))
	}
	f.Fuzz(func(t *testing.T, a, b uint64, depth int) {
		g := &generator{Rand: rand.New(rand.NewPCG(a, b))}
		variables, text := g.policy(1 + (depth&0xff)%4)
		if problem := o.check(t.Context(), g, variables, text); problem != "" {
			t.Errorf("%s\n%s\n%s", variables, text, problem)
		}
	})
}

// FuzzExpression lets the fuzzer write expressions. Those on which the ways have disagreed
// are in testdata/fuzz.
func FuzzExpression(f *testing.F) {
	o := newOracle(f)
	f.Fuzz(func(t *testing.T, text string) {
		g := &generator{Rand: rand.New(rand.NewPCG(1, 1))}
		if problem := o.check(t.Context(), g, nil, text); problem != "" {
			t.Errorf("%s\n%s", text, problem)
		}
	})
}
