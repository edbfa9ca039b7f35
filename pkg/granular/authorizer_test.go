/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package granular_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// write is the data of a write at admission.
type write struct {
	operation      authorizer.AdmissionOperation
	user           user.Info
	name           string
	subresource    string
	resource       schema.GroupVersionResource
	object, before runtime.Object
	options        runtime.Object
}

func (w write) GetName() string                             { return w.name }
func (w write) GetNamespace() string                        { return "ns" }
func (w write) GetResource() schema.GroupVersionResource    { return w.resource }
func (w write) GetSubresource() string                      { return w.subresource }
func (w write) GetKind() schema.GroupVersionKind            { return things.Kind }
func (w write) GetUserInfo() user.Info                      { return w.user }
func (w write) IsDryRun() bool                              { return false }
func (w write) GetOperationOptions() runtime.Object         { return w.options }
func (w write) GetObject() runtime.Object                   { return w.object }
func (w write) GetOldObject() runtime.Object                { return w.before }
func (w write) GetOperation() authorizer.AdmissionOperation { return w.operation }

func updateOf(t *testing.T, before, after string) write {
	t.Helper()
	return write{operation: "UPDATE", user: updateByBob.User, name: "one", subresource: "status", resource: things.Machines, object: things.Object(things.Parse(t, after)), before: things.Object(things.Parse(t, before))}
}

// overTheWire is a decision after a review of it went to somebody and came back.
func overTheWire(t *testing.T, d authorizer.ConditionsAwareDecision, change func(*authorization.Condition)) authorizer.ConditionsAwareDecision {
	t.Helper()
	var sets []authorization.Set
	for _, set := range authorization.FromUpstream("granular", d).Chain() {
		var conditions []authorization.Condition
		for _, c := range set.Decision.Conditions() {
			c.EvaluateFunc = nil
			if change != nil {
				change(&c)
			}
			conditions = append(conditions, c)
		}
		set.Decision = authorization.Conditions(conditions...)
		sets = append(sets, set)
	}
	if len(sets) != 1 {
		t.Fatalf("got %d sets, want 1", len(sets))
	}
	return authorization.ToUpstream(authorization.Chained(sets...))
}

// sourceOf returns a source that holds mappings.
func sourceOf(mappings ...*policy.FieldPermissionMapping) *mapping.Source {
	source := &mapping.Source{}
	source.Publish(mappings...)
	return source
}

// TestWhoIsAsked says which requests the authorizers have an opinion on.
func TestWhoIsAsked(t *testing.T) {
	t.Parallel()
	excluding := sourceOf(things.Mapping("m", things.Spec(things.Excluded("spec.boom", "selfDestruction", ""))))
	for _, tc := range []struct {
		name             string
		verbs            string
		err              error
		verb             string // of the request, if it is not update
		resource         string // of the request, if it is not machines
		path             bool   // the request is about a path
		include, exclude bool
	}{
		{name: "who has the verb", verbs: "granular", include: true, exclude: true},
		{name: "who has it not", exclude: true},
		{name: "who is denied it", verbs: "!granular", exclude: true},
		{name: "an error is no permission", verbs: "granular", err: errors.New("x"), exclude: true},
		{name: "a create", verbs: "granular", verb: "create", include: true, exclude: true},
		{name: "a patch", verbs: "granular", verb: "patch", include: true, exclude: true},
		{name: "a delete", verbs: "granular", verb: "delete"},
		{name: "a read", verbs: "granular", verb: "get"},
		{name: "the verb itself", verbs: "granular", verb: "granular"},
		{name: "every verb", verbs: "granular", verb: "*", exclude: true},
		{name: "another resource", verbs: "granular", resource: "others", include: true},
		{name: "every resource", verbs: "granular", resource: "*", exclude: true},
		{name: "a path", verbs: "granular", path: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			attributes := updateByBob
			attributes.Verb, attributes.Resource = cmp.Or(tc.verb, attributes.Verb), cmp.Or(tc.resource, attributes.Resource)
			attributes.ResourceRequest = !tc.path
			config := granular.Config{Authorizer: &grants{verbs: strings.Fields(tc.verbs), err: tc.err}, Mappings: excluding}
			include, exclude := both(t, config)
			if got := authorization.FromUpstream("", include.ConditionsAwareAuthorize(t.Context(), attributes)); got.CanBecomeAllowed() != tc.include || got.CanBecomeDenied() {
				t.Errorf("include: got %+v, want conditional %v", got, tc.include)
			}
			if got := authorization.FromUpstream("", exclude.ConditionsAwareAuthorize(t.Context(), attributes)); got.CanBecomeDenied() != tc.exclude || got.CanBecomeAllowed() {
				t.Errorf("exclude: got %+v, want conditional %v", got, tc.exclude)
			}
			// Those who do not know conditions get what is safe.
			if d, _, _ := include.Authorize(t.Context(), attributes); d != authorizer.DecisionNoOpinion {
				t.Errorf("include without conditions: got %v", d)
			}
			if d, _, _ := exclude.Authorize(t.Context(), attributes); (d == authorizer.DecisionDeny) != tc.exclude || d == authorizer.DecisionAllow {
				t.Errorf("exclude without conditions: got %v", d)
			}
		})
	}
}

