/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rollout_test

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/barrier/rollout"
)

// active returns a world in which a policy is active on two servers.
func active(t *testing.T, spec *policyv1alpha1.AuthorizationPolicySpec) *world {
	t.Helper()
	w := newWorld(t, "a", "b")
	w.replica.SetPolicy(policyKey, spec)
	w.replica.SetSynced()
	w.rollOut(t, spec)
	if !w.covers(spec.Rules[0].Verbs[0]) {
		t.Fatalf("not active: %+v", w.replica.State(policyKey))
	}
	return w
}

// rollOut writes the barrier of a policy and the sentinel, and has all servers load them.
func (w *world) rollOut(t *testing.T, spec *policyv1alpha1.AuthorizationPolicySpec) {
	t.Helper()
	w.writeBarrier(t, policyKey, spec)
	w.writeSentinel()
	w.receive()
	w.load("a", "b")
	w.round(t)
}

// TestSteps brings a barrier into force, one step after the other.
func TestSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a", "b")
	wantNot := func(when, message string, lacking ...string) {
		t.Helper()
		w.wantState(t, when, rollout.Pending, message, lacking...)
		if w.covers("update") {
			t.Errorf("%s: the request is covered", when)
		}
	}
	w.wantState(t, "at first", rollout.Absent, "no barrier")
	spec := specOf("one", "update")
	w.replica.SetPolicy(policyKey, spec)
	wantNot("not read", "have not been read")
	w.replica.SetSynced()
	wantNot("not written", "not written")
	compiled, err := compile(policyKey, spec)
	if err != nil {
		t.Fatal(err)
	}
	w.writePolicy(compiled.Policy)
	w.receive()
	wantNot("without a binding", "not written")
	w.writeBinding(compiled.Binding)
	w.receive()
	wantNot("without a sentinel", "sentinel")
	w.round(t)
	wantNot("without a sentinel, probed", "sentinel")
	if w.probes != 0 {
		t.Errorf("%d probes without a number", w.probes)
	}
	w.writeSentinel()
	w.receive()
	wantNot("before the first probes", "it has not been probed yet", "https://a:443", "https://b:443")
	w.round(t)
	wantNot("not loaded", "https://a:443: it does not refuse the probe; https://b:443: ", "https://a:443", "https://b:443")
	w.load("b")
	w.round(t)
	wantNot("loaded by one", "not loaded by https://a:443: it does not refuse the probe", "https://a:443")
	w.load("a")
	w.round(t)
	w.wantState(t, "loaded by all", rollout.Active, "every kube-apiserver")
	if !w.covers("update") || w.covers("delete") || w.covers("panic") {
		t.Error("the request is not covered, or another one is")
	}
	if other := (engine.Key{Namespace: "n", Name: "p"}); w.replica.Covers(other.ConditionID(), verb("update")) || w.replica.Covers("", verb("update")) {
		t.Error("the request is covered for another policy")
	}
	w.replica.DeletePolicy(policyKey)
	if w.covers("update") {
		t.Error("the request is covered for a policy that was deleted")
	}
	if len(w.strange) > 0 {
		t.Errorf("strange probes: %q", w.strange)
	}
}

// TestStatusIsNoText has the status of objects written after their texts, and the replica start after that.
func TestStatusIsNoText(t *testing.T) {
	t.Parallel()
	spec := specOf("one", "update")
	w := newWorld(t, "a", "b")
	w.writeBarrier(t, policyKey, spec)
	w.writeSentinel()
	w.writePolicy(w.policy(nameOf(policyKey)))    // its status
	w.writePolicy(w.policy(barrier.SentinelName)) // its status
	w.load("a", "b")
	w.replica.SetPolicy(policyKey, spec)
	w.list()
	w.replica.SetSynced()
	w.round(t)
	// What is stored may have been written after the number that the servers show.
	w.wantState(t, "a status after the sentinel", rollout.Pending, "sentinel")
	w.writeSentinel()
	w.receive()
	w.load("a", "b")
	w.round(t)
	w.wantState(t, "a sentinel after the status", rollout.Active, "")
	w.writePolicy(w.policy(nameOf(policyKey)))
	w.receive()
	w.wantState(t, "another status", rollout.Active, "")

	w.restart(t)
	w.replica.SetPolicy(policyKey, spec)
	w.writeBinding(w.binding(nameOf(policyKey)))
	late := w.extent()
	late.Bindings--
	w.writeSentinelWith(w.number()+1, late)
	w.list()
	w.replica.SetSynced()
	w.load("a", "b")
	w.round(t)
	w.wantState(t, "a binding after the sentinel", rollout.Pending, "sentinel")
}

