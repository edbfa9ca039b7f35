/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/metrics/legacyregistry"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// policy is a policy of the tests: for alice, on everything, unless it says otherwise.
type policy struct {
	// everyone says that the policy is for all users.
	everyone  bool
	effect    policyv1alpha1.PolicyEffect
	condition string
	rule      policyv1alpha1.PolicyRule
	// enforcement is Enforce if it is empty.
	enforcement policyv1alpha1.PolicyEnforcement
}

const (
	allow     = policyv1alpha1.PolicyEffectAllow
	deny      = policyv1alpha1.PolicyEffectDeny
	noOpinion = policyv1alpha1.PolicyEffectNoOpinion
)

func compile(tb testing.TB, policies map[string]policy) map[engine.Key]*engine.Policy {
	tb.Helper()
	compiler := compilers.Policies(tb)
	result := map[engine.Key]*engine.Policy{}
	for name, p := range policies {
		if len(p.rule.Verbs) == 0 {
			p.rule = policyv1alpha1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}
		}
		subject := rbacv1.Subject{Kind: rbacv1.UserKind, Name: "alice"}
		if p.everyone {
			subject = rbacv1.Subject{Kind: rbacv1.GroupKind, Name: user.AllAuthenticated}
		}
		key := engine.Key{Name: name}
		if namespace, in, ok := strings.Cut(name, "/"); ok {
			key = engine.Key{Namespace: namespace, Name: in}
		}
		var err error
		if result[key], err = engine.New(key, &policyv1alpha1.AuthorizationPolicySpec{
			Effect: p.effect, Condition: p.condition, Rules: []policyv1alpha1.PolicyRule{p.rule},
			Subjects: []rbacv1.Subject{subject}, Enforcement: p.enforcement,
		}, compiler); err != nil {
			tb.Fatal(err)
		}
	}
	return result
}

func publish(tb testing.TB, policies map[string]policy) *engine.Source {
	tb.Helper()
	source := &engine.Source{}
	source.Publish(engine.NewBuilder().Apply(compile(tb, policies)))
	return source
}

// enforcesMachines says that creations of machines, and nothing else, are enforced.
func enforcesMachines(a authorizer.Attributes) bool {
	return a.GetVerb() == "create" && a.GetAPIGroup() == "demo.proviso.dev" && a.GetAPIVersion() == "v1alpha1" && a.GetResource() == "virtualmachines"
}

// chainOf is the front door's chain of a server.
func chainOf(tb testing.TB, source *engine.Source) *authorization.Chain {
	tb.Helper()
	chain, err := authorization.NewChain(
		authorization.Member{Name: engine.RestrictingName, Decider: &engine.Authorizer{Source: source, Part: engine.Restricting}},
		authorization.Member{Name: engine.GrantingName, Decider: &engine.Authorizer{Source: source, Part: engine.GrantingCluster}},
		authorization.Member{Name: engine.NamespacedName, Decider: &engine.Authorizer{Source: source, Part: engine.GrantingNamespaced}},
	)
	if err != nil {
		tb.Fatal(err)
	}
	return chain
}

func newDoor(tb testing.TB, source *engine.Source, enforces func(authorizer.Attributes) bool) *frontdoor.Decider {
	tb.Helper()
	door, err := frontdoor.New(frontdoor.Config{Policies: frontdoor.Policies{Chain: chainOf(tb, source), Source: source}, Places: places{enforces: enforces}.table(), ReviewsShowConditions: true})
	if err != nil {
		tb.Fatal(err)
	}
	return door
}

func asAlice(change func(*authorizer.AttributesRecord)) authorizer.AttributesRecord {
	record := authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "alice", Groups: []string{user.AllAuthenticated}},
		Verb: "create", APIGroup: "demo.proviso.dev", APIVersion: "v1alpha1", Resource: "virtualmachines", Namespace: "demo", ResourceRequest: true,
	}
	if change != nil {
		change(&record)
	}
	return record
}

