/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel_test

import (
	"context"
	"errors"
	"hash/crc32"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// requests are what is known at authorization: ordinary, hostile, and nearly nothing.
func requests() []cel.Values {
	user := func(name string, extra map[string]any, groups ...any) map[string]any {
		return map[string]any{"username": name, "uid": "", "groups": groups, "extra": extra}
	}
	request := func(verb, name string, userInfo map[string]any) cel.Values {
		return cel.Values{cel.Request: cel.Known(map[string]any{
			"verb": verb, "apiGroup": "", "apiVersion": "v1", "resource": "things", "subresource": "", "namespace": "n", "name": name, "path": "", "userInfo": userInfo,
			"labelSelector": map[string]any{"requirements": []any{requirement("app", "In", "web", "a"), requirement(name, "Exists")}},
		})}
	}
	last := map[string]any{"verb": "list", "name": nil, "userInfo": map[string]any{"username": "1", "groups": []any{"2Gi", "10.0.0.1"}},
		"fieldSelector": map[string]any{"requirements": []any{requirement("a", "=", "b")}}}
	return []cel.Values{
		{cel.Request: cel.Known(last)},
		request("create", "web", user("alice", map[string]any{"team": []any{"blue", "dev"}, "web": []any{}}, "devs", "system:authenticated")),
		request("update", "team", user("' || true || '", map[string]any{`"`: []any{`\`}}, "\" || true || \"", "line\nbreak", "(")),
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
		"big": uint64(math.MaxUint64), "least": int64(math.MinInt64), "memory": "2Gi", "address": "10.0.0.1",
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

// oracle checks the one law of partial evaluation: for every expression, known and
// unknown data, evaluating at once and evaluating the residual give the same.
type oracle struct {
	conditions *cel.Compiler
	policies   *cel.PartialCompiler
	requests   []cel.Values
	objects    []cel.Values
	created    []cel.Values // objects without what a create makes known

	cases, refused, decided, residuals, costly int
}

func newOracle(tb testing.TB) *oracle {
	tb.Helper()
	conditions := newCompiler(tb)
	policies, err := cel.NewPolicyCompiler(conditions)
	if err != nil {
		tb.Fatal(err)
	}
	o := &oracle{conditions: conditions, policies: policies, requests: requests(), objects: objects()}
	for _, object := range objects() {
		delete(object, cel.Operation)
		delete(object, cel.OldObject)
		o.created = append(o.created, object)
	}
	return o
}

// check returns what is wrong with an expression, or nothing. It is evaluated twice: once
// knowing the request alone, and once knowing also what a create makes known.
func (o *oracle) check(ctx context.Context, text string) string {
	expression, err := o.policies.Compile(text)
	if err != nil {
		o.refused++
		return ""
	}
	plan, err := expression.Plan(cel.Request)
	if err != nil {
		return "it cannot be planned: " + err.Error()
	}
	creation, err := expression.Plan(cel.Request, cel.Operation, cel.OldObject)
	if err != nil {
		return "it cannot be planned for a create: " + err.Error()
	}
	for _, request := range o.requests {
		if problem := o.compare(ctx, expression, plan, request, o.objects); problem != "" {
			return problem
		}
		known := cel.Values{cel.Request: request[cel.Request], cel.Operation: cel.Known("CREATE"), cel.OldObject: cel.Known(nil)}
		if problem := o.compare(ctx, expression, creation, known, o.created); problem != "" {
			return "for a create " + problem
		}
	}
	return ""
}

// compare evaluates in two stages and at once, for all objects.
func (o *oracle) compare(ctx context.Context, expression *cel.Expression, plan *cel.Plan, known cel.Values, objects []cel.Values) string {
	var (
		outcome      = plan.Eval(ctx, known)
		residual     *cel.Program
		residualText string
		err          error
	)
	if r := outcome.Residual(); r != nil {
		o.residuals++
		if residualText, err = r.Text(); err != nil {
			return "its residual cannot be expressed: " + err.Error() + "\nresidual: " + cel.ResidualText(r)
		}
		if residual, err = o.conditions.Compile(residualText); err != nil {
			return "its residual does not compile: " + err.Error()
		}
	} else {
		o.decided++
	}
	for _, object := range objects {
		o.cases++
		all := cel.Values{}
		maps.Copy(all, object)
		maps.Copy(all, known)
		value, _, wholeErr := expression.Program().Eval(ctx, all)
		want := verdictOf(value, wholeErr)
		if wholeErr != nil && strings.Contains(wholeErr.Error(), "internal error") {
			return "a function panics, which ends an evaluation even where || would not look: " + wholeErr.Error()
		}
		got, gotErr := verdictOf(outcome.IsTrue(), outcome.Err()), outcome.Err()
		if residual != nil {
			value, _, gotErr = residual.Eval(ctx, object)
			got = verdictOf(value, gotErr)
		}
		if errors.Is(wholeErr, cel.ErrCost) || errors.Is(gotErr, cel.ErrCost) {
			o.costly++ // each evaluation has a budget of its own
			continue
		}
		if got != want {
			return "it is " + string(want) + " at once, but " + string(got) + " in two stages\nresidual: " + residualText + "\nat once: " + errText(wholeErr)
		}
	}
	return ""
}

func errText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

// oracleCases is how many cases TestOracle compares. ORACLE_CASES sets another number.
const oracleCases = 60_000

func TestOracle(t *testing.T) {
	t.Parallel()
	want := oracleCases
	if text := os.Getenv("ORACLE_CASES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		want = n
	}
	if testing.Short() {
		want /= 10
	}
	seed := uint64(1)
	if text := os.Getenv("ORACLE_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	o := newOracle(t)
	failures := 0
	for i := uint64(0); o.cases < want; i++ {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, i))}
		text := g.boolean(1 + g.IntN(4))
		if len(text) > cel.MaxExpressionBytes/4 {
			continue
		}
		if problem := o.check(t.Context(), text); problem != "" {
			t.Errorf("%s\n%s", text, problem)
			if failures++; failures == 20 {
				break
			}
		}
	}
	t.Logf("%d cases, %d expressions refused, %d decided, %d residuals, %d cases too costly", o.cases, o.refused, o.decided, o.residuals, o.costly)
}

// FuzzOracle lets the fuzzer choose what the generator does.
func FuzzOracle(f *testing.F) {
	o := newOracle(f)
	for i := range uint64(64) {
		f.Add(i, i*i, 2+int(i%3))
	}
	f.Fuzz(func(t *testing.T, a, b uint64, depth int) {
		g := &generator{Rand: rand.New(rand.NewPCG(a, b))}
		text := g.boolean(1 + (depth&0xff)%4)
		if problem := o.check(t.Context(), text); problem != "" {
			t.Errorf("%s\n%s", text, problem)
		}
	})
}