// TestTexts changes the text of a policy that is active.
func TestTexts(t *testing.T) {
	t.Parallel()
	one, two := specOf("one", "update", "delete", "patch"), specOf("two", "update", "create", "patch")
	w := active(t, one)
	covered := func(when string, want ...string) {
		t.Helper()
		got := []string{}
		for _, v := range []string{"update", "delete", "create", "patch"} {
			if w.covers(v) {
				got = append(got, v)
			}
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: %q are covered, want %q", when, got, want)
		}
	}
	covered("one", "update", "delete", "patch")
	w.replica.SetPolicy(policyKey, two)
	// A server may load the other text at any time.
	covered("before it is written", "update", "patch")
	w.wantState(t, "before it is written", rollout.Pending, "another text of the barrier; the barrier of an earlier text is active until then")
	w.writeBarrier(t, policyKey, two)
	w.receive()
	covered("written", "update", "patch")
	w.replica.SetPolicy(policyKey, specOf("three", "create", "patch"))
	covered("a third text", "patch")
	w.replica.SetPolicy(policyKey, two)
	covered("back again: the third text may have been written", "patch")
	w.writeSentinel()
	w.receive()
	w.load("a")
	w.round(t)
	covered("loaded by one", "patch")
	if got := w.replica.State(policyKey); !got.Earlier || got.Phase != rollout.Pending {
		t.Errorf("loaded by one: got %+v", got)
	}
	w.load("b")
	w.round(t)
	covered("loaded by all", "update", "create", "patch")

	w.replica.SetPolicy(policyKey, specOf("two", "update", "create", "patch"))
	w.wantState(t, "the same text", rollout.Active, "")
	covered("the same text", "update", "create", "patch")
	w.replica.SetPolicy(policyKey, specOf("broken"))
	covered("a text that does not compile", "update", "create", "patch")
	w.replica.SetPolicy(policyKey, specOf("panic"))
	covered("a text whose compilation panics", "update", "create", "patch")
	w.replica.SetPolicy(policyKey, specOf("untranslated"))
	covered("a text without rules that can be translated")
	w.wantState(t, "a text without rules that can be translated", rollout.Absent, "no rule")
	w.replica.SetPolicy(policyKey, two)
	for i := range 20 {
		w.replica.SetPolicy(policyKey, specOf(strings.Repeat("x", i), "update"))
	}
	covered("many texts")
	allow := specOf("one", "update")
	allow.Effect = policyv1alpha1.PolicyEffectAllow
	w.replica.SetPolicy(policyKey, allow)
	w.wantState(t, "an Allow policy", rollout.Absent, "no barrier")
}

// TestRolloutSubjects changes the subjects of a policy. The earlier barrier refuses nothing of other users.
func TestRolloutSubjects(t *testing.T) {
	t.Parallel()
	one := specOf("one", "update")
	one.Subjects = []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "bob"}}
	w := newWorld(t, "a", "b")
	w.replica.SetPolicy(policyKey, one)
	w.replica.SetSynced()
	w.rollOut(t, one)
	w.wantState(t, "bob", rollout.Active, "")
	if w.covers("update") {
		t.Error("the request of another user is covered")
	}
	w.replica.SetPolicy(policyKey, specOf("two", "update"))
	if w.covers("update") {
		t.Error("the request of a user is covered whom the active text does not name")
	}
}

