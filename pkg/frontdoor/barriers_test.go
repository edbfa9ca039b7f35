/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/pkg/place"
)

// newBarriers has barriers of the policies that are named, which cover all requests. They leave out nodes.
func newBarriers(names ...string) *place.Barriers {
	return &place.Barriers{
		Audits: func(id string, _ authorizer.Attributes) bool { return strings.HasSuffix(id, "/audited") },
		Covers: func(id string, _ authorizer.Attributes) bool {
			return slices.ContainsFunc(names, func(name string) bool { return id == engine.Key{Name: name}.ConditionID() })
		},
		LeavesOut: func(u user.Info) bool { return slices.Contains(u.GetGroups(), user.NodesGroup) },
		IsLocal:   func(version schema.GroupVersion) bool { return version.Version == "v1" },
		Known:     func(client *place.Client) bool { return *client == goodClient },
		Canary: func(client *place.Client, a authorizer.Attributes) bool {
			return *client == goodClient && a.GetResource() == "leases"
		},
	}
}

// TestBarriers has each clause of the rule by which conditions are left to barriers.
func TestBarriers(t *testing.T) {
	t.Parallel()
	two := map[string]policy{"d": onVerbs(deny, "dryRun", "*"), "e": onVerbs(deny, "dryRun", "*")}
	one := map[string]policy{"d": onVerbs(deny, "dryRun", "*")}
	with := func(p policy) map[string]policy {
		return map[string]policy{"d": onVerbs(deny, "dryRun", "*"), "p": p}
	}
	reads := map[string]policy{"d": onVerbs(deny, "dryRun", "create", "update", "patch", "delete"), "p": onVerbs(allow, "dryRun", "create", "update", "patch"), "g": onVerbs(allow, "", "get")}
	maps, claims := asAlice(configMaps("update")), claim("update")
	change := func(a authorizer.AttributesRecord, change func(*authorizer.AttributesRecord)) authorizer.AttributesRecord {
		change(&a)
		return a
	}
	const refusedThere = "kube-apiserver refuses it at admission if a condition denies it: policy=d"
	for _, tc := range []struct {
		name       string
		policies   map[string]policy
		barriers   []string
		request    authorizer.AttributesRecord
		want       string
		wantReason string
		// isUnknown says that the kube-apiserver that asks is not known.
		isUnknown bool
	}{
		{name: "a kube-apiserver that is not known", policies: one, barriers: []string{"d"}, request: maps, isUnknown: true, want: "Deny", wantReason: "policy=d reason=Error: its condition cannot be evaluated for this request"},
		{name: "a kube-apiserver that is not known, beside an Allow", policies: with(onVerbs(allow, "", "update")), barriers: []string{"d"}, request: maps, isUnknown: true, want: "Deny", wantReason: "policy=d reason=Error"},
		{name: "listed, a kube-apiserver that is not known", policies: one, barriers: []string{"d"}, request: claims, isUnknown: true, want: "Deny", wantReason: "policy=d reason=Error"},
		{name: "listed, beside a conditional Allow, a kube-apiserver that is not known", policies: reads, barriers: []string{"d"}, request: claims, isUnknown: true, want: "Deny", wantReason: "policy=d reason=Error"},
		{name: "a canary", policies: map[string]policy{"d": onVerbs(deny, "", "*")}, request: change(maps, func(a *authorizer.AttributesRecord) { a.Resource = "leases" }), want: "Allow", wantReason: "a canary, which is refused at admission"},
		{name: "a marked canary", policies: map[string]policy{"d": onVerbs(deny, "", "*")}, request: change(change(maps, marked(authorization.DelegationMarker)), func(a *authorizer.AttributesRecord) { a.Resource = "leases" }), want: "Deny", wantReason: "policy=d reason=Denied"},
		{name: "a barrier", policies: one, barriers: []string{"d"}, request: maps, want: "NoOpinion"},
		{name: "a barrier of another policy", policies: one, barriers: []string{"e"}, request: maps, want: "Deny", wantReason: "policy=d reason=Error: its condition cannot be evaluated for this request"},
		{name: "one of two", policies: two, barriers: []string{"d"}, request: maps, want: "Deny", wantReason: "policy=e reason=Error: its condition cannot be evaluated for this request"},
		{name: "both", policies: two, barriers: []string{"d", "e"}, request: maps, want: "NoOpinion"},
		{name: "a policy of a namespace with the name", policies: map[string]policy{"demo/d": onVerbs(deny, "dryRun", "*")}, barriers: []string{"d"}, request: maps, want: "Deny"},
		{name: "beside a Deny", policies: with(onVerbs(deny, "", "update")), barriers: []string{"d"}, request: maps, want: "Deny", wantReason: "policy=p reason=Denied"},
		{name: "beside an Allow", policies: with(onVerbs(allow, "", "update")), barriers: []string{"d"}, request: maps, want: "Allow", wantReason: "policy=p reason=Allowed: it allows the request; " + refusedThere},
		{name: "beside a NoOpinion", policies: with(onVerbs(noOpinion, "", "update")), barriers: []string{"d"}, request: maps, want: "NoOpinion"},
		{name: "beside a conditional Allow", policies: with(onVerbs(allow, "dryRun", "update")), barriers: []string{"d"}, request: maps, want: "NoOpinion", wantReason: "policy=p reason=Error"},

		{name: "a user whom barriers leave out", policies: map[string]policy{"d": {everyone: true, effect: deny, condition: "dryRun"}}, barriers: []string{"d"}, want: "Deny",
			request: change(maps, func(a *authorizer.AttributesRecord) {
				a.User = &user.DefaultInfo{Name: "node", Groups: []string{user.NodesGroup, user.AllAuthenticated}}
			})},
		{name: "a version of another server", policies: one, barriers: []string{"d"}, request: change(maps, func(a *authorizer.AttributesRecord) { a.APIVersion = "v2" }), want: "Deny"},
		{name: "all versions", policies: one, barriers: []string{"d"}, request: change(maps, func(a *authorizer.AttributesRecord) { a.APIVersion = "*" }), want: "Deny"},
		{name: "no version", policies: one, barriers: []string{"d"}, request: change(maps, func(a *authorizer.AttributesRecord) { a.APIVersion = "" }), want: "Deny"},
		{name: "all verbs", policies: one, barriers: []string{"d"}, request: change(maps, func(a *authorizer.AttributesRecord) { a.Verb = "*" }), want: "Deny"},
		{name: "marked", policies: one, barriers: []string{"d"}, request: change(maps, marked(authorization.DelegationMarker)), want: "NoOpinion"},
		{name: "a path", policies: map[string]policy{"d": {effect: deny, condition: "dryRun", rule: policyv1alpha1.PolicyRule{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}}}, barriers: []string{"d"}, request: change(maps, metricsPath), want: "Deny"},
		{name: "a resource of this server", policies: one, barriers: []string{"d"}, request: asAlice(nil), want: "NoOpinion"},

		// Resources of the inner door.
		{name: "listed", policies: one, barriers: []string{"d"}, request: claims, want: "NoOpinion"},
		{name: "listed, another policy", policies: one, barriers: []string{"e"}, request: claims, want: "Deny"},
		{name: "listed, beside an Allow", policies: with(onVerbs(allow, "", "update")), barriers: []string{"d"}, request: claims, want: "Allow", wantReason: refusedThere},
		{name: "listed, beside a conditional Allow", policies: reads, barriers: []string{"d"}, request: claims, want: "Allow", wantReason: "allowed if the conditions hold, which Proviso evaluates at admission: policy=p; " + refusedThere},
		{name: "listed, beside a conditional Allow, without its barrier", policies: reads, request: claims, want: "Deny", wantReason: "policy=d reason=Error"},
		{
			name: "listed, a sibling could be denied by a barrier", barriers: []string{"d"}, request: claim("patch"), want: "Allow",
			policies: map[string]policy{"d": onVerbs(deny, "dryRun", "update", "patch"), "p": onVerbs(allow, "dryRun", "patch"), "g": onVerbs(allow, "", "get")},
		},
		{
			name: "listed, a sibling could be denied without a barrier", barriers: []string{"d"}, request: claim("patch"), want: "NoOpinion", wantReason: "looks the same at admission",
			policies: map[string]policy{"e": onVerbs(deny, `request.verb == "update" && dryRun`, "update", "patch"), "p": onVerbs(allow, "dryRun", "patch"), "g": onVerbs(allow, "", "get")},
		},
		{
			name: "listed, a sibling is denied", barriers: []string{"d"}, request: claim("patch"), want: "NoOpinion", wantReason: "looks the same at admission",
			policies: map[string]policy{"d": onVerbs(deny, `request.verb == "update"`, "update", "patch"), "p": onVerbs(allow, "dryRun", "patch"), "g": onVerbs(allow, "", "get")},
		},
	} {
		source := publish(t, tc.policies)
		door, err := frontdoor.New(frontdoor.Config{
			Policies: frontdoor.Policies{Chain: chainOf(t, source), Source: source}, ReviewsShowConditions: true, KubeAPIServer: &others{},
			Places: places{enforces: enforcesMachines, inner: newInnerDoor(), barriers: newBarriers(tc.barriers...)}.table(),
		})
		if err != nil {
			t.Fatal(err)
		}
		client := goodClient
		if tc.isUnknown {
			client = place.Client{Name: goodClient.Name, Certificate: "another"}
		}
		got, err := door.Decide(frontdoor.WithClient(t.Context(), client), tc.request)
		if err != nil || show(got) != tc.want || !strings.Contains(got.Reason(), tc.wantReason) {
			t.Errorf("%s: got %s %q, %v, want %s %q", tc.name, show(got), got.Reason(), err, tc.want, tc.wantReason)
		}
		if got.IsNoOpinion() && tc.wantReason == "" && got.Reason() != "" {
			t.Errorf("%s: the reason is %q", tc.name, got.Reason())
		}
	}
}