// mustMake returns one of the authorizers with the interface of k8s.io/apiserver.
func mustMake(t *testing.T, makeOne func(granular.Config) (authorization.Decider, error), config granular.Config) authorizer.Authorizer {
	t.Helper()
	made, err := makeOne(config)
	if err != nil {
		t.Fatal(err)
	}
	return authorization.AuthorizerOf(made)
}

// both returns the two authorizers.
func both(t *testing.T, config granular.Config) (include, exclude authorizer.Authorizer) {
	t.Helper()
	return mustMake(t, granular.NewInclude, config), mustMake(t, granular.NewExclude, config)
}

// bothSides are the constructors of the two authorizers.
var bothSides = map[string]func(granular.Config) (authorization.Decider, error){"include": granular.NewInclude, "exclude": granular.NewExclude}

// membersOf returns the members of a chain for both authorizers.
func membersOf(t testing.TB, config granular.Config) []authorization.Member {
	t.Helper()
	exclude, err := granular.NewExclude(config)
	if err != nil {
		t.Fatal(err)
	}
	include, err := granular.NewInclude(config)
	if err != nil {
		t.Fatal(err)
	}
	return []authorization.Member{{Name: "exclude", Decider: exclude}, {Name: "include", Decider: include}}
}

func chainOf(t testing.TB, members []authorization.Member) *authorization.Chain {
	t.Helper()
	chain, err := authorization.NewChain(members...)
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

// evaluated is what becomes of a decision of an authorizer at admission.
func evaluated(t *testing.T, decision authorizer.ConditionsAwareDecision, data write) authorization.Decision {
	t.Helper()
	return authorization.FromUpstream("", decision).Evaluate(t.Context(), authorization.EvaluatorFor(data, nil))
}

// TestEvaluation evaluates in process, through a chain, and after the wire: all say the
// same.
func TestEvaluation(t *testing.T) {
	t.Parallel()
	const plain = "metadata: {name: a}\n"
	mappings := sourceOf(things.Mapping("m", things.Spec(things.Excluded("metadata.annotations[\"boom\"]", "selfDestruction", ""))))
	for _, tc := range []struct {
		name  string
		verbs string
		data  write
		want  authorizer.Decision // of the chain
		text  string
	}{
		{"a field that is covered", "granular granular:labels", updateOf(t, plain, "metadata: {name: a, labels: {x: z}}"), authorizer.DecisionAllow, ""},
		{"a field that is not", "granular granular:annotations", updateOf(t, plain, "metadata: {name: a, labels: {x: z}}"), authorizer.DecisionNoOpinion,
			`changing the field metadata.labels.x needs the verb "granular:metadata" or "granular:labels" or "granular:label(x)"`},
		{"nothing", "granular", updateOf(t, plain, plain), authorizer.DecisionAllow, ""},
		{"an excluded field", "granular granular:metadata", updateOf(t, plain, "metadata: {name: a, annotations: {boom: z}}"), authorizer.DecisionDeny,
			`metadata.annotations.boom is excluded from general permission: changing it also needs the verb "granular:selfDestruction"`},
		{"an excluded field with its permission", "granular granular:metadata granular:selfDestruction", updateOf(t, plain, "metadata: {name: a, annotations: {boom: z}}"), authorizer.DecisionAllow, ""},
		{"an update without old object", "*", updateOf(t, "", plain), authorizer.DecisionDeny, "there is no old object"},
		{"a connection is none of the fields, and nothing to include", "*", func() write { w := updateOf(t, plain, plain); w.operation = "CONNECT"; return w }(), authorizer.DecisionNoOpinion, "only creations and updates"},
		{"a deletion is none of the fields, and nothing to include", "*", func() write { w := updateOf(t, plain, plain); w.operation = "DELETE"; return w }(), authorizer.DecisionNoOpinion, "only creations and updates"},
		{"no operation", "*", func() write { w := updateOf(t, plain, plain); w.operation = ""; return w }(), authorizer.DecisionDeny, "only creations and updates"},
		{"an object that does not fit", "*", updateOf(t, plain, "secret: fortytwo"), authorizer.DecisionDeny, "the new object does not fit the schema"},
		{"an object that panics", "*", func() write { w := updateOf(t, plain, plain); w.object = panicking{}; return w }(), authorizer.DecisionDeny, "checking the fields failed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			config := granular.Config{Authorizer: &grants{verbs: strings.Fields(tc.verbs)}, Types: things.Types(t), Mappings: mappings}
			include, exclude := both(t, config)
			inProcess := chainOf(t, membersOf(t, config)).Decide(t.Context(), updateByBob).Evaluate(t.Context(), authorization.EvaluatorFor(tc.data, nil))
			decision, reason, _ := inProcess.Concrete()
			if decision != tc.want || !strings.Contains(reason, tc.text) || strings.Contains(reason, "fortytwo") {
				t.Errorf("in process: got %v: %s\nwant %v: %s", decision, reason, tc.want, tc.text)
			}
			wire, reason := authorizer.DecisionNoOpinion, ""
			for _, a := range []authorizer.Authorizer{exclude, include} {
				d := overTheWire(t, a.ConditionsAwareAuthorize(t.Context(), updateByBob), nil)
				if wire, reason, _ = a.EvaluateConditions(t.Context(), d, tc.data); wire != authorizer.DecisionNoOpinion {
					break
				}
			}
			if wire != tc.want || !strings.Contains(reason, tc.text) {
				t.Errorf("after the wire: got %v: %s\nwant %v: %s", wire, reason, tc.want, tc.text)
			}
		})
	}
}