func marked(key string) func(*authorizer.AttributesRecord) {
	return func(a *authorizer.AttributesRecord) {
		a.User = &user.DefaultInfo{Name: "alice", Groups: []string{user.AllAuthenticated}, Extra: map[string][]string{key: {"true"}}}
	}
}

func configMaps(verb string) func(*authorizer.AttributesRecord) {
	return func(a *authorizer.AttributesRecord) {
		a.Verb, a.APIGroup, a.APIVersion, a.Resource = verb, "", "v1", "configmaps"
	}
}

func both(changes ...func(*authorizer.AttributesRecord)) func(*authorizer.AttributesRecord) {
	return func(a *authorizer.AttributesRecord) {
		for _, change := range changes {
			change(a)
		}
	}
}

// show says what a decision is, as Authorize would.
func show(decision authorization.Decision) string {
	switch {
	case decision.IsAllow():
		return "Allow"
	case decision.IsDeny():
		return "Deny"
	case decision.IsNoOpinion():
		return "NoOpinion"
	}
	return "conditions"
}

// The sets of policies of the tables.
var (
	oneVersion       = policyv1alpha1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, APIVersions: []string{"v1alpha1"}, Resources: []string{"*"}}
	unlessOneVersion = map[string]policy{"a": {effect: allow}, "d": {effect: deny, condition: "object.a == 1", rule: oneVersion}}

	always        = map[string]policy{"p": {effect: allow}}
	never         = map[string]policy{"p": {effect: deny}}
	onCondition   = map[string]policy{"p": {effect: allow, condition: `object.spec.image == "debian"`}}
	unlessIt      = map[string]policy{"p": {effect: deny, condition: `object.spec.image == "debian"`}}
	alwaysUnless  = map[string]policy{"a": {effect: allow}, "d": {effect: deny, condition: `object.spec.image == "debian"`}}
	heldBack      = map[string]policy{"a": {effect: allow}, "n": {effect: noOpinion}}
	asksBack      = map[string]policy{"p": {effect: allow, condition: `authorizer.path("/x").check("get").allowed()`}}
	ofTheName     = map[string]policy{"p": {effect: allow, condition: `request.userInfo.username == "alice"`}}
	broken        = map[string]policy{"p": {effect: deny, condition: `request.userInfo.extra["none"][0] == ""`}}
	readsLabels   = map[string]policy{"p": {effect: deny, condition: `request.labelSelector.requirements.all(r, r.key != "a")`}}
	ofOneVersion  = map[string]policy{"p": {effect: allow, rule: oneVersion}}
	alwaysPaths   = map[string]policy{"p": {effect: allow, rule: policyv1alpha1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}}}
	conditionPath = map[string]policy{"p": {effect: allow, condition: "object.a == 1", rule: policyv1alpha1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}}}
)

func metricsPath(a *authorizer.AttributesRecord) {
	*a = authorizer.AttributesRecord{User: a.User, Verb: "get", Path: "/metrics"}
}

