/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/metrics/legacyregistry"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/pkg/place"
)

const inAudit = policyv1alpha1.PolicyEnforcementAudit

// auditDoor is a front door with an inner door, behind which this server serves all of demo.proviso.dev, and another one
// elsewhere.example.com.
func auditDoor(tb testing.TB, source *engine.Source, barriers ...*place.Barriers) *frontdoor.Decider {
	tb.Helper()
	at := places{
		enforces: enforcesMachines, inner: newInnerDoor(),
		serves:    func(a authorizer.Attributes) bool { return a.GetAPIGroup() == "demo.proviso.dev" },
		elsewhere: func(a authorizer.Attributes) bool { return a.GetAPIGroup() == "elsewhere.example.com" },
	}
	for _, b := range barriers {
		at.barriers = b
	}
	door, err := frontdoor.New(frontdoor.Config{
		Policies: frontdoor.Policies{Chain: chainOf(tb, source), Source: source}, Places: at.table(),
		KubeAPIServer: &others{allow: []string{"get persistentvolumeclaims/ demo:c"}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return door
}

// TestFrontDoorAudit has what the front door counts for a policy with the enforcement Audit, and what it leaves to those that decide again.
func TestFrontDoorAudit(t *testing.T) {
	t.Parallel()
	const onObject, always = `object.spec.x == "y"`, `request.userInfo.username == "alice"`
	decided, undetermined := engine.AuditDelta{Decided: 1}, engine.AuditDelta{Undetermined: 1}
	secrets := func(a *authorizer.AttributesRecord) {
		a.APIGroup, a.APIVersion, a.Resource, a.Name = "", "v1", "secrets", "s"
	}
	elsewhere := func(a *authorizer.AttributesRecord) { a.APIGroup = "elsewhere.example.com" }
	ofVerb := func(verb string) func(*authorizer.AttributesRecord) {
		return func(a *authorizer.AttributesRecord) { a.Verb, a.Name = verb, "x" }
	}
	allowing := map[string]policy{"other": {effect: allow}}
	onCondition := map[string]policy{"other": {effect: allow, condition: onObject}}
	denying := map[string]policy{"other": {effect: deny}}
	for _, tc := range []struct {
		name      string
		effect    policyv1alpha1.PolicyEffect
		condition string
		request   authorizer.AttributesRecord
		others    map[string]policy
		want      engine.AuditDelta
	}{
		{name: "a Deny", effect: deny, request: asAlice(secrets), want: decided},
		{name: "an Allow", effect: allow, request: asAlice(secrets), want: decided},
		{name: "an Allow of what is denied", effect: allow, request: asAlice(secrets), others: denying},
		{name: "a NoOpinion", effect: noOpinion, request: asAlice(secrets), want: decided},
		{name: "a Deny whose condition is true", effect: deny, condition: always, request: asAlice(secrets), want: decided},
		{name: "a Deny on the object, folded", effect: deny, condition: onObject, request: asAlice(secrets), want: decided},
		{name: "an Allow on the object, folded", effect: allow, condition: onObject, request: asAlice(secrets)},
		{name: "an error", effect: deny, condition: `request.userInfo.extra["x"][0] == "y"`, request: asAlice(secrets), want: engine.AuditDelta{Decided: 1, Errors: 1}},
		{name: "a check of Proviso", effect: deny, request: asAlice(both(secrets, marked(authorization.DelegationMarker)))},
		{name: "a question about every version", effect: deny, request: asAlice(both(secrets, func(a *authorizer.AttributesRecord) { a.APIVersion = "*" }))},

		{name: "own, a Deny that this server finds out", effect: deny, request: asAlice(nil)},
		{name: "own, a Deny of what passes", effect: deny, condition: onObject, request: asAlice(nil), others: onCondition},
		{name: "own, a Deny of what is denied", effect: deny, request: asAlice(nil), others: denying, want: decided},
		{name: "own, an Allow", effect: allow, request: asAlice(nil), want: decided},
		{name: "own, an Allow of what passes", effect: allow, request: asAlice(nil), others: allowing},
		{name: "own, an Allow on the object", effect: allow, condition: onObject, request: asAlice(nil), want: undetermined},
		{name: "own, an Allow on the object that does not exist", effect: allow, condition: onObject, request: asAlice(ofVerb("get"))},
		{name: "own, a Deny of a read that this server finds out", effect: deny, request: asAlice(ofVerb("get")), others: allowing},

		{name: "listed, a Deny", effect: deny, request: claim("create"), want: decided},
		{name: "listed, a Deny on the object, folded", effect: deny, condition: onObject, request: claim("create"), want: decided},
		{name: "listed, a Deny on the object that the inner door finds out", effect: deny, condition: onObject, request: claim("create"), others: onCondition},
		{name: "listed, an Allow on the object", effect: allow, condition: onObject, request: claim("create"), want: undetermined},
		{name: "listed, an Allow", effect: allow, request: claim("create"), want: decided},
		{name: "listed, an Allow that reads a selector", effect: allow, condition: `request.fieldSelector.requirements.size() == 0`, request: claim("create")},

		{name: "elsewhere, a Deny", effect: deny, request: asAlice(elsewhere), want: decided},
		{name: "elsewhere, a Deny on the object", effect: deny, condition: onObject, request: asAlice(elsewhere), want: undetermined},
	} {
		for _, name := range []string{"p", "demo/p"} {
			policies := map[string]policy{name: {effect: tc.effect, condition: tc.condition, enforcement: inAudit}}
			maps.Copy(policies, tc.others)
			compiled, source := compile(t, policies), &engine.Source{}
			source.Publish(engine.NewBuilder().Apply(compiled))
			ctx := frontdoor.WithClient(t.Context(), goodClient)
			if _, err := auditDoor(t, source).Decide(ctx, tc.request); err != nil {
				t.Fatal(err)
			}
			for key, p := range compiled {
				if key.Name != "p" {
					continue
				}
				if diff := cmp.Diff(tc.want, p.AuditCounts().Take(), cmpopts.IgnoreFields(engine.AuditDelta{}, "Last")); diff != "" {
					t.Errorf("%s, %s (-want +got):\n%s", tc.name, name, diff)
				}
			}
		}
	}
}

// TestAuditOfBarriers has policies in Audit that kube-apiserver evaluates with a barrier. Proviso does not know the result.
func TestAuditOfBarriers(t *testing.T) {
	t.Parallel()
	const onObject = `object.spec.x == "y"`
	secrets := func(a *authorizer.AttributesRecord) {
		a.APIGroup, a.APIVersion, a.Resource, a.Name = "", "v1", "secrets", "s"
	}
	otherVersion := func(a *authorizer.AttributesRecord) { a.APIVersion = "v2" }
	decided, undetermined := engine.AuditDelta{Decided: 1}, engine.AuditDelta{Undetermined: 1}
	for _, tc := range []struct {
		name, policy, condition string
		request                 authorizer.AttributesRecord
		want                    engine.AuditDelta
	}{
		{name: "a barrier", policy: "audited", condition: onObject, request: asAlice(secrets), want: undetermined},
		{name: "a barrier of a listed resource", policy: "audited", condition: onObject, request: claim("create"), want: undetermined},
		{name: "no barrier", policy: "p", condition: onObject, request: asAlice(secrets), want: decided},
		{name: "no condition", policy: "audited", request: asAlice(secrets), want: decided},
		{name: "a version of another server", policy: "audited", condition: onObject, request: asAlice(both(secrets, otherVersion)), want: decided},
	} {
		compiled, source := compile(t, map[string]policy{tc.policy: {effect: deny, condition: tc.condition, enforcement: inAudit}}), &engine.Source{}
		source.Publish(engine.NewBuilder().Apply(compiled))
		if _, err := auditDoor(t, source, newBarriers()).Decide(frontdoor.WithClient(t.Context(), goodClient), tc.request); err != nil {
			t.Fatal(err)
		}
		for _, p := range compiled {
			if diff := cmp.Diff(tc.want, p.AuditCounts().Take(), cmpopts.IgnoreFields(engine.AuditDelta{}, "Last")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.name, diff)
			}
		}
	}
}

// TestAuditDecidesNothing adds random policies with the enforcement Audit to random policies: no answer changes, nor its reason. Among
// the requests are writes to listed resources, for which other requests that look the same are decided, too.
func TestAuditDecidesNothing(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(17, 5))
	conditions := []string{"", `object.spec.x == "y"`, `request.verb == "update"`, `request.userInfo.extra["x"][0] == "y"`, `namespaceObject.metadata.name == "demo"`,
		`request.name == "c"`, `request.fieldSelector.requirements.exists(r, r.key == "x")`}
	effects := []policyv1alpha1.PolicyEffect{allow, deny, noOpinion}
	some := func(prefix string, most int, enforcement policyv1alpha1.PolicyEnforcement) map[string]policy {
		policies := map[string]policy{}
		for i := range random.IntN(most) {
			name := fmt.Sprint(prefix, i)
			if random.IntN(2) == 0 {
				name = "demo/" + name
			}
			policies[name] = policy{effect: effects[random.IntN(3)], condition: conditions[random.IntN(len(conditions))], enforcement: enforcement}
		}
		return policies
	}
	requests := []authorizer.AttributesRecord{
		claim("create"), claim("update"), claim("patch"), claim("delete"), claim("deletecollection"), claim("get"), asAlice(nil),
		asAlice(func(a *authorizer.AttributesRecord) { a.APIGroup = "elsewhere.example.com" }), asAlice(func(a *authorizer.AttributesRecord) { a.APIVersion = "*" }),
	}
	ctx := frontdoor.WithClient(context.Background(), goodClient)
	for range 40 {
		enforced := some("e", 3, "")
		all := some("a", 6, inAudit)
		maps.Copy(all, enforced)
		without, with := auditDoor(t, publish(t, enforced)), auditDoor(t, publish(t, all))
		for _, request := range requests {
			want, wantErr := without.Decide(ctx, request)
			got, err := with.Decide(ctx, request)
			if show(want) != show(got) || want.Reason() != got.Reason() || fmt.Sprint(wantErr, want.Err()) != fmt.Sprint(err, got.Err()) {
				t.Fatalf("%s %s with %v: got %s (%s), %v, without the policies in Audit %s (%s), %v", request.Verb, request.Resource, all, show(got), got.Reason(), err, show(want), want.Reason(), wantErr)
			}
		}
	}
}

// TestAuditComesAfterTheAnswer sends reviews: they are counted, some time after they are answered.
func TestAuditComesAfterTheAnswer(t *testing.T) {
	t.Parallel()
	compiled, source := compile(t, map[string]policy{"p": {everyone: true, effect: deny, enforcement: inAudit}}), &engine.Source{}
	source.Publish(engine.NewBuilder().Apply(compiled))
	send := listen(t, auditDoor(t, source))
	counts := compiled[engine.Key{Name: "p"}].AuditCounts()
	total := int64(0)
	for range 3 {
		if got := send(review("alice", "s", 100)); got.code != http.StatusOK {
			t.Fatalf("got %+v", got)
		}
		before := total
		if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
			total += counts.Take().Decided
			return total == before+1, nil
		}); err != nil {
			t.Fatalf("counted %d after %d", total, before)
		}
	}
}