// TestRolloutAudit has barriers that refuse nothing.
func TestRolloutAudit(t *testing.T) {
	t.Parallel()
	for _, description := range []string{"audit policy", "audit binding"} {
		spec := specOf("one", "update")
		spec.Description = description
		w := newWorld(t, "a", "b")
		w.replica.SetPolicy(policyKey, spec)
		w.replica.SetSynced()
		w.rollOut(t, spec)
		w.wantState(t, description, rollout.Active, "")
		if w.covers("update") {
			t.Errorf("%s: the request is covered", description)
		}
	}
}

// TestEnds has what ends a barrier, and what does not. Then the barrier is written again.
func TestEnds(t *testing.T) {
	t.Parallel()
	one := specOf("one", "update")
	other, err := compile(policyKey, specOf("weak", "update"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		change func(*world)
		// stays says that the barrier stays active.
		stays bool
	}{
		{name: "a weaker policy", change: func(w *world) { w.writePolicy(other.Policy) }},
		{name: "a weaker binding", change: func(w *world) {
			weak := other.Binding.DeepCopy()
			weak.Spec.ValidationActions = nil
			w.writeBinding(weak)
		}},
		{name: "no policy", change: func(w *world) { w.deletePolicy(nameOf(policyKey)) }},
		{name: "no binding", change: func(w *world) { w.deleteBinding(nameOf(policyKey)) }},
		{name: "weakened and mended while the replica did not see it", change: func(w *world) {
			w.writePolicy(other.Policy)
			good := w.policies[0].object.DeepCopy()
			w.writePolicy(good)
			w.policies = append(w.policies[:len(w.policies)-2], w.policies[len(w.policies)-1])
		}},
		{name: "recreated while the replica did not see it", change: func(w *world) {
			w.writePolicy(w.policies[0].object)
			w.policies[len(w.policies)-1].object.UID = "other"
		}},
		{name: "a status", change: func(w *world) { w.writePolicy(w.policies[0].object) }, stays: true},
		{name: "a server that is stalled", change: func(w *world) { w.server("a").mode = "stalled" }, stays: true},
		{name: "a server whose answer is no status", change: func(w *world) { w.server("a").mode = "no status" }, stays: true},
		{name: "a server that refuses otherwise", change: func(w *world) { w.server("a").mode = "refusing" }, stays: true},
		{name: "a server that lets a probe pass", change: func(w *world) { w.server("a").mode = "passing" }},
		{name: "a server that cannot be compared with what is stored", change: func(w *world) {
			w.server("a").mode = "passing"
			w.numberErr = errors.New("no answer")
		}, stays: true},
		{name: "a sentinel that was deleted", change: func(w *world) {
			w.deletePolicy(barrier.SentinelName)
			w.deleteBinding(barrier.SentinelName)
			w.server("a").policies, w.server("a").bindings = len(w.policies), len(w.bindings)
		}},
		{name: "a sentinel that exists as a Lease only", change: func(w *world) {
			w.server("a").mode = "stored"
			w.server("a").policies, w.server("a").bindings = 0, 0
		}},
		{name: "a server more, which has loaded everything", change: func(w *world) { w.add("c"); w.alive = 3 }, stays: true},
		{name: "a server more, which enforces nothing", change: func(w *world) { w.add("c").mode = "passing" }},
		{name: "a server more, which is not listed", change: func(w *world) { w.alive = 3 }, stays: true},
		{name: "no list", change: func(w *world) { w.listErr = errors.New("no answer") }, stays: true},
		{name: "no servers", change: func(w *world) { w.listed = nil }, stays: true},
		{name: "a sentinel that is ahead of the replica", change: func(w *world) {
			w.writeSentinelWith(w.number()+1, w.extent())
			k := w.server("a")
			k.policies, k.bindings = len(w.policies), len(w.bindings)
			w.policiesSeen, w.bindingsSeen = len(w.policies), len(w.bindings) // and never received
		}, stays: true},
		{name: "a sentinel whose binding is ahead", change: func(w *world) {
			w.writeSentinelWith(w.number()+1, w.extent())
			w.server("a").bindings = len(w.bindings)
		}, stays: true},
		{name: "a sentinel whose policy is ahead", change: func(w *world) {
			w.writeSentinelWith(w.number()+1, w.extent())
			w.server("a").policies = len(w.policies)
		}, stays: true},
	} {
		w := active(t, one)
		// There is an earlier number.
		w.mu.Lock()
		w.writeSentinelWith(w.number()+1, w.extent())
		w.mu.Unlock()
		w.receive()
		w.load("a", "b")
		w.round(t)
		w.mu.Lock()
		tc.change(w)
		w.mu.Unlock()
		w.receive()
		w.round(t)
		if got := w.covers("update"); got != tc.stays {
			t.Errorf("%s: covered %t, want %t: %+v", tc.name, got, tc.stays, w.replica.State(policyKey))
		}
		for _, k := range w.servers {
			k.mode = ""
		}
		w.numberErr, w.listErr = nil, nil
		w.listed = w.listed[:0]
		for address := range w.servers {
			w.listed = append(w.listed, address)
		}
		w.alive = len(w.listed)
		w.writeBarrier(t, policyKey, one)
		w.writeSentinel()
		w.receive()
		for name := range w.servers {
			w.load(strings.TrimSuffix(strings.TrimPrefix(name, "https://"), ":443"))
		}
		w.round(t)
		w.round(t) // in the first, the servers are seen to have lost their numbers
		if !w.covers("update") {
			t.Errorf("%s, mended: %+v", tc.name, w.replica.State(policyKey))
		}
	}
}

// TestSentinelsOfOthers has sentinels that were changed. Their numbers do not count.
func TestSentinelsOfOthers(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*world){
		"no extent": func(w *world) {
			p := w.policy(barrier.SentinelName).DeepCopy()
			p.Annotations = nil
			w.writePolicy(p)
		},
		"another policy": func(w *world) {
			p := w.policy(barrier.SentinelName).DeepCopy()
			p.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "x", Expression: "true"}}
			w.writePolicy(p)
		},
		"another message": func(w *world) {
			p := w.policy(barrier.SentinelName).DeepCopy()
			p.Spec.Validations[0].Message = "x"
			w.writePolicy(p)
		},
		"another binding": func(w *world) {
			b := w.binding(barrier.SentinelName).DeepCopy()
			b.Spec.ValidationActions = append(b.Spec.ValidationActions, admissionregistrationv1.Audit)
			w.writeBinding(b)
		},
		"no binding": func(w *world) { w.deleteBinding(barrier.SentinelName) },
		"policies that are not stored yet": func(w *world) {
			p := w.policy(barrier.SentinelName).DeepCopy()
			barrier.SetExtent(p, barrier.Extent{Policies: w.revision + 1, Bindings: w.extent().Bindings})
			w.writePolicy(p)
		},
		"bindings that are not stored yet": func(w *world) {
			p := w.policy(barrier.SentinelName).DeepCopy()
			barrier.SetExtent(p, barrier.Extent{Policies: w.extent().Policies, Bindings: w.revision})
			w.writePolicy(p)
		},
	} {
		w := newWorld(t, "a", "b")
		w.replica.SetPolicy(policyKey, specOf("one", "update"))
		w.replica.SetSynced()
		w.writeBarrier(t, policyKey, specOf("one", "update"))
		w.writeSentinel()
		change(w)
		w.list()
		w.load("a", "b")
		w.round(t)
		w.wantState(t, name, rollout.Pending, "the sentinel has not been written after the barrier yet")
	}
}

