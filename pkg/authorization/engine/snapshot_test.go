/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// asked calls a function when a chain comes to it, and has no opinion.
func asked(f func()) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		f()
		return authorizer.DecisionNoOpinion, "", nil
	})
}

// TestPinned asks that a chain decides from one snapshot, though another is published, or
// the snapshot goes stale, between its parts.
func TestPinned(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*engine.Source){
		"published": func(s *engine.Source) {
			s.Publish(engine.NewBuilder().Apply(compiled(t, map[string]spec{"p": {Effect: allow}})))
		},
		"stale": func(s *engine.Source) { s.SetStale("no news") },
		"both parts differ": func(s *engine.Source) {
			s.Publish(engine.NewBuilder().Apply(compiled(t, map[string]spec{"d": {Effect: deny}, "p": {Effect: noOpinion}})))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := publish(t, map[string]spec{"p": {Effect: allow, Condition: "object.a == 1"}})
			chain, err := authorization.NewChain(
				authorization.Member{Name: "restricting", Decider: partOf(source, false)},
				authorization.Member{Name: "kube-apiserver", Decider: authorization.DeciderOf(asked(func() { change(source) }))},
				authorization.Member{Name: "granting", Decider: partOf(source, true)},
			)
			if err != nil {
				t.Fatal(err)
			}
			if got := show(t, chain.Decide(t.Context(), podsOf("get"))); got != "[[Allow p: object.a == 1]]" {
				t.Errorf("got %s", got)
			}
		})
	}
}

// pathHook calls a function when somebody reads the path, as conditions do.
type pathHook struct {
	authorizer.AttributesRecord
	read func()
}

func (h pathHook) GetPath() string {
	h.read()
	return h.AttributesRecord.GetPath()
}

// TestChecksSeeTheDecidingSnapshot asks that the checks of a condition are answered by the
// policies that made the decision, though others were published meanwhile.
func TestChecksSeeTheDecidingSnapshot(t *testing.T) {
	t.Parallel()
	specs := map[string]spec{
		"check":   {Effect: allow, Rules: podRules, Condition: `object.a == 1 && authorizer.group("").resource("secrets").namespace("n").check("get").allowed()`},
		"secrets": {Effect: allow, Rules: []rule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}}},
	}
	for _, pinned := range []bool{true, false} {
		source := publish(t, specs)
		granting := partOf(source, true)
		granting.Checks = chainOf(t, partOf(source, false), granting)
		ctx := t.Context()
		if pinned {
			ctx = source.Pin(ctx)
		}
		empty := func() { source.Publish(engine.NewBuilder().Apply(nil)) }
		decision := granting.Decide(ctx, pathHook{AttributesRecord: podsOf("get"), read: empty})
		evaluator := authorization.EvaluatorFor(conditionsData{attributes: podsOf("get"), object: map[string]any{"a": int64(1)}}, nil)
		if got := show(t, decision.Evaluate(t.Context(), evaluator)); got != "Allow" {
			t.Errorf("pinned %v: got %s", pinned, got)
		}
	}
}

var podRules = []rule{{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"pods"}}}

// TestChecksWithoutAnswer asks that a condition whose checks nobody answers fails.
func TestChecksWithoutAnswer(t *testing.T) {
	t.Parallel()
	source := publish(t, map[string]spec{"p": {Effect: allow, Condition: `!authorizer.path("/x").check("get").allowed()`}})
	decision := partOf(source, true).Decide(t.Context(), podsOf("get"))
	if got := show(t, decision.Evaluate(t.Context(), authorization.EvaluatorFor(conditionsData{attributes: podsOf("get")}, nil))); got != "NoOpinion" {
		t.Errorf("got %s", got)
	}
}

// TestDecisionHoldsItsPolicies asks that conditions stay what they were when their policy
// is replaced before they are evaluated.
func TestDecisionHoldsItsPolicies(t *testing.T) {
	t.Parallel()
	builder, source := engine.NewBuilder(), &engine.Source{}
	source.Publish(builder.Apply(compiled(t, map[string]spec{"p": {Effect: deny, Condition: "object.a == 1"}})))
	decision := partOf(source, false).Decide(t.Context(), podsOf("get"))
	source.Publish(builder.Apply(compiled(t, map[string]spec{"p": {Effect: deny, Condition: "object.a == 2"}})))
	evaluator := authorization.EvaluatorFor(conditionsData{attributes: podsOf("get"), object: map[string]any{"a": int64(1)}}, nil)
	if got := show(t, decision.Evaluate(t.Context(), evaluator)); got != "Deny" {
		t.Errorf("got %s", got)
	}
}

// TestOrder asks for the order of namespace and name, the cluster's first, however the
// policies came to be there.
func TestOrder(t *testing.T) {
	t.Parallel()
	specs := map[string]spec{}
	names := []string{"a", "b", "m/a", "n/a", "n/b", "n/c"}
	for i := range 40 {
		names = append(names, fmt.Sprintf("n/x%02d", i))
	}
	for _, name := range names {
		specs[name] = spec{Effect: deny, Condition: "object.a == 1"}
	}
	policies := compiled(t, specs)
	want := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.HasPrefix(name, "m/") })
	for seed := range uint64(10) {
		builder, source := engine.NewBuilder(), &engine.Source{}
		shuffled := slices.Clone(names)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(names), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		for _, name := range shuffled {
			source.Publish(builder.Apply(map[engine.Key]*engine.Policy{keyOf(name): policies[keyOf(name)]}))
		}
		var got []string
		for _, c := range partOf(source, false).Decide(t.Context(), podsOf("get")).Conditions() {
			namespace, name, _ := strings.Cut(c.ID, "/")
			if namespace, ok := strings.CutSuffix(namespace, ".namespace.policy.proviso.dev"); ok {
				name = namespace + "/" + name
			}
			got = append(got, name)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: got %v, want %v", seed, got, want)
		}
	}
}