// TestAuditOfManyRequests sends many reviews at the same time: those that wait for others are counted, too.
func TestAuditOfManyRequests(t *testing.T) {
	t.Parallel()
	compiled, source := compile(t, map[string]policy{"p": {everyone: true, effect: deny, condition: `request.name == "s"`, enforcement: inAudit}}), &engine.Source{}
	source.Publish(engine.NewBuilder().Apply(compiled))
	send := listen(t, auditDoor(t, source))
	counts := compiled[engine.Key{Name: "p"}].AuditCounts()
	const requests = 12 // fewer than wait
	var group sync.WaitGroup
	for i := range requests {
		group.Go(func() { send(review(fmt.Sprint("user", i), "s", 100)) })
	}
	group.Wait()
	total := int64(0)
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		total += counts.Take().Decided
		return total == requests, nil
	})
	if err != nil {
		t.Errorf("counted %d of %d", total, requests)
	}
}

// heldInAudit is the name of an object for which conditions on selectors are evaluated until the bubble is open.
const heldInAudit = "held-in-audit"

// selecting calls a function while a condition on selectors is evaluated.
type selecting struct {
	authorizer.Attributes
	evaluation func()
}

func (s selecting) GetFieldSelector() (fields.Requirements, error) {
	s.evaluation()
	return nil, nil
}