// TestNumberZero goes on after a sentinel with the number 0, which others have written: it does not stand for the numbers after it.
func TestNumberZero(t *testing.T) {
	t.Parallel()
	w := active(t, specOf("one", "update"))
	number := w.number()
	for _, next := range []int64{0, number + 1} {
		w.mu.Lock()
		w.writeSentinelWith(next, w.extent())
		w.mu.Unlock()
		w.receive()
		w.load("a", "b")
		w.round(t)
	}
	w.wantState(t, "after the next number", rollout.Active, "")
}

// TestLowerNumber has a server show a number that is lower than before, with which it has another text.
func TestLowerNumber(t *testing.T) {
	t.Parallel()
	w := active(t, specOf("one", "update"))
	policies, bindings := len(w.policies), len(w.bindings)
	two := specOf("two", "update")
	w.replica.SetPolicy(policyKey, two)
	w.rollOut(t, two)
	w.wantState(t, "two", rollout.Active, "")
	w.server("a").policies = policies
	w.round(t)
	if w.covers("update") {
		t.Error("the request is covered, although the policies of a server have gone back")
	}
	w.wantState(t, "gone back", rollout.Pending, "https://a:443: it has not loaded the newest version yet", "https://a:443")
	w.load("a")
	w.round(t)
	w.wantState(t, "loaded again", rollout.Active, "")
	w.server("a").policies, w.server("a").bindings = policies, bindings
	w.round(t)
	if w.covers("update") {
		t.Error("the request is covered, although a server has gone back")
	}
	w.wantState(t, "gone back with all", rollout.Pending, "https://a:443: it does not refuse the probe", "https://a:443")
	w.round(t)
	w.wantState(t, "probed again", rollout.Pending, "https://a:443: it has not loaded the newest version yet", "https://a:443")
	w.load("a")
	w.round(t)
	w.wantState(t, "loaded by all", rollout.Active, "")
}