// TestManyPolicies asks that ten thousand policies that match one user are decided, and
// that those who deny do so among them.
func TestManyPolicies(t *testing.T) {
	t.Parallel()
	compiler := newPolicyCompiler(t)
	policies := map[engine.Key]*engine.Policy{}
	add := func(name string, s spec) {
		s.Rules = anything
		p, err := engine.New(keyOf(name), &s, compiler)
		if err != nil {
			t.Fatal(err)
		}
		policies[keyOf(name)] = p
	}
	for i := range 10000 {
		add(fmt.Sprintf("p%05d", i), spec{Effect: allow, Condition: fmt.Sprintf("object.a == %d", i)})
	}
	builder, source := engine.NewBuilder(), &engine.Source{}
	source.Publish(builder.Apply(policies))
	if got := countOrShow(t, partOf(source, true).Decide(t.Context(), podsOf("get"))); got != "10000" {
		t.Errorf("got %s, want all conditions", got)
	}
	policies = map[engine.Key]*engine.Policy{}
	add("yes", spec{Effect: allow})
	add("zz", spec{Effect: deny, Condition: `request.name == "p"`})
	source.Publish(builder.Apply(policies))
	if got := decided(t, source, podsOf("get")); got != "Deny, Allow" {
		t.Errorf("got %s", got)
	}
}

// TestDifferential asks random requests of snapshots made in random steps, and compares
// the answers with those of looking at every policy there is.
func TestDifferential(t *testing.T) {
	t.Parallel()
	compiler := newPolicyCompiler(t)
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			builder, current := engine.NewBuilder(), map[engine.Key]spec{}
			type published struct {
				source *engine.Source
				specs  map[engine.Key]spec
			}
			var history []published
			for range 25 {
				changes := map[engine.Key]*engine.Policy{}
				for range 1 + r.IntN(1+r.IntN(60)) {
					randomChange(t, r, compiler, current, changes)
				}
				source := &engine.Source{}
				source.Publish(builder.Apply(changes))
				history = append(history, published{source, maps.Clone(current)})
				if source.Snapshot().Len() != len(current) {
					t.Fatalf("the snapshot has %d policies, there are %d", source.Snapshot().Len(), len(current))
				}
			}
			for _, p := range history { // old ones too: they must not have changed
				for range 40 {
					a := randomRequest(r)
					if got, want := decided(t, p.source, a), scan(p.specs, a); got != want {
						t.Fatalf("%+v\ngot %s, want %s", a, got, want)
					}
				}
			}
		})
	}
}

// The words of random policies and requests are few, so that they meet.
var (
	someVerbs      = []string{"get", "create", "*"}
	someGroups     = []string{"", "apps", "*"}
	someResources  = []string{"pods", "pods/exec", "*/scale", "*", "deployments"}
	someVersions   = []string{"v1", "v2", "*"}
	someNames      = []string{"p", "q"}
	somePaths      = []string{"/a", "/a/*", "*"}
	someNamespaces = []string{"", "", "n", "m"}
	someSubjects   = []rbacv1.Subject{
		{Kind: "User", Name: "alice"}, {Kind: "User", Name: "bob"}, {Kind: "Group", Name: "alice"}, {Kind: "Group", Name: "devs"},
		{Kind: "Group", Name: user.AllAuthenticated}, {Kind: "ServiceAccount", Namespace: "n", Name: "robot"},
	}
)

func oneOf[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// someOf returns from one to three values, which may be the same.
func someOf[T any](r *rand.Rand, values []T) []T {
	result := []T{oneOf(r, values...)}
	for r.IntN(3) == 0 && len(result) < 3 {
		result = append(result, oneOf(r, values...))
	}
	return result
}

func randomRule(r *rand.Rand) rule {
	if r.IntN(6) == 0 {
		return rule{Verbs: someOf(r, someVerbs), NonResourceURLs: someOf(r, somePaths)}
	}
	result := rule{Verbs: someOf(r, someVerbs), APIGroups: someOf(r, someGroups), Resources: someOf(r, someResources)}
	if r.IntN(3) == 0 {
		result.APIVersions = someOf(r, someVersions)
	}
	if r.IntN(4) == 0 {
		result.ResourceNames = someOf(r, someNames)
	}
	return result
}

func randomSpec(r *rand.Rand) spec {
	s := spec{Effect: oneOf(r, allow, allow, allow, deny, noOpinion)}
	for range 1 + r.IntN(3) {
		s.Rules = append(s.Rules, randomRule(r))
	}
	if r.IntN(8) > 0 {
		s.Subjects = someOf(r, someSubjects)
	}
	if r.IntN(10) > 0 { // else one policy decides nearly everything
		s.Condition = "object.a == 1"
	}
	return s
}