// TestBarriersAreComplete needs all functions.
func TestBarriersAreComplete(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(*place.Barriers){
		"Covers": func(b *place.Barriers) { b.Covers = nil }, "Audits": func(b *place.Barriers) { b.Audits = nil }, "LeavesOut": func(b *place.Barriers) { b.LeavesOut = nil }, "IsLocal": func(b *place.Barriers) { b.IsLocal = nil },
		"Known": func(b *place.Barriers) { b.Known = nil },
	} {
		barriers := newBarriers()
		remove(barriers)
		if _, err := place.NewTable(barriers); err == nil {
			t.Errorf("without %s: no error", name)
		}
	}
}

// writeData is a write at admission, with an object that has the facts.
type writeData struct {
	attributes authorizer.AttributesRecord
	facts      map[string]any
}

func (w *writeData) object() runtime.Object { return &unstructured.Unstructured{Object: w.facts} }

func (w *writeData) GetUserInfo() user.Info              { return w.attributes.User }
func (w *writeData) GetName() string                     { return w.attributes.Name }
func (w *writeData) GetNamespace() string                { return w.attributes.Namespace }
func (w *writeData) GetSubresource() string              { return w.attributes.Subresource }
func (w *writeData) IsDryRun() bool                      { return false }
func (w *writeData) GetOperationOptions() runtime.Object { return nil }
func (w *writeData) GetObject() runtime.Object {
	if w.attributes.Verb == "delete" {
		return nil
	}
	return w.object()
}