func TestFrontDoorDecide(t *testing.T) {
	t.Parallel()
	const marker = authorization.DelegationMarker
	verb := func(verb string) func(*authorizer.AttributesRecord) {
		return func(a *authorizer.AttributesRecord) { a.Verb = verb }
	}
	version := func(version string) func(*authorizer.AttributesRecord) {
		return func(a *authorizer.AttributesRecord) { a.APIVersion = version }
	}
	impersonate := func(key string) func(*authorizer.AttributesRecord) {
		return func(a *authorizer.AttributesRecord) {
			a.Verb, a.APIGroup, a.APIVersion, a.Resource, a.Subresource = "impersonate", "authentication.k8s.io", "v1", "userextras", key
		}
	}
	for _, tc := range []struct {
		name       string
		policies   map[string]policy
		change     func(*authorizer.AttributesRecord)
		want       string
		wantReason string
	}{
		{name: "no policies", want: "NoOpinion"},
		{name: "enforced: Allow", policies: always, want: "Allow", wantReason: `policy=p reason=Allowed: it allows the request`},
		{name: "enforced: Deny", policies: never, want: "Deny", wantReason: `policy=p reason=Denied: it denies the request`},
		{name: "enforced: conditional Allow", policies: onCondition, want: "Allow", wantReason: "policy=p"},
		{name: "enforced: conditional Deny, which Proviso evaluates if RBAC allows", policies: unlessIt, want: "NoOpinion"},
		{name: "enforced: Allow and conditional Deny", policies: alwaysUnless, want: "Allow", wantReason: "policy=d"},
		{name: "enforced: held back", policies: heldBack, want: "NoOpinion", wantReason: `policy=n reason=HeldBack: it keeps Allow policies from allowing the request`},
		{name: "enforced: a condition that asks others", policies: asksBack, want: "Allow"},
		{name: "enforced: a condition that is known", policies: ofTheName, want: "Allow", wantReason: `policy=p reason=Allowed: it allows the request`},
		{name: "enforced: a Deny condition that fails", policies: broken, want: "Deny", wantReason: "its condition could not be evaluated"},

		{name: "read: Allow", policies: always, change: verb("get"), want: "Allow"},
		{name: "read: conditional Allow", policies: onCondition, change: verb("get"), want: "NoOpinion", wantReason: "cannot be evaluated"},
		{name: "read: conditional Deny", policies: unlessIt, change: verb("list"), want: "Deny", wantReason: "cannot be evaluated"},
		{name: "read: Allow and conditional Deny", policies: alwaysUnless, change: verb("watch"), want: "Deny", wantReason: "policy=d"},
		{name: "another version: conditional Allow", policies: onCondition, change: version("v1"), want: "NoOpinion"},
		{name: "every version: conditional Allow", policies: onCondition, change: version("*"), want: "NoOpinion", wantReason: `does not name one verb, group, version and resource: allowed on conditions: policy=p; to see the conditions, create the review of authorization.proviso.dev/v1alpha1 with spec.conditionalAuthorization.mode`},
		{name: "no version: conditional Allow", policies: onCondition, change: version(""), want: "NoOpinion", wantReason: `allowed on conditions: policy=p; to see`},
		{name: "every version: Allow of one", policies: ofOneVersion, change: version("*"), want: "NoOpinion", wantReason: `allowed on conditions: policy=p; to see`},
		{name: "every version: conditional Deny", policies: unlessIt, change: version("*"), want: "Deny", wantReason: `version and resource: one condition could deny: policy=p; to see`},
		{name: "every version: Allow, and conditional Deny of one", policies: unlessOneVersion, change: version("*"), want: "Deny", wantReason: `one condition could deny: policy=d; to see`},
		{name: "marked, every version: conditional Deny, which Proviso knows", policies: unlessIt, change: both(version("*"), marked(marker)), want: "NoOpinion"},
		{name: "every version: Allow of everything", policies: always, change: version("*"), want: "Allow"},
		{name: "every verb: conditional Allow", policies: onCondition, change: verb("*"), want: "NoOpinion"},

		{name: "elsewhere: Allow", policies: always, change: configMaps("create"), want: "Allow"},
		{name: "elsewhere: Deny", policies: never, change: configMaps("create"), want: "Deny", wantReason: `policy=p reason=Denied: it denies the request`},
		{name: "elsewhere: conditional Allow", policies: onCondition, change: configMaps("create"), want: "NoOpinion", wantReason: `policy=p reason=Error: its condition cannot be evaluated for this request`},
		{name: "elsewhere: conditional Deny", policies: unlessIt, change: configMaps("create"), want: "Deny", wantReason: `policy=p reason=Error: its condition cannot be evaluated for this request`},
		{name: "elsewhere: conditional Allow, and Allow in the namespace", policies: map[string]policy{
			"p": {effect: allow, condition: "object.a == 1"}, "demo/q": {effect: allow},
		}, change: configMaps("create"), want: "Allow", wantReason: "policy=demo/q reason=Allowed"},
		{name: "elsewhere: Allow and conditional Deny", policies: alwaysUnless, change: configMaps("create"), want: "Deny"},
		{name: "a path: Allow", policies: alwaysPaths, change: metricsPath, want: "Allow"},
		{name: "a path: conditional Allow", policies: conditionPath, change: metricsPath, want: "NoOpinion"},

		{name: "marked: Allow", policies: always, change: marked(marker), want: "NoOpinion"},
		{name: "marked in another case: Allow", policies: always, change: marked(strings.ToUpper(marker)), want: "NoOpinion"},
		{name: "marked: Deny", policies: never, change: marked(marker), want: "Deny"},
		{name: "marked: conditional Allow", policies: onCondition, change: marked(marker), want: "NoOpinion"},
		{name: "marked: conditional Deny, which Proviso knows", policies: unlessIt, change: marked(marker), want: "NoOpinion"},
		{name: "marked: Allow and conditional Deny", policies: alwaysUnless, change: marked(marker), want: "NoOpinion"},
		{name: "marked, elsewhere: Allow", policies: always, change: both(configMaps("get"), marked(marker)), want: "NoOpinion"},
		{name: "marked, elsewhere: Deny", policies: never, change: both(configMaps("get"), marked(marker)), want: "Deny"},
		{name: "marked, elsewhere: conditional Deny", policies: unlessIt, change: both(configMaps("get"), marked(marker)), want: "NoOpinion"},
		{name: "marked, a path: Allow", policies: alwaysPaths, change: both(metricsPath, marked(marker)), want: "NoOpinion"},
		{name: "another extra is no marker", policies: always, change: marked(marker + "x"), want: "Allow"},

		{name: "impersonation into the marker", policies: always, change: impersonate(marker), want: "Deny", wantReason: "is reserved for Proviso and cannot be impersonated"},
		{name: "impersonation into the marker, in another case", policies: always, change: impersonate(strings.ToUpper(marker)), want: "Deny"},
		{name: "impersonation into the marker, when Proviso asks", policies: always, change: both(impersonate(marker), marked(marker)), want: "Deny"},
		{name: "impersonation into another extra", policies: always, change: impersonate("scopes"), want: "Allow"},
		{name: "a user without a name", policies: always, change: func(a *authorizer.AttributesRecord) { a.User = &user.DefaultInfo{} }, want: "NoOpinion"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			door := newDoor(t, publish(t, tc.policies), enforcesMachines)
			got, err := door.Decide(t.Context(), asAlice(tc.change))
			if err != nil {
				t.Fatal(err)
			}
			if show(got) != tc.want || !strings.Contains(got.Reason(), tc.wantReason) {
				t.Errorf("got %s (%s), want %s (%s)", show(got), got.Reason(), tc.want, tc.wantReason)
			}
			if strings.HasPrefix(tc.name, "marked") && (got.Reason() != "") != got.IsDeny() {
				t.Errorf("Proviso, which has the reasons itself, gets the reason %q", got.Reason())
			}
		})
	}
}