// panicking is an object whose conversion panics.
type panicking struct{}

func (panicking) GetObjectKind() schema.ObjectKind                       { return schema.EmptyObjectKind }
func (panicking) UnstructuredContent() map[string]any                    { panic("no") }
func (panicking) DeepCopyObject() runtime.Object                         { panic("no") }
func (panicking) SetUnstructuredContent(map[string]any)                  {}
func (panicking) IsList() bool                                           { return false }
func (panicking) EachListItem(func(runtime.Object) error) error          { return nil }
func (panicking) EachListItemWithAlloc(func(runtime.Object) error) error { return nil }
func (panicking) NewEmptyInstance() runtime.Unstructured                 { return nil }
func (panicking) MarshalJSON() ([]byte, error)                           { return nil, nil }
func (panicking) UnmarshalJSON([]byte) error                             { return nil }

// TestForgedConditions come back from the wire changed, or with data of something else.
func TestForgedConditions(t *testing.T) {
	t.Parallel()
	const plain = "metadata: {name: a}\n"
	table := mapping.NewTable(things.Mapping("m", things.Spec(things.Excluded("spec.boom", "selfDestruction", ""))))
	other := mapping.NewTable(things.Mapping("m", things.Spec(things.Excluded("spec.bang", "selfDestruction", ""))))
	edit := func(key string, value any) func(*authorization.Condition) {
		return func(c *authorization.Condition) {
			content := map[string]any{}
			if err := json.Unmarshal([]byte(c.Text), &content); err != nil {
				panic(err)
			}
			content[key] = value
			text, _ := json.Marshal(content)
			c.Text = string(text)
		}
	}
	good := updateOf(t, plain, "metadata: {name: b}")
	changed := func(change func(*write)) write { w := good; change(&w); return w }
	for _, tc := range []struct {
		name   string
		change func(*authorization.Condition)
		data   write
		table  *mapping.Table
		want   string // "" if it is evaluated
	}{
		{"as it was", nil, good, table, ""},
		{"another type", func(c *authorization.Condition) { c.Type = "example.com/other" }, good, table, "not a condition"},
		{"no JSON", func(c *authorization.Condition) { c.Text = "x" }, good, table, "not a condition"},
		{"too long", func(c *authorization.Condition) { c.Text += strings.Repeat(" ", 4096) }, good, table, "not a condition"},
		{"of the other side", func(c *authorization.Condition) {
			c.Text = strings.NewReplacer(`"include"`, `"exclude"`, `"exclude"`, `"include"`).Replace(c.Text)
		}, good, table, "not a condition"},
		{"other mappings", nil, good, other, "the mappings of fields have changed"},
		{"another user in the text", edit("user", "alice"), good, table, "another request"},
		{"another UID in the text", edit("uid", "7"), good, table, "another request"},
		{"another resource in the text", edit("resource", "pods"), good, table, "another request"},
		{"another group in the text", edit("apiGroup", "apps"), good, table, "another request"},
		{"another user in the data", nil, changed(func(w *write) { w.user = &user.DefaultInfo{Name: "alice"} }), table, "another request"},
		{"no user in the data", nil, changed(func(w *write) { w.user = nil }), table, "another request"},
		{"another object", nil, changed(func(w *write) { w.name = "two" }), table, "another request"},
		{"another subresource", nil, changed(func(w *write) { w.subresource = "" }), table, "another request"},
		{"another namespace in the text", edit("namespace", "other"), good, table, "another request"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for side, makeOne := range bothSides {
				source := &mapping.Source{}
				source.Store(table)
				a := mustMake(t, makeOne, granular.Config{Authorizer: &grants{verbs: []string{"*"}}, Types: things.Types(t), Mappings: source})
				d := overTheWire(t, a.ConditionsAwareAuthorize(t.Context(), updateByBob), tc.change)
				source.Store(tc.table)
				decision, reason, err := a.EvaluateConditions(t.Context(), d, tc.data)
				want := map[string]authorizer.Decision{"include": authorizer.DecisionAllow, "exclude": authorizer.DecisionNoOpinion}[side]
				if tc.want != "" {
					want = map[string]authorizer.Decision{"include": authorizer.DecisionNoOpinion, "exclude": authorizer.DecisionDeny}[side]
				}
				if decision != want || !strings.Contains(reason, tc.want) || (err == nil) != (tc.want == "") {
					t.Errorf("%s: got %v: %s, %v, want %v: %s", side, decision, reason, err, want, tc.want)
				}
			}
		})
	}
}