// counted returns the value of a counter without labels.
func counted(t *testing.T, name string) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

// TestUnauditedAreCounted has policies in Audit that are evaluated without end: every review is answered at once, few are evaluated or
// wait, and the others are counted.
func TestUnauditedAreCounted(t *testing.T) { //nolint:paralleltest // it counts, and others count, too
	frontdoor.RegisterMetrics()
	count := func() float64 { return counted(t, "proviso_webhook_authorize_unaudited_total") }
	const evaluated, waiting, beyond = 4, 64, 3
	before := count()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, map[string]policy{"p": {effect: allow, everyone: true, enforcement: inAudit, condition: `request.fieldSelector.requirements.size() == 0`}})
		for i := range evaluated + waiting + beyond {
			if got := <-b.send(t, inNamespace(fmt.Sprint("u", i), "", heldInAudit, 0)); got.status.Denied || got.after != 0 {
				t.Errorf("review %d: got %s", i, got)
			}
			synctest.Wait()
		}
		if got := count() - before; got != beyond {
			t.Errorf("%v reviews are not counted, want %d", got, beyond)
		}
		time.Sleep(time.Minute)
		if got := count() - before; got != beyond+waiting {
			t.Errorf("%v reviews are not counted after a minute, want %d", got, beyond+waiting)
		}
		close(b.open)
		synctest.Wait()
	})
}