// TestReservedExtras denies impersonation of what is reserved for Proviso at Proviso itself, and nothing else.
func TestReservedExtras(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		authorization.DelegationMarker: "Deny", strings.ToUpper(authorization.DelegationMarker): "Deny", innerdoor.CanaryExtra: "Deny",
		"example.com/a": "NoOpinion", authorization.DelegationMarker + "x": "NoOpinion",
	} {
		for _, verb := range []string{"impersonate", "impersonate:user-info", "impersonate-on:user-info:get"} {
			decision := frontdoor.ReservedExtras{}.Decide(t.Context(), authorizer.AttributesRecord{
				Verb: verb, APIGroup: "authentication.k8s.io", APIVersion: "v1", Resource: "userextras", Subresource: key, Name: "x", ResourceRequest: true,
			})
			if decision.IsDeny() != (want == "Deny") || decision.IsNoOpinion() != (want == "NoOpinion") {
				t.Errorf("%s %s: got %+v, want %s", verb, key, decision, want)
			}
		}
	}
}

// TestMarkerOnlyTakesRights compares the answer to a check that has the delegation marker with the answer to the same check
// without the marker, for policies that have no condition that denies. With the marker no answer is more open, and none is Allow.
func TestMarkerOnlyTakesRights(t *testing.T) {
	t.Parallel()
	openness := map[string]int{"Deny": 0, "NoOpinion": 1, "Allow": 2}
	for name, policies := range map[string]map[string]policy{"always": always, "never": never, "onCondition": onCondition, "heldBack": heldBack, "ofTheName": ofTheName, "broken": broken} {
		for _, change := range []func(*authorizer.AttributesRecord){nil, configMaps("create"), configMaps("get"), metricsPath} {
			door := newDoor(t, publish(t, policies), enforcesMachines)
			plain, err := door.Decide(t.Context(), asAlice(change))
			if err != nil {
				t.Fatal(err)
			}
			delegated, err := door.Decide(t.Context(), asAlice(both(func(a *authorizer.AttributesRecord) {
				if change != nil {
					change(a)
				}
			}, marked(authorization.DelegationMarker))))
			if err != nil {
				t.Fatal(err)
			}
			if openness[show(delegated)] > openness[show(plain)] || delegated.IsAllow() {
				t.Errorf("%s: got %s with the marker, %s without", name, show(delegated), show(plain))
			}
		}
	}
}