// TestServers has lists of servers with which no barrier comes into force.
func TestServers(t *testing.T) {
	t.Parallel()
	fault := errors.New("no answer")
	for _, tc := range []struct {
		name, want string
		change     func(*world)
		lacking    []string
		door       bool
	}{
		{name: "no list", change: func(w *world) { w.listErr = fault }, want: "cannot be listed"},
		{name: "no servers", change: func(w *world) { w.listed = nil }, want: "cannot be listed"},
		{name: "no Leases", change: func(w *world) { w.aliveErr = fault }, want: "Leases of the kube-apiservers cannot be read"},
		{name: "no Lease", change: func(w *world) { w.alive = 0 }, want: "no kube-apiserver has renewed"},
		{name: "a server that is not listed", change: func(w *world) { w.alive = 3 }, want: "3 kube-apiservers have renewed a Lease lately, and the addresses of 2 are known"},
		{name: "a server that is not listed, with the front door", change: func(w *world) { w.restartWithDoor(t); w.alive = 3 }, want: "3 kube-apiservers have renewed a Lease lately", door: true},
		{name: "a stalled server", change: func(w *world) { w.server("b").mode = "stalled" }, want: "https://b:443: no answer", lacking: []string{"https://b:443"}},
		{name: "a server that refuses otherwise", change: func(w *world) { w.server("b").mode = "refusing" }, want: "https://b:443: refused, but not by the sentinel: 403 quota", lacking: []string{"https://b:443"}},
		{name: "no status", change: func(w *world) { w.server("b").mode = "no status" }, want: "no Status: 502", lacking: []string{"https://b:443"}},
		{name: "too many servers", change: func(w *world) {
			for i := range 70 {
				w.add("z" + strings.Repeat("z", i))
			}
		}, want: "more than 64 kube-apiservers"},
		{name: "many stalled servers", change: func(w *world) {
			for _, name := range []string{"c", "d", "e", "f"} {
				w.add(name).mode = "stalled"
			}
			w.server("b").mode = "stalled"
		}, want: "https://b:443: no answer; https://c:443: no answer; https://d:443: no answer; https://e:443: no answer; and 1 others", lacking: []string{"https://b:443", "https://c:443", "https://d:443", "https://e:443", "https://f:443"}},
	} {
		w := newWorld(t, "a", "b")
		tc.change(w)
		w.replica.SetPolicy(policyKey, specOf("one", "update"))
		w.replica.SetSynced()
		w.rollOut(t, specOf("one", "update"))
		for _, k := range w.servers {
			k.policies, k.bindings = len(w.policies), len(w.bindings)
		}
		w.round(t)
		w.wantState(t, tc.name, rollout.Pending, tc.want, tc.lacking...)
		if got, want := w.replica.State(policyKey).Loaded, len(tc.lacking) == 0 && !tc.door && !strings.HasPrefix(tc.name, "no list") && tc.name != "no servers"; got != want {
			t.Errorf("%s: counts as loaded: %t, want %t", tc.name, got, want)
		}
		if w.covers("update") {
			t.Errorf("%s: covered", tc.name)
		}
	}
}

