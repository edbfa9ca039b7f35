/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package celeval_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

func compiler(t *testing.T) *cel.Compiler {
	t.Helper()
	c, err := cel.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What an outcome is.
const (
	isTrue        = "true"
	isFalse       = "false"
	isError       = "error"
	isResidual    = "residual"
	isUnsupported = "unsupported"
)

var errCheck = errors.New("the check failed")

func celCondition(text string) authorization.Condition {
	return authorization.Condition{ID: "example.com/c", Effect: authorization.EffectAllow, Type: authorization.ConditionTypeCEL, Text: text}
}

func outcomeOf(o authorization.Outcome) string {
	switch {
	case o.IsTrue():
		return isTrue
	case o.IsFalse():
		return isFalse
	case o.IsError():
		return isError
	case o.IsResidual():
		return isResidual
	default:
		return isUnsupported
	}
}

func TestEvaluator(t *testing.T) {
	t.Parallel()
	shared := compiler(t)
	inPart, err := partial.NewConditionCompiler(shared)
	if err != nil {
		t.Fatal(err)
	}
	object := map[string]any{"spec": map[string]any{"storageClassName": "dev", "size": 1.5}}
	for _, tc := range []struct {
		name    string
		c       authorization.Condition
		unknown bool
		want    string
	}{
		{"true", celCondition(`object.spec.storageClassName == "dev"`), false, isTrue},
		{"false", celCondition(`object.spec.storageClassName == "prod"`), false, isFalse},
		{"a missing field", celCondition(`object.spec.missing == "x"`), false, isError},
		{"does not compile", celCondition(`object.`), false, isError},
		{"not a bool", celCondition(`object.spec`), false, isError},
		{"known at authorization, not here", celCondition(`request.verb == "create"`), false, isError},
		{"an unknown type", authorization.Condition{ID: "example.com/c", Type: "example.com/opaque"}, false, isUnsupported},
		{"the object is unknown", celCondition(`object.spec.size == 1.5`), true, isResidual},
		{"impersonation is known", celCondition(`impersonatedRequest.verb == "get"`), true, isTrue},
		{"impersonation decides against it", celCondition(`impersonatedRequest.verb == "create" && object.spec.size == 1.5`), true, isFalse},
		{"an unknown type, and the object is unknown", authorization.Condition{ID: "example.com/c", Type: "example.com/opaque"}, true, isResidual},
		{"both", celCondition(`impersonatedRequest.verb == "get" && object.spec.size == 1.5`), true, isResidual},
		{"does not compile, and the object is unknown", celCondition(`object.`), true, isResidual},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			values := cel.Values{cel.ImpersonatedRequest: cel.Known(map[string]any{"verb": "get"})}
			evaluator := &celeval.Evaluator{Compiler: shared, Values: values}
			if tc.unknown {
				evaluator.Partial = inPart
			} else {
				values[cel.Object] = object
			}
			if got := evaluator.EvaluateCondition(t.Context(), tc.c); outcomeOf(got) != tc.want {
				t.Errorf("got %s (%v), want %s", outcomeOf(got), got.Err(), tc.want)
			}
		})
	}
}

func TestEvaluatorSpendsABudget(t *testing.T) {
	t.Parallel()
	list := "[" + strings.TrimSuffix(strings.Repeat("1,", 30), ",") + "]"
	// 30 × 30 × 30 steps cost some hundred thousand units; dozens of them exceed the
	// budget, none exceeds the limit of one.
	expensive := celCondition(fmt.Sprintf("%[1]s.all(a, %[1]s.all(b, %[1]s.all(c, a + b + c == 3)))", list))
	evaluator := &celeval.Evaluator{Compiler: compiler(t), Values: cel.Values{}}
	evaluator.Spend(cel.CostBudget / 10 * 9) // the rest is enough for some
	ran := 0
	for range 100 {
		outcome := evaluator.EvaluateCondition(t.Context(), expensive)
		if outcome.IsTrue() {
			ran++
			continue
		}
		if !errors.Is(outcome.Err(), cel.ErrCost) {
			t.Fatalf("got %v, want ErrCost", outcome.Err())
		}
		break
	}
	if outcome := evaluator.EvaluateCondition(t.Context(), celCondition("true")); !outcome.IsError() || !errors.Is(outcome.Err(), cel.ErrCost) {
		t.Errorf("after the budget: got %s, want an error", outcomeOf(outcome))
	}
	if ran == 0 || ran == 100 {
		t.Errorf("%d evaluations ran, want some but not all", ran)
	}
}

// secondary is an authorizer for the checks of conditions.
type secondary struct {
	asked   int
	verb    string
	failure error
}

