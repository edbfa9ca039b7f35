/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

const inAudit = policyv1alpha1.PolicyEnforcementAudit

// threeParts is a chain in the order of the server.
func threeParts(tb testing.TB, source *engine.Source) *authorization.Chain {
	tb.Helper()
	var members []authorization.Member
	for _, part := range []engine.Part{engine.Restricting, engine.GrantingCluster, engine.GrantingNamespaced} {
		members = append(members, authorization.Member{Name: strconv.Itoa(int(part)), Decider: &engine.Authorizer{Source: source, Part: part}})
	}
	chain, err := authorization.NewChain(members...)
	if err != nil {
		tb.Fatal(err)
	}
	return chain
}

// annotated returns annotations as "KEY: VALUE", with the names of policies only.
func annotated(audit *authorization.Audit) []string {
	var lines []string
	for pair := range slices.Chunk(audit.Annotations(), 2) {
		var names []string
		for id := range strings.SplitSeq(pair[1], ",") {
			names = append(names, id[strings.LastIndex(id, "/")+1:])
		}
		lines = append(lines, strings.TrimPrefix(pair[0], authorization.AuditPrefix)+": "+strings.Join(names, ","))
	}
	return lines
}

// TestAudit has what is found out about a request. One policy named p has the enforcement Audit in each row.
func TestAudit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		policy   spec
		others   map[string]spec
		verb     string
		object   map[string]any // at admission
		rest     authorization.Remainder
		want     string // the annotation
		counts   engine.AuditDelta
		warnings []string
	}{
		{name: "deny always", policy: spec{Effect: deny, Description: "no pods"}, want: "would-deny: p", counts: engine.AuditDelta{Decided: 1},
			warnings: []string{"would be denied: policy=p reason=Denied: no pods"}},
		{name: "deny", policy: spec{Effect: deny, Condition: isAlice}, want: "would-deny: p", counts: engine.AuditDelta{Decided: 1},
			warnings: []string{"would be denied: policy=p reason=Denied: it denies the request"}},
		{name: "false", policy: spec{Effect: deny, Condition: isBob}},
		{name: "errors deny", policy: spec{Effect: deny, Condition: fails}, want: "would-deny: p; error: p", counts: engine.AuditDelta{Decided: 1, Errors: 1},
			warnings: []string{"would be denied: policy=p reason=Error: its condition could not be evaluated"}},
		{name: "errors hold back", policy: spec{Effect: noOpinion, Condition: fails}, want: "would-hold-back: p; error: p", counts: engine.AuditDelta{Decided: 1, Errors: 1}},
		{name: "errors grant nothing", policy: spec{Effect: allow, Condition: fails}, want: "error: p", counts: engine.AuditDelta{Errors: 1}},
		{name: "allow", policy: spec{Effect: allow}, want: "would-allow: p", counts: engine.AuditDelta{Decided: 1}},
		{name: "allow what is allowed", policy: spec{Effect: allow}, others: map[string]spec{"n/q": {Effect: allow}}, want: "would-allow: p", counts: engine.AuditDelta{Decided: 1}},
		{name: "allow what is denied", policy: spec{Effect: allow}, others: map[string]spec{"q": {Effect: deny}}},
		{name: "allow what is held back", policy: spec{Effect: allow}, others: map[string]spec{"q": {Effect: noOpinion}}},
		{name: "hold back", policy: spec{Effect: noOpinion}, others: map[string]spec{"q": {Effect: allow}}, want: "would-hold-back: p", counts: engine.AuditDelta{Decided: 1}},
		{name: "on the object, which was not read", policy: spec{Effect: deny, Condition: onObject}},
		{name: "on the object, which was not read because of a refusal", policy: spec{Effect: deny, Condition: onObject}, rest: authorization.RemainderRefused},
		{name: "on the object, folded", policy: spec{Effect: deny, Condition: onObject}, rest: authorization.RemainderFolded, want: "would-deny: p", counts: engine.AuditDelta{Decided: 1},
			warnings: []string{"would be denied: policy=p reason=Denied: it denies the request"}},
		{name: "allow on the object, folded", policy: spec{Effect: allow, Condition: onObject}, rest: authorization.RemainderFolded},
		{name: "hold back on the object, folded", policy: spec{Effect: noOpinion, Condition: onObject}, rest: authorization.RemainderFolded, want: "would-hold-back: p", counts: engine.AuditDelta{Decided: 1}},
		{name: "allow on the object, refused", policy: spec{Effect: allow, Condition: onObject}, rest: authorization.RemainderRefused, want: "undetermined: p", counts: engine.AuditDelta{Undetermined: 1}},
		{name: "never on any object", policy: spec{Effect: allow, Condition: onObject + " && " + isBob}, rest: authorization.RemainderRefused},
		{name: "on an object", policy: spec{Effect: deny, Condition: onObject}, object: map[string]any{"a": int64(1)}, want: "would-deny: p", counts: engine.AuditDelta{Decided: 1},
			warnings: []string{"would be denied: policy=p reason=Denied: it denies the request"}},
		{name: "on another object", policy: spec{Effect: deny, Condition: onObject}, object: map[string]any{"a": int64(2)}},
		{name: "on an object without the field", policy: spec{Effect: deny, Condition: onObject}, object: map[string]any{"b": int64(2)}, want: "would-deny: p; error: p",
			counts: engine.AuditDelta{Decided: 1, Errors: 1}, warnings: []string{"would be denied: policy=p reason=Error: its condition could not be evaluated"}},
		{name: "allow on an object", policy: spec{Effect: allow, Condition: onObject}, object: map[string]any{"a": int64(1)}, want: "would-allow: p", counts: engine.AuditDelta{Decided: 1}},
		{name: "more than one request", policy: spec{Effect: deny}, verb: "*"},
	} {
		for _, name := range []string{"p", "n/p"} {
			t.Run(tc.name+", "+name, func(t *testing.T) {
				t.Parallel()
				policies := maps.Clone(tc.others)
				if policies == nil {
					policies = map[string]spec{}
				}
				s := tc.policy
				s.Enforcement = inAudit
				policies[name] = s
				builder, source := builtFrom(t, policies)
				request := podsOf("update")
				if tc.verb != "" {
					request.Verb = tc.verb
				}
				audit := &authorization.Audit{}
				threeParts(t, source).Decide(t.Context(), authorization.Request{Attributes: request, Audit: audit})
				audit.Settle(t.Context())
				if tc.object != nil {
					audit.Admit(t.Context(), conditionsData{attributes: request, operation: "UPDATE", object: tc.object})
				}
				audit.Finish(tc.rest)
				audit.Finish(authorization.RemainderFolded) // counts nothing more
				if got := strings.Join(annotated(audit), "; "); got != tc.want {
					t.Errorf("annotations: got %q, want %q", got, tc.want)
				}
				counts := builder.Get(keyOf(name)).AuditCounts().Take()
				if counts.Last.IsZero() != (counts.Decided == 0) {
					t.Errorf("got the time %v of %d requests", counts.Last, counts.Decided)
				}
				if diff := cmp.Diff(tc.counts, counts, cmpopts.IgnoreFields(engine.AuditDelta{}, "Last")); diff != "" {
					t.Errorf("counts (-want +got):\n%s", diff)
				}
				var want []string
				for _, w := range tc.warnings {
					want = append(want, strings.ReplaceAll(w, "policy=p", "policy="+name))
				}
				if diff := cmp.Diff(want, audit.Warnings()); diff != "" {
					t.Errorf("warnings (-want +got):\n%s", diff)
				}
				if counted := countsOf(builder); counted[name+" Deny true"] > 0 || counted[name+" Allow true"] > 0 {
					t.Errorf("counted with the policies that decide: %v", counted)
				}
			})
		}
	}
}