// TestOldList has a list of servers that cannot be read again.
func TestOldList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a", "b")
	w.round(t)
	w.listErr, w.aliveErr = errors.New("no answer"), errors.New("no answer")
	w.clock.Step(time.Minute)
	w.replica.SetPolicy(policyKey, specOf("one", "update"))
	w.replica.SetSynced()
	w.rollOut(t, specOf("one", "update"))
	w.wantState(t, "an old list", rollout.Pending, "cannot be listed")
	w.listErr = nil
	w.round(t)
	w.wantState(t, "old Leases", rollout.Pending, "Leases of the kube-apiservers cannot be read")
}

// TestServersThatLeave has a server count for some time after it has left the list: it may come back with what it had loaded.
func TestServersThatLeave(t *testing.T) {
	t.Parallel()
	w := active(t, specOf("one", "update"))
	w.server("b").mode = "stalled"
	w.listed, w.alive = w.listed[:1], 1
	two := specOf("two", "update")
	w.replica.SetPolicy(policyKey, two)
	w.rollOut(t, two)
	w.wantState(t, "just left", rollout.Pending, "https://b:443", "https://b:443")
	w.clock.Step(4 * time.Minute)
	w.round(t)
	w.wantState(t, "left four minutes ago", rollout.Pending, "https://b:443", "https://b:443")
	w.clock.Step(time.Minute + time.Second)
	w.round(t)
	w.wantState(t, "left five minutes ago", rollout.Active, "")
	if got := len(w.replicaLines()); got != 2 {
		t.Errorf("%d lines, want 2: %q", got, w.replicaLines())
	}
}

// replicaLines returns the details of readiness.
func (w *world) replicaLines() []string {
	recorder := httptest.NewRecorder()
	w.replica.ServeHTTP(recorder, nil)
	return strings.Split(strings.TrimSpace(recorder.Body.String()), "\n")
}

// TestDetails has the details of readiness.
func TestDetails(t *testing.T) {
	t.Parallel()
	w := active(t, specOf("one", "update"))
	w.server("b").mode = "stalled"
	w.replica.SetPolicy(engine.Key{Namespace: "n", Name: "q"}, specOf("one", "update"))
	for i := range 120 {
		w.replica.SetPolicy(engine.Key{Name: "z" + strings.Repeat("z", i)}, specOf("one", "update"))
	}
	w.round(t)
	lines := w.replicaLines()
	want := []string{"sentinel: number 1", "https://a:443: number 1: loaded", "https://b:443: number 1: no answer", `ClusterAuthorizationPolicy "z": pending: the barrier is not written yet`}
	for i, line := range want {
		if lines[i] != line {
			t.Errorf("line %d: %q, want %q", i, lines[i], line)
		}
	}
	if lines[len(lines)-1] != "…" || len(lines) != 3+100+1 {
		t.Errorf("%d lines, the last is %q", len(lines), lines[len(lines)-1])
	}
}