func (w *writeData) GetOldObject() runtime.Object {
	if w.attributes.Verb == "create" {
		return nil
	}
	return w.object()
}

func (w *writeData) GetOperation() authorizer.AdmissionOperation {
	return authorizer.AdmissionOperation(map[string]string{"create": "CREATE", "delete": "DELETE"}[w.attributes.Verb] + map[bool]string{true: "UPDATE"}[isUpdate(w.attributes.Verb)])
}

func (w *writeData) GetResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: w.attributes.APIGroup, Version: w.attributes.APIVersion, Resource: w.attributes.Resource}
}
func (w *writeData) GetKind() schema.GroupVersionKind { return schema.GroupVersionKind{} }

func isUpdate(verb string) bool { return verb == "update" || verb == "patch" }

// handedOver is a cluster with random policies. Some of them have barriers.
type handedOver struct {
	policies map[string]policy
	// barriers are the names of policies with an active barrier.
	barriers map[string]bool
	rbac     []string
	chains   map[string]*authorization.Chain
}

// decide returns the decision of some policies with all data.
func (h *handedOver) decide(t *testing.T, policies string, a authorizer.AttributesRecord, facts map[string]any) authorization.Decision {
	t.Helper()
	return h.chains[policies].Decide(t.Context(), a).Evaluate(t.Context(), authorization.EvaluatorFor(&writeData{a, facts}, nil))
}

// covers reports whether the barrier of a policy is active, and refuses requests with a verb. A Deny of PUT or PATCH is a Deny of both.
func (h *handedOver) covers(name, verb string) bool { return h.barriers[name] && h.denies(name, verb) }

func (h *handedOver) denies(name, verb string) bool {
	p := h.policies[name]
	return p.effect == deny && (slices.Contains(p.rule.Verbs, verb) || isUpdate(verb) && slices.ContainsFunc(p.rule.Verbs, isUpdate))
}

// isAllowed reports whether policies or RBAC allow a request with all data.
func (h *handedOver) isAllowed(t *testing.T, a authorizer.AttributesRecord, facts map[string]any) bool {
	decision := h.decide(t, "", a, facts)
	return decision.IsAllow() || decision.IsNoOpinion() && slices.Contains(h.rbac, a.Verb)
}

// ways are the requests that look the same at admission.
func ways(a authorizer.AttributesRecord) []authorizer.AttributesRecord {
	if !isUpdate(a.Verb) {
		return []authorizer.AttributesRecord{a}
	}
	put, patch := a, a
	put.Verb, patch.Verb = "update", "patch"
	return []authorizer.AttributesRecord{put, patch}
}