func (s *secondary) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	s.asked++
	if s.failure != nil {
		return authorizer.DecisionDeny, "", s.failure
	}
	if a.GetVerb() == s.verb && a.GetUser().GetName() == "alice" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

type requestResource struct{}

func (requestResource) GetName() string      { return "name" }
func (requestResource) GetNamespace() string { return "namespace" }
func (requestResource) GetResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "g", Version: "v1", Resource: "things"}
}
func (requestResource) GetSubresource() string { return "" }

// TestEvaluatorBudgetCountsWork evaluates as many conditions as a review may have, each of
// which is cheap by the trackers of Kubernetes and takes many milliseconds. The budget must end
// them after a part, and deny.
func TestEvaluatorBudgetCountsWork(t *testing.T) {
	t.Parallel()
	const conditions, most = 512, 32
	pairs, texts := make([]any, 16_000), make([]any, 1_000)
	for i := range pairs {
		pairs[i] = map[string]any{"a": int64(i)}
	}
	for i := range texts {
		texts[i] = strings.Repeat("a", 1_000) + fmt.Sprint(i)
	}
	object := map[string]any{"dense": pairs, "texts": texts, "text": strings.Repeat("a", 2_000)}
	for _, tc := range []struct{ name, condition string }{
		{name: "dense objects that are compared", condition: `object.dense != oldObject.dense`},
		{name: "dense objects that are looked for", condition: `!(object.dense in [oldObject.dense])`},
		{name: "texts that are sorted", condition: `object.texts.sort().size() == 0`},
		{name: "texts that are sorted by themselves", condition: `object.texts.sortBy(t, t).size() == 0`},
		{name: "patterns that repeat", condition: `object.text.matches("(a?){900}(a?){100}b")`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			evaluator := &celeval.Evaluator{Compiler: compiler(t), Values: cel.Values{cel.Object: object, cel.OldObject: object}}
			evaluator.Spend(cel.CostBudget / 10 * 9) // a tenth takes a tenth of the time
			evaluated := 0
			for range conditions {
				if outcome := evaluator.EvaluateCondition(t.Context(), celCondition(tc.condition)); !outcome.IsFalse() {
					if !errors.Is(outcome.Err(), cel.ErrCost) {
						t.Fatalf("got %s, %v, want ErrCost", outcomeOf(outcome), outcome.Err())
					}
					break
				}
				evaluated++
			}
			if evaluated == 0 || evaluated > most {
				t.Errorf("%d conditions were evaluated, want some and at most %d", evaluated, most)
			}
			denial := celCondition(tc.condition)
			denial.Effect = authorization.EffectDeny
			sets := []authorization.Set{{AuthorizerName: "a", Decision: authorization.Conditions(denial)}, {AuthorizerName: "b", Decision: authorization.Allow("", nil)}}
			if decision := authorization.Chained(sets...).Evaluate(t.Context(), evaluator); !decision.IsDeny() {
				t.Errorf("got %+v after the budget, want Deny", decision)
			}
		})
	}
}

func TestEvaluatorSecondaryChecks(t *testing.T) {
	t.Parallel()
	shared := compiler(t)
	refused := errors.New("not permitted")
	for _, tc := range []struct {
		name       string
		expression string
		failure    error
		permit     error
		want       string
		wantAsked  int
	}{
		{"allowed", `authorizer.group("").resource("pods").check("sign").allowed()`, nil, nil, isTrue, 1},
		{"not allowed", `authorizer.group("").resource("pods").check("get").allowed()`, nil, nil, isFalse, 1},
		{"the request's resource", `authorizer.requestResource.check("sign").allowed()`, nil, nil, isTrue, 1},
		{"no check is made", `true || authorizer.path("/x").check("get").allowed()`, nil, nil, isTrue, 0},
		{"an error is no answer, negated or not", `!authorizer.path("/x").check("get").allowed()`, errCheck, nil, isError, 1},
		{"an error does not matter where the other operand decides", `authorizer.path("/x").check("get").allowed() || true`, errCheck, nil, isTrue, 1},
		{"an error beside an operand that does not decide", `authorizer.path("/x").check("get").allowed() || false`, errCheck, nil, isError, 1},
		{"an error is not hidden by asking for it", `authorizer.path("/x").check("get").errored()`, errCheck, nil, isError, 1},
		{"too many checks that fail", `[1,2,3,4,5,6,7,8].exists(i, authorizer.path("/x").check("get").allowed()) || true`, errCheck, nil, isError, 3},
		{"checks that the caller may not make", `!authorizer.path("/x").check("get").allowed()`, nil, refused, isError, 0},
		{"too many checks", `[1,2,3,4,5,6,7,8].exists(i, authorizer.path("/x").check("get").allowed()) == false`, nil, nil, isError, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			checks := &secondary{verb: "sign", failure: tc.failure}
			evaluator := &celeval.Evaluator{Compiler: shared, Values: cel.Values{}, Secondary: &celeval.SecondaryChecks{
				Authorizer: checks, User: &user.DefaultInfo{Name: "alice"}, Resource: requestResource{},
				Permit: func(context.Context) error { return tc.permit },
			}}
			got := evaluator.EvaluateCondition(t.Context(), celCondition(tc.expression))
			if outcomeOf(got) != tc.want || checks.asked != tc.wantAsked {
				t.Errorf("got %s (%v) after %d checks, want %s after %d", outcomeOf(got), got.Err(), checks.asked, tc.want, tc.wantAsked)
			}
		})
	}
}