// TestNew needs everything but the defaults.
func TestNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, change := range map[string]func(*rollout.Config){
		"Namespace": func(c *rollout.Config) { c.Namespace = "" }, "Compile": func(c *rollout.Config) { c.Compile = nil }, "Cluster": func(c *rollout.Config) { c.Cluster = nil },
		"Number": func(c *rollout.Config) { c.Number = nil }, "Stored": func(c *rollout.Config) { c.Stored = nil },
	} {
		config := w.config()
		change(&config)
		if _, err := rollout.New(config); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestIsAbout verifies that the state of a text is not taken for the state of another one.
func TestIsAbout(t *testing.T) {
	t.Parallel()
	one, two := specOf("one", "update"), specOf("two", "update")
	audited := specOf("one", "update")
	audited.Description = "audit binding"
	w := active(t, one)
	isAbout := func(spec *policyv1alpha1.AuthorizationPolicySpec) bool {
		compiled, err := compile(policyKey, spec)
		if err != nil {
			t.Fatal(err)
		}
		return w.replica.IsAbout(policyKey, compiled.Policy, compiled.Binding)
	}
	if !isAbout(one) || isAbout(two) || isAbout(audited) {
		t.Errorf("the state is about the text: %t, want true; about others: %t and %t", isAbout(one), isAbout(two), isAbout(audited))
	}
	w.replica.SetPolicy(policyKey, audited)
	if isAbout(one) || !isAbout(audited) {
		t.Error("the state is not about the text after a change")
	}
	if w.replica.IsAbout(engine.Key{Name: "other"}, nil, nil) {
		t.Error("the state of an unknown policy is about something")
	}
}

// TestRestoredStore goes on with a sentinel that has a lower number, as after the store of kube-apiserver was restored from a backup. What the
// servers have shown before says nothing about the barriers that are stored now.
func TestRestoredStore(t *testing.T) {
	t.Parallel()
	one := specOf("one", "update")
	w := active(t, one)
	w.writeSentinel()
	w.receive()
	w.load("a", "b")
	w.round(t)
	if !w.covers("update") {
		t.Fatalf("before: %+v", w.replica.State(policyKey))
	}
	w.mu.Lock()
	w.writeSentinelWith(w.number()-1, w.extent())
	w.mu.Unlock()
	w.receive()
	if state := w.replica.State(policyKey); w.covers("update") || state.Phase != rollout.Pending || len(state.Lacking) != 2 {
		t.Errorf("with a lower number: %+v", state)
	}
	w.load("a", "b")
	w.round(t)
	if !w.covers("update") {
		t.Errorf("after the servers have shown it: %+v", w.replica.State(policyKey))
	}
}

// TestVersionsBeforeARestore has a sentinel from a time when greater resource versions were stored. It does not prove that a barrier is loaded that
// is written now.
func TestVersionsBeforeARestore(t *testing.T) {
	t.Parallel()
	w := active(t, specOf("one", "update"))
	w.mu.Lock()
	extent, revision := w.extent(), w.revision
	w.revision = 1 << 41
	w.writeSentinelWith(w.number()+1, barrier.Extent{Policies: 1 << 40, Bindings: 1 << 40})
	w.revision = revision
	w.mu.Unlock()
	w.receive()
	w.load("a", "b")
	w.round(t)
	w.mu.Lock()
	w.writeSentinelWith(w.number()+1, extent)
	w.mu.Unlock()
	two := specOf("two", "update")
	w.replica.SetPolicy(policyKey, two)
	w.writeBarrier(t, policyKey, two)
	w.receive()
	w.round(t)
	if state := w.replica.State(policyKey); state.Phase != rollout.Pending {
		t.Errorf("a barrier that no server has loaded: %+v", state)
	}
}

// TestAudits verifies which barriers count as evaluated in Audit.
func TestAudits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a")
	audits := func(v string) bool { return w.replica.Audits(policyKey.ConditionID(), verb(v)) }
	if audits("update") {
		t.Error("a policy that is not known")
	}
	spec := specOf("one", "update")
	w.replica.SetPolicy(policyKey, spec)
	if audits("update") {
		t.Error("a policy that is enforced")
	}
	for _, description := range []string{"audit policy", "audit binding"} {
		spec = spec.DeepCopy()
		spec.Description = description
		w.replica.SetPolicy(policyKey, spec)
		if !audits("update") || audits("delete") {
			t.Errorf("%s: update %t, want true; delete %t, want false", description, audits("update"), audits("delete"))
		}
	}
}