// passes reports whether a request passes kube-apiserver: the front door, barriers, and the inner door where it is called.
func (h *handedOver) passes(t *testing.T, door *frontdoor.Decider, a authorizer.AttributesRecord, facts map[string]any, isListed bool) (passes bool, byFrontDoor authorization.Decision) {
	t.Helper()
	byFrontDoor, err := door.Decide(frontdoor.WithClient(t.Context(), goodClient), a)
	if err != nil {
		t.Fatal(err)
	}
	if !byFrontDoor.IsAllow() && (byFrontDoor.IsDeny() || !slices.Contains(h.rbac, a.Verb)) {
		return false, byFrontDoor
	}
	for name := range h.policies {
		if h.covers(name, a.Verb) && h.decide(t, name, a, facts).IsDeny() {
			return false, byFrontDoor
		}
	}
	byRBAC, byInnerDoor := false, false
	for _, way := range ways(a) {
		byRBAC = byRBAC || slices.Contains(h.rbac, way.Verb)
		byInnerDoor = byInnerDoor || h.isAllowed(t, way, facts)
	}
	return !isListed || byRBAC || byInnerDoor, byFrontDoor
}

// TestHandOverLaw compares what passes with the decision of all policies with all data, while any barriers are active.
func TestHandOverLaw(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	verbs := []string{"create", "update", "patch", "delete"}
	some := func() []string {
		return slices.DeleteFunc(slices.Clone(verbs), func(string) bool { return r.IntN(2) == 0 })
	}
	handed, denied, passed := 0, 0, 0
	for range 120 {
		h := &handedOver{policies: map[string]policy{"get": onVerbs(allow, "", "get")}, barriers: map[string]bool{}, rbac: some(), chains: map[string]*authorization.Chain{}}
		for i := range 1 + r.IntN(4) {
			name := fmt.Sprint("p", i)
			effect := pick(r, deny, deny, deny, allow, allow, noOpinion)
			condition := pick(r, "", "a", "b", "c")
			if condition != "" || effect == deny && r.IntN(3) > 0 {
				condition = fmt.Sprintf("(object == null ? oldObject : object).%s == true", pick(r, "a", "b", "c"))
			}
			if h.policies[name] = onVerbs(effect, condition, some()...); len(h.policies[name].rule.Verbs) == 0 {
				h.policies[name] = onVerbs(effect, condition, verbs...)
			}
			h.barriers[name] = r.IntN(3) > 0
		}
		all := r.IntN(3) == 0
		for name := range h.policies {
			h.barriers[name] = h.barriers[name] || all
			h.chains[name] = chainOf(t, publish(t, map[string]policy{name: h.policies[name]}))
		}
		source := publish(t, h.policies)
		h.chains[""] = chainOf(t, source)
		barriers := newBarriers()
		barriers.Covers = func(id string, a authorizer.Attributes) bool {
			for name := range h.policies {
				if (engine.Key{Name: name}).ConditionID() == id {
					return h.covers(name, a.GetVerb())
				}
			}
			return false
		}
		door, err := frontdoor.New(frontdoor.Config{Policies: frontdoor.Policies{Chain: h.chains[""], Source: source}, KubeAPIServer: &others{}, Places: places{enforces: enforcesMachines, inner: newInnerDoor(), barriers: barriers}.table()})
		if err != nil {
			t.Fatal(err)
		}
		for range 40 {
			facts := map[string]any{"a": r.IntN(2) == 0, "b": r.IntN(2) == 0, "c": r.IntN(2) == 0}
			verb, isListed := pick(r, verbs...), r.IntN(2) == 0
			a := claim(verb)
			if !isListed {
				a = claim(verb, of("configmaps"))
			}
			passes, byFrontDoor := h.passes(t, door, a, facts, isListed)
			mayPass := false
			for _, way := range ways(a) {
				mayPass = mayPass || h.isAllowed(t, way, facts)
			}
			own := h.decide(t, "", a, facts)
			describe := fmt.Sprintf("%s of %s with %v, RBAC allows %q, policies %+v, barriers %v; the front door: %s %q", verb, a.Resource, facts, h.rbac, h.policies, h.barriers, show(byFrontDoor), byFrontDoor.Reason())
			if passes && (own.IsDeny() || !mayPass) {
				t.Fatalf("passes, and with all data it is %s: %s", show(own), describe)
			}
			isCovered := true
			for name, p := range h.policies {
				if p.condition != "" && h.denies(name, verb) {
					isCovered = isCovered && h.covers(name, verb)
					handed++
				}
			}
			// A user whom RBAC allows the request depends on nothing else.
			if isCovered && own.IsNoOpinion() && slices.Contains(h.rbac, verb) && !passes {
				t.Fatalf("does not pass, although RBAC allows it and no policy denies it: %s", describe)
			}
			if passes {
				passed++
			} else {
				denied++
			}
		}
	}
	if handed < 1000 || passed < 1000 || denied < 1000 {
		t.Errorf("%d conditions, %d requests passed and %d did not: too few to say anything", handed, passed, denied)
	}
}