// TestConnections asks that the reason of an Allow for a connection says that it is not enough.
func TestConnections(t *testing.T) {
	t.Parallel()
	const want = "; a connection also needs the verb create, which Proviso checks"
	for name, policies := range map[string]map[string]policy{"always": always, "onCondition": onCondition} {
		source := publish(t, policies)
		for _, needsCreate := range []bool{false, true} {
			door, err := frontdoor.New(frontdoor.Config{
				Policies: frontdoor.Policies{Chain: chainOf(t, source), Source: source}, Places: places{
					enforces: func(authorizer.Attributes) bool { return true }, create: func(authorizer.Attributes) bool { return needsCreate },
				}.table(),
			})
			if err != nil {
				t.Fatal(err)
			}
			got, err := door.Decide(t.Context(), asAlice(func(a *authorizer.AttributesRecord) { a.Verb, a.Subresource = "get", "console" }))
			if err != nil {
				t.Fatal(err)
			}
			if !got.IsAllow() || strings.HasSuffix(got.Reason(), want) != needsCreate {
				t.Errorf("%s: got %s (%s), want Allow, and that it needs create: %t", name, show(got), got.Reason(), needsCreate)
			}
		}
	}
}

// TestConditionalAnswersAreCounted asks that the metric counts answers that cannot show conditions, and not the checks of Proviso.
// It is not parallel, because the metric belongs to the process.
func TestConditionalAnswersAreCounted(t *testing.T) {
	everyVersion := func(a *authorizer.AttributesRecord) { a.APIVersion = "*" }
	frontdoor.RegisterMetrics()
	for _, tc := range []struct {
		name     string
		policies map[string]policy
		change   func(*authorizer.AttributesRecord)
		want     string
	}{
		{"unconditional", always, nil, ""},
		{"Allow on conditions", onCondition, nil, "allowed_on_conditions"},
		{"Deny on conditions that Proviso evaluates", unlessIt, nil, "left_to_server"},
		{"Deny on conditions", unlessIt, everyVersion, "folded_to_denied"},
		{"Allow on conditions about every version", onCondition, everyVersion, "folded_to_no_opinion"},
		{"Deny on conditions elsewhere", unlessIt, configMaps("create"), "folded_to_denied"},
		{"a check of Proviso", onCondition, marked(authorization.DelegationMarker), ""},
		{"Deny on conditions that kube-apiserver enforces", map[string]policy{"d": onVerbs(deny, "dryRun", "*")}, configMaps("create"), "left_to_barrier"},
		{"Allow, and Deny on conditions that kube-apiserver enforces", map[string]policy{"a": {effect: allow}, "d": onVerbs(deny, "dryRun", "*")}, configMaps("create"), "left_to_barrier"},
		{"Allow on conditions, and Deny on conditions that kube-apiserver enforces", map[string]policy{"a": onVerbs(allow, "dryRun", "*"), "d": onVerbs(deny, "dryRun", "*")}, configMaps("create"), "folded_to_no_opinion"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := conditionalAnswers(t)
			source := publish(t, tc.policies)
			door, err := frontdoor.New(frontdoor.Config{Policies: frontdoor.Policies{Chain: chainOf(t, source), Source: source}, Places: places{enforces: enforcesMachines, barriers: newBarriers("d")}.table()})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := door.Decide(frontdoor.WithClient(t.Context(), goodClient), asAlice(tc.change)); err != nil {
				t.Fatal(err)
			}
			after := conditionalAnswers(t)
			for _, answer := range []string{"allowed_on_conditions", "allowed_on_fields", "left_to_server", "left_to_barrier", "folded_to_denied", "folded_to_no_opinion"} {
				want := 0.0
				if answer == tc.want {
					want = 1
				}
				if got := after[answer] - before[answer]; got != want {
					t.Errorf("%s: counted %v, want %v", answer, got, want)
				}
			}
		})
	}
}