// TestAuditOfBroken checks that a policy that does not compile denies nothing with the enforcement Audit, and would have denied.
func TestAuditOfBroken(t *testing.T) {
	t.Parallel()
	for _, effect := range []policyv1alpha1.PolicyEffect{deny, noOpinion, allow} {
		builder, source := engine.NewBuilder(), &engine.Source{}
		s := &spec{Effect: effect, Rules: anything, Enforcement: inAudit, Condition: "x"}
		source.Publish(builder.Apply(map[engine.Key]*engine.Policy{{Name: "p"}: engine.Broken(engine.Key{Name: "p"}, s, errors.New("no"))}))
		audit := &authorization.Audit{}
		chain := threeParts(t, source)
		if got := chain.Decide(t.Context(), authorization.Request{Attributes: podsOf("get"), Audit: audit}); !got.IsNoOpinion() || got.Reason() != "" {
			t.Errorf("%s: got %s", effect, show(t, got))
		}
		audit.Settle(t.Context())
		audit.Finish(authorization.RemainderNone)
		want := "would-deny: p; error: p"
		if effect == allow {
			want = ""
		}
		if got := strings.Join(annotated(audit), "; "); got != want {
			t.Errorf("%s: got %q, want %q", effect, got, want)
		}
	}
}

// TestAuditIsOfOneRequest checks that only the attributes that have an Audit count: not a check for the same user that is derived from them.
func TestAuditIsOfOneRequest(t *testing.T) {
	t.Parallel()
	builder, source := builtFrom(t, map[string]spec{"p": {Effect: deny, Enforcement: inAudit}})
	audit := &authorization.Audit{}
	attributes := authorization.Request{Attributes: podsOf("get"), Audit: audit}
	for _, derived := range []authorizer.Attributes{engine.ForAnyName(attributes), podsOf("get"), struct{ authorizer.Attributes }{attributes}} {
		threeParts(t, source).Decide(t.Context(), derived)
	}
	audit.Settle(t.Context())
	audit.Finish(authorization.RemainderNone)
	if got := audit.Annotations(); got != nil {
		t.Errorf("got %q", got)
	}
	if got := builder.Get(engine.Key{Name: "p"}).AuditCounts().Take(); !got.IsZero() {
		t.Errorf("got %v", got)
	}
}