// TestInProcessAsOverTheWire has the same decision, reason and error for a condition that has not left the process as for
// one that has.
func TestInProcessAsOverTheWire(t *testing.T) {
	t.Parallel()
	const plain = "metadata: {name: a}\n"
	mappings := sourceOf(things.Mapping("m", things.Spec(things.Excluded("metadata.annotations[\"boom\"]", "selfDestruction", ""))))
	labels := updateOf(t, plain, "metadata: {name: a, labels: {x: z}}")
	boom := updateOf(t, plain, "metadata: {name: a, annotations: {boom: z}}")
	for _, tc := range []struct {
		name, verbs string
		makeOne     func(granular.Config) (authorization.Decider, error)
		data        write
		want        authorizer.Decision
		reason, err string
	}{
		{"an exclusion that is true", "granular:metadata", granular.NewExclude, boom, authorizer.DecisionDeny, "metadata.annotations.boom is excluded", ""},
		{"an exclusion that is false", "granular:metadata", granular.NewExclude, labels, authorizer.DecisionNoOpinion, "", ""},
		{"an exclusion that fails", "*", granular.NewExclude, updateOf(t, "", plain), authorizer.DecisionDeny, "there is no old object", "there is no old object"},
		{"an inclusion that is true", "granular granular:labels", granular.NewInclude, labels, authorizer.DecisionAllow, "allowed the request", ""},
		{"an inclusion that is false", "granular granular:labels", granular.NewInclude, boom, authorizer.DecisionNoOpinion, "changing the field metadata.annotations.boom", ""},
		{"an inclusion that fails", "*", granular.NewInclude, updateOf(t, "", plain), authorizer.DecisionNoOpinion, "there is no old object", "there is no old object"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := mustMake(t, tc.makeOne, granular.Config{Authorizer: &grants{verbs: strings.Fields(tc.verbs)}, Types: things.Types(t), Mappings: mappings})
			decision := a.ConditionsAwareAuthorize(t.Context(), updateByBob)
			for place, d := range map[string]authorizer.ConditionsAwareDecision{"in process": decision, "over the wire": overTheWire(t, decision, nil)} {
				got, reason, err := a.EvaluateConditions(t.Context(), d, tc.data)
				if got != tc.want || !strings.Contains(reason, tc.reason) || (reason == "") != (tc.reason == "") {
					t.Errorf("%s: got %v: %q, want %v: %q", place, got, reason, tc.want, tc.reason)
				}
				if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%s: got the error %v, want %q", place, err, tc.err)
				}
			}
		})
	}
}