func TestEvaluatorWithoutSecondaryChecks(t *testing.T) {
	t.Parallel()
	evaluator := &celeval.Evaluator{Compiler: compiler(t), Values: cel.Values{}}
	if got := evaluator.EvaluateCondition(t.Context(), celCondition(`!authorizer.path("/x").check("get").allowed()`)); !got.IsError() {
		t.Errorf("got %s, want an error", outcomeOf(got))
	}
}

func TestEvaluatorStopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	list := "[" + strings.TrimSuffix(strings.Repeat("1,", 60), ",") + "]"
	evaluator := &celeval.Evaluator{Compiler: compiler(t), Values: cel.Values{}}
	got := evaluator.EvaluateCondition(ctx, celCondition(fmt.Sprintf("%[1]s.all(a, %[1]s.all(b, a == b))", list)))
	if !got.IsError() || !errors.Is(got.Err(), context.Canceled) {
		t.Errorf("got %s (%v), want the error of the context", outcomeOf(got), got.Err())
	}
}

// TestEvaluatorPaysForCompiling evaluates conditions that take long to compile and nothing to
// evaluate: their budget ends, at the same condition each time.
func TestEvaluatorPaysForCompiling(t *testing.T) {
	t.Parallel()
	shared := compiler(t)
	inPart, err := partial.NewConditionCompiler(shared)
	if err != nil {
		t.Fatal(err)
	}
	text := func(i int) string { return strings.Repeat("1 == 1 || ", 200) + fmt.Sprintf("%d == 1", i) }
	mistake := func(i int) string { return strings.Repeat("1 == 1 || ", 200) + fmt.Sprintf("%d + true", i) }
	for _, tc := range []struct {
		name    string
		partial *partial.Compiler
		text    func(int) string
	}{
		{name: "evaluated at once", text: text},
		{name: "with a mistake", text: mistake},
		{name: "evaluated in part", partial: inPart, text: text},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			exhaustedAt := func() int {
				e := &celeval.Evaluator{Compiler: shared, Partial: tc.partial}
				for i := range 512 {
					if errors.Is(e.EvaluateCondition(t.Context(), celCondition(tc.text(i))).Err(), cel.ErrCost) {
						return i
					}
				}
				return 0
			}
			first, again := exhaustedAt(), exhaustedAt()
			if first == 0 || first != again {
				t.Errorf("got an end of the budget at the conditions %d and %d, want twice the same", first, again)
			}
		})
	}
}

// TestEvaluatorHasRoomForManyOrdinaryConditions evaluates as many conditions as a review may have.
func TestEvaluatorHasRoomForManyOrdinaryConditions(t *testing.T) {
	t.Parallel()
	e := &celeval.Evaluator{Compiler: compiler(t), Values: cel.Values{cel.Object: map[string]any{"a": "b"}}}
	for i := range 512 {
		text := fmt.Sprintf(`has(object.metadata) && object.metadata.labels["team"] == "team-%d" && object.spec.containers.all(c, c.image.startsWith("registry.example.com/team/") && !has(c.securityContext))`, i)
		if o := e.EvaluateCondition(t.Context(), celCondition(text)); !o.IsFalse() {
			t.Fatalf("condition %d: got %s, %v, want false", i, outcomeOf(o), o.Err())
		}
	}
}

// TestEvaluatorDoesNotCompileAfterItsContext evaluates a condition that does not compile after the
// request has ended: its mistake is not found.
func TestEvaluatorDoesNotCompileAfterItsContext(t *testing.T) {
	t.Parallel()
	shared := compiler(t)
	inPart, err := partial.NewConditionCompiler(shared)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, e := range map[string]*celeval.Evaluator{"at once": {Compiler: shared}, "in part": {Compiler: shared, Partial: inPart}} {
		if o := e.EvaluateCondition(ctx, celCondition("object.")); !errors.Is(o.Err(), context.Canceled) {
			t.Errorf("%s: got %s, %v, want the end of the context", name, outcomeOf(o), o.Err())
		}
	}
}