// conditionalAnswers returns the values of the metric by its label.
func conditionalAnswers(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "proviso_webhook_authorize_conditional_answers_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			values[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
	}
	return values
}

// TestReasonsAreBounded asks that many conditions do not make a long message.
func TestReasonsAreBounded(t *testing.T) {
	t.Parallel()
	policies := map[string]policy{}
	for name := 'a'; name < 'z'; name++ {
		policies[string(name)] = policy{effect: deny, condition: "object.a == 1"}
	}
	got, err := newDoor(t, publish(t, policies), enforcesMachines).Decide(t.Context(), asAlice(configMaps("create")))
	if err != nil {
		t.Fatal(err)
	}
	if named := strings.Count(got.Reason(), "policy="); named != 8 || !strings.HasSuffix(got.Reason(), "; …") {
		t.Errorf("got %d policies in %q, want eight and an ellipsis", named, got.Reason())
	}
}

// TestOneSnapshot asks that both parts of the policies decide from the same, though others
// are published when the first has begun.
func TestOneSnapshot(t *testing.T) {
	t.Parallel()
	source := publish(t, map[string]policy{"a": {effect: allow}, "d": {effect: deny, condition: `request.userInfo.uid == "never"`}})
	replaced := false
	door := newDoor(t, source, enforcesMachines)
	got, err := door.Decide(t.Context(), asAlice(func(a *authorizer.AttributesRecord) {
		a.User = uidHook{a.User, func() {
			replaced = true
			source.Publish(engine.NewBuilder().Apply(compile(t, unlessIt)))
		}}
	}))
	if err != nil {
		t.Fatal(err)
	}
	if !replaced || !got.IsAllow() {
		t.Errorf("got %s after a replacement: %v, want what the first snapshot says", show(got), replaced)
	}
	if got, err = door.Decide(t.Context(), asAlice(nil)); err != nil || !got.IsNoOpinion() {
		t.Errorf("afterwards: got %s, %v, want what the second says", show(got), err)
	}
}

// uidHook calls a function when the UID of the user is read, as conditions do.
type uidHook struct {
	user.Info
	read func()
}

func (h uidHook) GetUID() string {
	h.read()
	return h.Info.GetUID()
}