// TestForeignDecisions are none that the authorizers made.
func TestForeignDecisions(t *testing.T) {
	t.Parallel()
	data := updateOf(t, "metadata: {name: a}", "metadata: {name: b}")
	foreign := authorization.ToUpstream(authorization.Conditions(authorization.Condition{
		ID: "example.com/other", Effect: authorization.EffectAllow, Type: "example.com/other", Text: "true",
		EvaluateFunc: func(context.Context, authorizer.ConditionsData) authorization.Outcome {
			return authorization.Bool(true)
		},
	}))
	for side, makeOne := range bothSides {
		a := mustMake(t, makeOne, granular.Config{Authorizer: &grants{verbs: []string{"*"}}, Mappings: sourceOf()})
		for name, decision := range map[string]authorizer.ConditionsAwareDecision{
			"a Deny": authorizer.ConditionsAwareDecisionDeny("", nil), "an Allow": authorizer.ConditionsAwareDecisionAllow("", nil), "a condition of another authorizer": foreign,
		} {
			if d, _, err := a.EvaluateConditions(t.Context(), decision, data); d != authorizer.DecisionDeny || err == nil {
				t.Errorf("%s: %s: got %v, %v, want Deny with an error", side, name, d, err)
			}
		}
	}
	for _, config := range []granular.Config{{Mappings: sourceOf()}, {Authorizer: &grants{}}} {
		if _, err := granular.NewInclude(config); err == nil {
			t.Error("an authorizer was made of half a configuration")
		}
	}
}

// TestSnapshot evaluates in process with the mappings that the decision was made from.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	source := sourceOf(things.Mapping("m", things.Spec(things.Excluded("metadata.labels", "labels", ""))))
	a := mustMake(t, granular.NewExclude, granular.Config{Authorizer: &grants{}, Mappings: source})
	decision := a.ConditionsAwareAuthorize(t.Context(), updateByBob)
	source.Publish()
	data := updateOf(t, "metadata: {name: a}", "metadata: {name: a, labels: {x: z}}")
	if got := evaluated(t, decision, data); !got.IsDeny() {
		t.Errorf("got %+v, want Deny", got)
	}
}

// onlyIf is an authorizer with one Allow condition, which calls a function and is false.
type onlyIf func()

func (o onlyIf) Decide(context.Context, authorizer.Attributes) authorization.Decision {
	return authorization.Conditions(authorization.Condition{
		ID: "example.com/never", Effect: authorization.EffectAllow, Type: authorization.ConditionTypeCEL, Text: "false",
		EvaluateFunc: func(context.Context, authorizer.ConditionsData) authorization.Outcome {
			o()
			return authorization.False()
		},
	})
}