// TestEnforcementChanges checks that the enforcement of a policy may change, and that counts end with it.
func TestEnforcementChanges(t *testing.T) {
	t.Parallel()
	builder, source := engine.NewBuilder(), &engine.Source{}
	chain := threeParts(t, source)
	decide := func() (string, []string) {
		audit := &authorization.Audit{}
		got := chain.Decide(t.Context(), authorization.Request{Attributes: podsOf("get"), Audit: audit})
		audit.Settle(t.Context())
		audit.Finish(authorization.RemainderNone)
		return show(t, got), annotated(audit)
	}
	for _, step := range []struct {
		spec      *spec
		want      string
		annotated []string
	}{
		{&spec{Effect: deny, Enforcement: inAudit}, "NoOpinion", []string{"would-deny: p"}},
		{&spec{Effect: deny, Enforcement: "Enforce"}, "Deny", nil},
		{&spec{Effect: allow, Enforcement: inAudit}, "NoOpinion", []string{"would-allow: p"}},
		{&spec{Effect: allow}, "Allow", nil},
		{&spec{Effect: deny, Enforcement: "of a later version"}, "Deny", nil},
		{&spec{Effect: noOpinion, Enforcement: inAudit}, "NoOpinion", []string{"would-hold-back: p"}},
		{nil, "NoOpinion", nil},
	} {
		changes := map[engine.Key]*engine.Policy{{Name: "p"}: nil}
		if step.spec != nil {
			changes = compiled(t, map[string]spec{"p": *step.spec})
		}
		source.Publish(builder.Apply(changes))
		got, annotations := decide()
		if got != step.want || !slices.Equal(annotations, step.annotated) {
			t.Errorf("%+v: got %s and %q, want %s and %q", step.spec, got, annotations, step.want, step.annotated)
		}
		if n := len(builder.Tallies().Counts()) + len(builder.Audits().Counts()); step.spec == nil && n > 0 || step.spec != nil && n != 1 {
			t.Errorf("%+v: %d counts", step.spec, n)
		}
	}
}