func TestNotLoaded(t *testing.T) {
	t.Parallel()
	source := &engine.Source{}
	door := newDoor(t, source, enforcesMachines)
	if got, err := door.Decide(t.Context(), asAlice(nil)); err == nil || !got.IsDeny() {
		t.Errorf("before there are policies: got %s, %v, want an error, and nothing that allows", show(got), err)
	}
	reserved := asAlice(func(a *authorizer.AttributesRecord) {
		a.Verb, a.APIGroup, a.APIVersion, a.Resource, a.Subresource, a.Namespace, a.Name = "impersonate", "authentication.k8s.io", "v1", "userextras", authorization.DelegationMarker, "", "proviso"
	})
	if got, err := door.Decide(t.Context(), reserved); err != nil || !got.IsDeny() {
		t.Errorf("impersonating the marker before there are policies: got %s, %v, want Deny", show(got), err)
	}
	if err := door.Ready(); err == nil || !strings.Contains(err.Error(), "not been loaded") {
		t.Errorf("ready: got %v, want that policies are not loaded", err)
	}
	source.Publish(engine.NewBuilder().Apply(compile(t, always)))
	if got, err := door.Decide(t.Context(), asAlice(nil)); err != nil || !got.IsAllow() {
		t.Errorf("with policies: got %s, %v, want Allow", show(got), err)
	}
	if err := door.Ready(); err != nil {
		t.Errorf("ready: got %v", err)
	}
	source.SetStale("no news")
	if got, err := door.Decide(t.Context(), asAlice(nil)); err != nil || !got.IsNoOpinion() {
		t.Errorf("with policies out of date: got %s, %v, want that Allow policies grant nothing", show(got), err)
	}
	if err := door.Ready(); err == nil || !strings.Contains(err.Error(), "no news") {
		t.Errorf("ready: got %v, want why not", err)
	}
	source.Publish(engine.NewBuilder().Apply(compile(t, never)))
	if got, err := door.Decide(t.Context(), asAlice(nil)); err != nil || !got.IsDeny() {
		t.Errorf("with policies out of date: got %s, %v, want that Deny policies stay", show(got), err)
	}
}

func TestNewFrontDoorRefuses(t *testing.T) {
	t.Parallel()
	source := &engine.Source{}
	for missing, config := range map[string]frontdoor.Config{
		"a chain":                  {Policies: frontdoor.Policies{Source: source}, Places: places{enforces: enforcesMachines}.table()},
		"policies":                 {Policies: frontdoor.Policies{Chain: chainOf(t, source)}, Places: places{enforces: enforcesMachines}.table()},
		"knowing what is enforced": {Policies: frontdoor.Policies{Chain: chainOf(t, source), Source: source}},
		"asking what users read":   {Policies: frontdoor.Policies{Chain: chainOf(t, source), Source: source}, Places: places{enforces: enforcesMachines, inner: newInnerDoor()}.table()},
	} {
		if door, err := frontdoor.New(config); err == nil {
			t.Errorf("without %s: got %v", missing, door)
		}
	}
}

// benchmarked are the sets of policies of the benchmarks.
var benchmarked = map[string]map[string]policy{"none": nil, "allow": always, "conditional": onCondition}

// BenchmarkDecide is the cost of a review without the network.
func BenchmarkDecide(b *testing.B) {
	for name, policies := range benchmarked {
		b.Run(name, func(b *testing.B) {
			decide := newDoor(b, publish(b, policies), enforcesMachines).Prepared(context.Background(), asAlice(nil))
			for b.Loop() {
				if _, err := decide(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReview is what kube-apiserver waits for: one review on an open connection.
func BenchmarkReview(b *testing.B) {
	for name, policies := range benchmarked {
		b.Run(name, func(b *testing.B) {
			l := newListener(b, newDoor(b, publish(b, policies), enforcesMachines))
			client := l.client(b, l.clientPair(b, "kube-apiserver"))
			for b.Loop() {
				if code, body := l.ask(b, client); code != http.StatusOK {
					b.Fatalf("got %d %s", code, body)
				}
			}
		})
	}
}