// TestOneTableForOneRequest publishes mappings, or loses and finds the store, between the decisions of the two
// authorizers about one request. Neither the old mappings nor the new ones allow the request.
func TestOneTableForOneRequest(t *testing.T) {
	t.Parallel()
	included := things.Field("spec.a", "tuning")
	excluded := things.Excluded("spec.a.boom", "selfDestruction", "")
	nothing := func(s *mapping.Source) { s.Publish() }
	including := func(s *mapping.Source) { s.Publish(things.Mapping("m", things.Spec(included))) }
	both := func(s *mapping.Source) { s.Publish(things.Mapping("m", things.Spec(excluded, included))) }
	for name, tc := range map[string]struct{ before, after func(*mapping.Source) }{
		"nothing, then excluded and included":  {nothing, both},
		"excluded and included, then included": {both, including},
		"excluded and included, then nothing":  {both, nothing},
		"stale, then excluded and included": {func(s *mapping.Source) { including(s); s.SetStale("no news") }, func(s *mapping.Source) {
			both(s)
			s.SetStale("")
		}},
		"not loaded, then included": {func(*mapping.Source) {}, including},
	} {
		for when, during := range map[string]bool{"while the body is read": false, "while conditions are evaluated": true} {
			t.Run(name+", "+when, func(t *testing.T) {
				t.Parallel()
				source := &mapping.Source{}
				tc.before(source)
				config := granular.Config{Authorizer: &grants{verbs: []string{"granular", "granular:tuning"}}, Mappings: source}
				policy := onlyIf(func() {
					if during {
						tc.after(source)
					}
				})
				members := slices.Insert(membersOf(t, config), 1, authorization.Member{Name: "policy", Decider: policy})
				lazy := chainOf(t, members).Begin(t.Context(), updateByBob)
				if !during {
					tc.after(source)
				}
				data := updateOf(t, "metadata: {name: one}\nspec: {a: {boom: x}}", "metadata: {name: one}\nspec: {a: {boom: y}}")
				if got := lazy.Evaluate(t.Context(), authorization.EvaluatorFor(data, nil)); got.IsAllow() {
					t.Errorf("got Allow (%s), which neither the old nor the new mappings give", got.Reason())
				}
			})
		}
	}
}

// TestNotLoaded is what holds before anybody knows the mappings.
func TestNotLoaded(t *testing.T) {
	t.Parallel()
	source := sourceOf(things.Mapping("m", things.Spec(things.Excluded("spec.boom", "selfDestruction", ""))))
	config := granular.Config{Authorizer: &grants{verbs: []string{"*"}}, Mappings: source}
	include, exclude := both(t, config)
	included := overTheWire(t, include.ConditionsAwareAuthorize(t.Context(), updateByBob), nil)
	excluded := overTheWire(t, exclude.ConditionsAwareAuthorize(t.Context(), updateByBob), nil)
	source.Store(nil)
	if d := include.ConditionsAwareAuthorize(t.Context(), updateByBob); !d.IsNoOpinion() {
		t.Errorf("include: got %v, want NoOpinion", d)
	}
	if d := exclude.ConditionsAwareAuthorize(t.Context(), updateByBob); !d.IsDeny() {
		t.Errorf("exclude: got %v, want Deny", d)
	}
	read := updateByBob
	read.Verb = "get"
	if d := exclude.ConditionsAwareAuthorize(t.Context(), read); !d.IsNoOpinion() {
		t.Errorf("exclude, a read: got %v, want NoOpinion", d)
	}
	data := updateOf(t, "metadata: {name: a}", "metadata: {name: a}")
	if d, _, err := include.EvaluateConditions(t.Context(), included, data); d != authorizer.DecisionNoOpinion || err == nil {
		t.Errorf("include after the wire: got %v, %v", d, err)
	}
	if d, _, err := exclude.EvaluateConditions(t.Context(), excluded, data); d != authorizer.DecisionDeny || err == nil {
		t.Errorf("exclude after the wire: got %v, %v", d, err)
	}
}