// TestEngineAuditDecidesNothing makes random policies, and adds random policies with the enforcement Audit: every decision, and what its
// conditions are and say, is the one without them.
func TestEngineAuditDecidesNothing(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(17, 4))
	conditions := []string{"", isAlice, isBob, fails, onObject, `operation == "CREATE" || object.a > 1`, `namespaceObject.metadata.name == "n"`, `request.name == "p" && object.a == 1`,
		`authorizer.group("").resource("pods").namespace("n").check("get").allowed()`, `request.fieldSelector.requirements.exists(r, r.key == "x")`}
	effects := []policyv1alpha1.PolicyEffect{allow, deny, noOpinion}
	some := func(prefix string, enforcement policyv1alpha1.PolicyEnforcement) map[string]spec {
		policies := map[string]spec{}
		for i := range random.IntN(5) {
			name := prefix + strconv.Itoa(i)
			if random.IntN(2) == 0 {
				name = "n/" + name
			}
			policies[name] = spec{Effect: effects[random.IntN(3)], Condition: conditions[random.IntN(len(conditions))], Enforcement: enforcement, Description: name}
		}
		return policies
	}
	compiler := newPolicyCompiler(t)
	compile := func(policies map[string]spec) *engine.Source {
		changes := map[engine.Key]*engine.Policy{}
		for name, s := range policies {
			s.Rules = anything
			p, err := engine.New(keyOf(name), &s, compiler)
			if err != nil {
				t.Fatal(err)
			}
			if random.IntN(10) == 0 && s.Enforcement == inAudit {
				p = engine.Broken(keyOf(name), &s, errors.New("broken"))
			}
			changes[keyOf(name)] = p
		}
		source := &engine.Source{}
		source.Publish(engine.NewBuilder().Apply(changes))
		return source
	}
	objects := []map[string]any{{"a": int64(1)}, {"a": int64(2)}, {"b": "x"}}
	audits := 0
	for range 400 {
		enforced := some("e", "")
		without, with := compile(enforced), func() *engine.Source {
			all := some("a", inAudit)
			maps.Copy(all, enforced)
			return compile(all)
		}()
		request := podsOf([]string{"get", "create", "update", "delete", "*"}[random.IntN(5)])
		object := objects[random.IntN(len(objects))]
		data := conditionsData{attributes: request, operation: "UPDATE", object: object}
		outcome := func(source *engine.Source, attributes authorizer.Attributes) []string {
			chain := threeParts(t, source)
			decision := chain.Decide(t.Context(), attributes)
			lazy := chain.Begin(t.Context(), attributes)
			lines := []string{show(t, decision), decision.Reason(), show(t, lazy.Decision())}
			for _, final := range []authorization.Decision{
				decision.Fold(), decision.Evaluate(t.Context(), authorization.EvaluatorFor(data, nil)), lazy.Evaluate(t.Context(), authorization.EvaluatorFor(data, nil)),
			} {
				lines = append(lines, show(t, final), final.Reason(), strings.Join(final.Labels(), ","))
			}
			by, found := source.Restriction(t.Context(), attributes)
			return append(lines, by.String(), strconv.FormatBool(found))
		}
		audit := &authorization.Audit{}
		want, got := outcome(without, request), outcome(with, authorization.Request{Attributes: request, Audit: audit})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("policies with the enforcement Audit change the decision about %v (-want +got):\n%s", enforced, diff)
		}
		audit.Settle(t.Context())
		audit.Admit(t.Context(), data)
		audit.Finish(authorization.RemainderFolded)
		audits += len(audit.Annotations())
	}
	if audits < 200 {
		t.Errorf("only %d annotations", audits)
	}
}