// TestDenyOverTheLimitOfOneDenies checks that a Deny condition that costs more than one evaluation may denies, whatever the
// failure mode of its set, at once as in two steps.
func TestDenyOverTheLimitOfOneDenies(t *testing.T) {
	t.Parallel()
	list := make([]any, 200)
	for i := range list {
		list[i] = fmt.Sprint(i)
	}
	inPart, err := partial.NewConditionCompiler(compiler(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, list string }{
		{name: "about the object", list: "object.list"},
		{name: "about the user", list: "impersonatedUser.groups"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			denial := celCondition(fmt.Sprintf(`%[1]s.exists(a, %[1]s.exists(b, %[1]s.exists(c, a + b + c == "199199199")))`, tc.list))
			denial.Effect = authorization.EffectDeny
			decision := authorization.Chained(
				authorization.Set{AuthorizerName: "a", FailureMode: authorization.FailureModeNoOpinion, Decision: authorization.Conditions(denial)},
				authorization.Set{AuthorizerName: "b", Decision: authorization.Conditions(celCondition("object != null"))})
			user := cel.Values{cel.ImpersonatedUser: cel.Known(map[string]any{"groups": list}), cel.ImpersonatedRequest: cel.Known(map[string]any{})}
			object := cel.Values{cel.Object: map[string]any{"list": list}}
			all := cel.Values{cel.ImpersonatedUser: user[cel.ImpersonatedUser], cel.ImpersonatedRequest: user[cel.ImpersonatedRequest], cel.Object: object[cel.Object]}
			if got := decision.Evaluate(t.Context(), &celeval.Evaluator{Compiler: compiler(t), Values: all}); !got.IsDeny() {
				t.Errorf("at once: got Allow: %v, want Deny", got.IsAllow())
			}
			first := decision.Evaluate(t.Context(), &celeval.Evaluator{Compiler: compiler(t), Partial: inPart, Values: user})
			if got := first.Evaluate(t.Context(), &celeval.Evaluator{Compiler: compiler(t), Values: object}); !got.IsDeny() {
				t.Errorf("in two steps: got Allow: %v, want Deny", got.IsAllow())
			}
		})
	}
}

// TestPartialCELNeverOpens has what a partial evaluation itself cannot do: it is over its cost
// limit or the budget, or cannot write its residual. The whole condition has a value all the
// same, so that a set with a Deny condition must deny, also if it fails to NoOpinion.
func TestPartialCELNeverOpens(t *testing.T) {
	t.Parallel()
	shared := compiler(t)
	inPart, err := partial.NewConditionCompiler(shared)
	if err != nil {
		t.Fatal(err)
	}
	list := "[" + strings.TrimSuffix(strings.Repeat("1,", 30), ",") + "]"
	user := `impersonatedUser.groups.size() >= 0`
	// The operand that is known costs too much by itself; the object makes it unnecessary.
	costly := fmt.Sprintf(`(object.x == 1 || (%[2]s && %[1]s.all(a, %[1]s.all(b, %[1]s.all(c, %[1]s.all(d, impersonatedUser.username == "u"))))))`, list, user)
	affordable := fmt.Sprintf(`%[2]s && %[1]s.all(a, %[1]s.all(b, %[1]s.all(c, impersonatedUser.username == "u"))) && object.x == 1`, list, user)
	for _, tc := range []struct {
		name, text string
		before     uint64 // the cost of conditions that are evaluated before
	}{
		{"over the limit of one condition", costly, 0},
		{"over the budget", affordable, cel.CostBudget},
		{"over the budget when it is compiled", affordable, cel.CostBudget - 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			values := cel.Values{
				cel.ImpersonatedRequest: cel.Known(map[string]any{"verb": "get"}),
				cel.ImpersonatedUser:    cel.Known(map[string]any{"username": "u", "groups": []any{}}),
			}
			evaluator := &celeval.Evaluator{Compiler: shared, Partial: inPart, Values: values}
			evaluator.Spend(tc.before)
			denies := celCondition(tc.text)
			denies.Effect = authorization.EffectDeny
			set := authorization.Set{AuthorizerName: "a", FailureMode: authorization.FailureModeNoOpinion, Decision: authorization.Conditions(denies)}
			got := authorization.Chained(set, authorization.Set{AuthorizerName: "b", Decision: authorization.Allow("", nil)}).Evaluate(t.Context(), evaluator)
			if !got.IsDeny() {
				t.Errorf("got Allow: %v (%v), want Deny: with an object the condition may be true", got.IsAllow(), got.Err())
			}
		})
	}
}