// TestLongNames do not fit in a condition.
func TestLongNames(t *testing.T) {
	t.Parallel()
	config := granular.Config{Authorizer: &grants{verbs: []string{"*"}}, Mappings: sourceOf(things.Mapping("m", things.Spec(things.Excluded("spec.boom", "selfDestruction", ""))))}
	attributes := updateByBob
	attributes.User = &user.DefaultInfo{Name: strings.Repeat("b", 5000)}
	include, exclude := both(t, config)
	if d := include.ConditionsAwareAuthorize(t.Context(), attributes); !d.IsNoOpinion() {
		t.Errorf("include: got %v, want NoOpinion", d)
	}
	if d := exclude.ConditionsAwareAuthorize(t.Context(), attributes); !d.IsDeny() {
		t.Errorf("exclude: got %v, want Deny", d)
	}
}

// TestSubresourceOfAnotherKind binds a machine, whose node has another path in the kind of
// that request: a mapping that names it protects it there, too.
func TestSubresourceOfAnotherKind(t *testing.T) {
	t.Parallel()
	table := mapping.NewTable(things.Mapping("m", things.Spec(things.Excluded("spec.nodeName", "placement", ""), things.Excluded("target.name", "placement", ""))))
	binding := schema.GroupVersionKind{Version: "v1", Kind: "Binding"}
	changed, err := changes.Differ{}.Changes(t.Context(), binding, nil, things.Object(things.Parse(t, "metadata: {name: one}\ntarget: {kind: Node, name: a}")))
	if err != nil {
		t.Fatal(err)
	}
	for verbs, want := range map[string]string{"": `the field target.name is excluded from general permission: changing it also needs the verb "granular:placement"`, "granular:placement": ""} {
		got := granular.Checker{Authorizer: &grants{verbs: strings.Fields(verbs)}}.Exclude(t.Context(), table.For(things.Machines), changed, updateByBob)
		if got.Allowed != (want == "") || got.Reason != want {
			t.Errorf("with %q: got allowed %t: %s, want %q", verbs, got.Allowed, got.Reason, want)
		}
	}
}

// TestSubresourceThatDoesNotShowTheField scales a machine, which may change a field in its specification, and writes its status, which does
// not.
func TestSubresourceThatDoesNotShowTheField(t *testing.T) {
	t.Parallel()
	config := granular.Config{
		Authorizer: &grants{}, Mappings: sourceOf(things.Mapping("m", things.Spec(things.Excluded("spec.boom", "selfDestruction", "")))),
	}
	for subresource, want := range map[string]bool{"scale": true, "status": false, "": false} {
		attributes, data := updateByBob, updateOf(t, "metadata: {name: one}", "metadata: {name: one}")
		attributes.Subresource, data.subresource = subresource, subresource
		decision := mustMake(t, granular.NewExclude, config).ConditionsAwareAuthorize(t.Context(), attributes)
		if got := evaluated(t, decision, data); got.IsDeny() != want {
			t.Errorf("%q: got %+v, want Deny: %v", subresource, got, want)
		}
	}
}

// TestUnreadableSchemasAreClosed on both sides, and say which kind it is.
func TestUnreadableSchemasAreClosed(t *testing.T) {
	t.Parallel()
	types := changes.NewPublished(func(schema.GroupVersionKind) (*spec.Schema, error) { return nil, errors.New("down") })
	config := granular.Config{
		Authorizer: &grants{verbs: []string{"*"}}, Types: types,
		Mappings: sourceOf(things.Mapping("m", things.Spec(things.Excluded("spec.boom", "selfDestruction", "")))),
	}
	data := updateOf(t, "metadata: {name: a}", "metadata: {name: a, labels: {a: b}}")
	include, exclude := both(t, config)
	included := include.ConditionsAwareAuthorize(t.Context(), updateByBob)
	if got := evaluated(t, included, data); !authorization.FromUpstream("", included).CanBecomeAllowed() || got.IsAllow() {
		t.Errorf("include: got %+v after %+v", got, included)
	}
	if got := evaluated(t, exclude.ConditionsAwareAuthorize(t.Context(), updateByBob), data); !got.IsDeny() {
		t.Errorf("exclude: got %+v", got)
	}
}
