/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// countsOf returns the counts of a builder as "POLICY EFFECT RESULT", with their values.
func countsOf(b *engine.Builder) map[string]uint64 {
	counts := map[string]uint64{}
	for _, c := range b.Tallies().Counts() {
		name := c.Policy.Name
		if c.Policy.Namespace != "" {
			name = c.Policy.Namespace + "/" + name
		}
		counts[fmt.Sprintf("%s %s %s", name, c.Effect, c.Result)] += c.Value
	}
	return counts
}

// builtFrom returns a builder of policies, and a source with its snapshot.
func builtFrom(tb testing.TB, specs map[string]spec) (*engine.Builder, *engine.Source) {
	tb.Helper()
	builder, source := engine.NewBuilder(), &engine.Source{}
	source.Publish(builder.Apply(compiled(tb, specs)))
	return builder, source
}

const (
	isAlice  = `request.userInfo.username == "alice"`
	isBob    = `request.userInfo.username == "bob"`
	fails    = `request.userInfo.extra["missing"][0] == "x"`
	onObject = `object.a == 1`
)

func TestEvaluationsAreCounted(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		policies map[string]spec
		// object is the object on which the decision is evaluated, if there is one.
		object map[string]any
		want   map[string]uint64
	}{
		{name: "no policy", want: map[string]uint64{}},
		{name: "allow always", policies: map[string]spec{"p": {Effect: allow}}, want: map[string]uint64{"p Allow true": 1}},
		{name: "deny always", policies: map[string]spec{"p": {Effect: deny}, "q": {Effect: allow}}, want: map[string]uint64{"p Deny true": 1}},
		{name: "hold back always", policies: map[string]spec{"p": {Effect: noOpinion}, "q": {Effect: allow}}, want: map[string]uint64{"p NoOpinion true": 1}},
		{name: "allow", policies: map[string]spec{"p": {Effect: allow, Condition: isAlice}}, want: map[string]uint64{"p Allow true": 1}},
		{
			name:     "false",
			policies: map[string]spec{"p": {Effect: deny, Condition: isBob}, "n/q": {Effect: noOpinion, Condition: isBob}, "r": {Effect: allow, Condition: isBob}},
			want:     map[string]uint64{"p Deny false": 1, "n/q NoOpinion false": 1, "r Allow false": 1},
		},
		{name: "errors deny", policies: map[string]spec{"p": {Effect: deny, Condition: fails}, "q": {Effect: allow}}, want: map[string]uint64{"p Deny error": 1}},
		{name: "errors hold back", policies: map[string]spec{"p": {Effect: noOpinion, Condition: fails}, "q": {Effect: allow}}, want: map[string]uint64{"p NoOpinion error": 1}},
		{name: "errors grant nothing", policies: map[string]spec{"p": {Effect: allow, Condition: fails}}, want: map[string]uint64{"p Allow error": 1}},
		{name: "on the object", policies: map[string]spec{"n/p": {Effect: allow, Condition: onObject}}, want: map[string]uint64{"n/p Allow residual": 1}},
		{
			name: "on the object, which it allows", policies: map[string]spec{"n/p": {Effect: allow, Condition: onObject}}, object: map[string]any{"a": int64(1)},
			want: map[string]uint64{"n/p Allow residual": 1, "n/p Allow true": 1},
		},
		{
			name: "on the object, which it denies", policies: map[string]spec{"p": {Effect: deny, Condition: `object.a == 2`}, "q": {Effect: allow, Condition: onObject}}, object: map[string]any{"a": int64(2)},
			want: map[string]uint64{"p Deny residual": 1, "p Deny true": 1, "q Allow residual": 1},
		},
		{
			name: "on the object, which it cannot read", policies: map[string]spec{"p": {Effect: deny, Condition: onObject}, "q": {Effect: allow}}, object: map[string]any{"b": int64(1)},
			want: map[string]uint64{"p Deny residual": 1, "p Deny error": 1, "q Allow true": 1},
		},
		{
			name: "an Allow policy behind a condition that holds back", object: map[string]any{"a": int64(2)},
			policies: map[string]spec{"p": {Effect: noOpinion, Condition: onObject}, "q": {Effect: allow}},
			want:     map[string]uint64{"p NoOpinion residual": 1, "p NoOpinion false": 1, "q Allow true": 2},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			builder, source := builtFrom(t, tc.policies)
			decision := chainFrom(t, source).Decide(t.Context(), podsOf("update"))
			if tc.object != nil {
				decision.Evaluate(t.Context(), authorization.EvaluatorFor(conditionsData{attributes: podsOf("update"), operation: "UPDATE", object: tc.object}, nil))
			}
			if diff := cmp.Diff(tc.want, countsOf(builder)); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBrokenPoliciesCountErrors decides by a policy that cannot be compiled.
func TestBrokenPoliciesCountErrors(t *testing.T) {
	t.Parallel()
	builder, source := engine.NewBuilder(), &engine.Source{}
	key := engine.Key{Name: "p"}
	source.Publish(builder.Apply(map[engine.Key]*engine.Policy{key: engine.Broken(key, &spec{Effect: deny, Rules: anything}, errors.New("broken"))}))
	chainFrom(t, source).Decide(t.Context(), podsOf("get"))
	if diff := cmp.Diff(map[string]uint64{"p Deny error": 1}, countsOf(builder)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

// TestApartEvaluationsAreCounted decides with outcomes that were evaluated before, as the front door does.
func TestApartEvaluationsAreCounted(t *testing.T) {
	t.Parallel()
	builder, source := builtFrom(t, map[string]spec{"n/p": {Effect: deny, Condition: isBob}, "n/q": {Effect: allow, Condition: isAlice}})
	for _, evaluate := range []bool{true, false} {
		apart := source.Namespaced(t.Context(), podsOf("get"))
		if evaluate {
			apart.Evaluate(t.Context())
		}
		chainFrom(t, source).Decide(apart.In(t.Context()), podsOf("get"))
	}
	want := map[string]uint64{"n/p Deny false": 1, "n/q Allow true": 1, "n/p Deny error": 1} // the second time nothing was evaluated
	if diff := cmp.Diff(want, countsOf(builder)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

// TestCountsOfChangedPolicies follows the counts of a policy that is written, deleted and written again.
func TestCountsOfChangedPolicies(t *testing.T) {
	t.Parallel()
	builder, source := engine.NewBuilder(), &engine.Source{}
	for _, tc := range []struct {
		name  string
		write *spec // nil deletes the policy
		want  map[string]uint64
	}{
		{name: "new", write: &spec{Effect: allow}, want: map[string]uint64{"n/p Allow true": 1}},
		{name: "with a condition", write: &spec{Effect: allow, Condition: isBob}, want: map[string]uint64{"n/p Allow true": 1, "n/p Allow false": 1}},
		{name: "with another effect", write: &spec{Effect: deny, Condition: isBob}, want: map[string]uint64{"n/p Deny false": 1}},
		{name: "deleted", want: map[string]uint64{}},
		{name: "written again", write: &spec{Effect: deny, Condition: isBob}, want: map[string]uint64{"n/p Deny false": 1}},
	} {
		changes := map[engine.Key]*engine.Policy{keyOf("n/p"): nil}
		if tc.write != nil {
			changes = compiled(t, map[string]spec{"n/p": *tc.write})
		}
		source.Publish(builder.Apply(changes))
		chainFrom(t, source).Decide(t.Context(), podsOf("get"))
		if diff := cmp.Diff(tc.want, countsOf(builder)); diff != "" {
			t.Errorf("%s: counts (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestLateCountsOfDeletedPolicies counts for a policy that is deleted while a request is decided.
func TestLateCountsOfDeletedPolicies(t *testing.T) {
	t.Parallel()
	builder, source := builtFrom(t, map[string]spec{"p": {Effect: allow}})
	pinned := source.Pin(t.Context())
	source.Publish(builder.Apply(map[engine.Key]*engine.Policy{keyOf("p"): nil}))
	if got := chainFrom(t, source).Decide(pinned, podsOf("get")); !got.IsAllow() {
		t.Fatalf("got %v", got)
	}
	if got := countsOf(builder); len(got) > 0 {
		t.Errorf("got %v for a deleted policy", got)
	}
}

// writeAndDecide writes unconditional policies, each for its own resource, and makes a decision by each.
func writeAndDecide(t *testing.T, builder *engine.Builder, source *engine.Source, keys []engine.Key) {
	t.Helper()
	changes := map[engine.Key]*engine.Policy{}
	for i, key := range keys {
		p, err := engine.New(key, &spec{Effect: allow, Rules: []rule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{fmt.Sprint("r", i)}}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		changes[key] = p
	}
	source.Publish(builder.Apply(changes))
	for i, key := range keys {
		a := podsOf("get")
		a.Namespace, a.Resource = key.Namespace, fmt.Sprint("r", i)
		if got := chainFrom(t, source).Decide(t.Context(), a); !got.IsAllow() {
			t.Fatalf("%v: got %v", key, got)
		}
	}
}

func keysIn(namespace string, n int) []engine.Key {
	keys := make([]engine.Key, n)
	for i := range keys {
		keys[i] = engine.Key{Namespace: namespace, Name: fmt.Sprint("p", i)}
	}
	return keys
}

// TestCountsAreBounded writes more policies than have counts of their own.
func TestCountsAreBounded(t *testing.T) {
	t.Parallel()
	var manyNamespaces []engine.Key
	for i := range engine.MaxTallied + 7 {
		manyNamespaces = append(manyNamespaces, engine.Key{Namespace: fmt.Sprint("n", i), Name: "p"})
	}
	for _, tc := range []struct {
		name      string
		keys      []engine.Key
		wantOwn   int
		wantOther map[string]uint64
	}{
		{name: "few", keys: keysIn("n", engine.MaxTalliedInNamespace), wantOwn: engine.MaxTalliedInNamespace},
		{name: "many in a namespace", keys: keysIn("n", 1000), wantOwn: engine.MaxTalliedInNamespace, wantOther: map[string]uint64{"_other/_other Allow true": 1000 - engine.MaxTalliedInNamespace}},
		{name: "many namespaces", keys: manyNamespaces, wantOwn: engine.MaxTallied, wantOther: map[string]uint64{"_other/_other Allow true": 7}},
		{name: "many in the cluster", keys: keysIn("", engine.MaxTallied+5), wantOwn: engine.MaxTallied, wantOther: map[string]uint64{"_other Allow true": 5}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			builder, source := engine.NewBuilder(), &engine.Source{}
			writeAndDecide(t, builder, source, tc.keys)
			own, other := 0, map[string]uint64{}
			for name, n := range countsOf(builder) {
				if name[0] == '_' {
					other[name] = n
				} else {
					own++
				}
			}
			if own != tc.wantOwn || len(other) != len(tc.wantOther) || !cmp.Equal(other, tc.wantOther) && len(other) > 0 {
				t.Errorf("got %d policies with counts of their own and %v, want %d and %v", own, other, tc.wantOwn, tc.wantOther)
			}
		})
	}
}

// TestChurnMakesNoSeries writes and deletes thousands of policies. Later policies have counts of their own.
func TestChurnMakesNoSeries(t *testing.T) {
	t.Parallel()
	builder, source := engine.NewBuilder(), &engine.Source{}
	for round := range 300 {
		keys := keysIn(fmt.Sprint("n", round%3), 10)
		for i := range keys {
			keys[i].Name = fmt.Sprintf("p%d-%d", round, i)
		}
		writeAndDecide(t, builder, source, keys)
		if got := len(countsOf(builder)); got != len(keys) {
			t.Fatalf("round %d: got %d series, want %d", round, got, len(keys))
		}
		changes := map[engine.Key]*engine.Policy{}
		for _, key := range keys {
			changes[key] = nil
		}
		source.Publish(builder.Apply(changes))
	}
	if got := countsOf(builder); len(got) > 0 {
		t.Errorf("got %v after all policies were deleted", got)
	}
}
