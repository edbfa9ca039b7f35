/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rollout_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/clock"

	"github.com/proviso-authz/proviso/pkg/barrier/rollout"
	"github.com/proviso-authz/proviso/pkg/cluster"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
)

// newDoors has two servers that ask the front door of one replica, each with the certificate of its name. The barrier of a policy is written, and loaded.
func newDoors(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, "a", "b")
	w.restartWithDoor(t)
	for _, name := range []string{"a", "b"} {
		k := w.server(name)
		k.certificate, k.replica = name, func() *rollout.Rollout { return w.replica }
	}
	spec := specOf("one", "update")
	w.replica.SetPolicy(policyKey, spec)
	w.replica.SetSynced()
	w.writeBarrier(t, policyKey, spec)
	w.writeSentinel()
	w.receive()
	w.load("a", "b")
	return w
}

// restartWithDoor restarts the replica with the front door.
func (w *world) restartWithDoor(t *testing.T) {
	t.Helper()
	config := w.config()
	config.FrontDoor = true
	replica, err := rollout.New(config)
	if err != nil {
		t.Fatal(err)
	}
	w.replica, w.policiesSeen, w.bindingsSeen = replica, 0, 0
}

// known returns which of the certificates are known.
func (w *world) known(certificates ...string) string {
	var known []string
	for _, c := range certificates {
		if w.replica.Known(c) {
			known = append(known, c)
		}
	}
	return strings.Join(known, " ")
}

// TestRolloutCertificates has servers as they may be when they are probed, and the client certificates that are known then.
func TestRolloutCertificates(t *testing.T) {
	t.Parallel()
	other := func(t *testing.T, w *world) *rollout.Rollout {
		t.Helper()
		replica, err := rollout.New(w.config())
		if err != nil {
			t.Fatal(err)
		}
		return replica
	}
	const folds = "the front door denies what the policy could deny at https://b:443, because the client certificate is not known"
	for _, tc := range []struct {
		name   string
		change func(*testing.T, *world)
		want   string
		// wantUncertified is what the state of the active barrier says.
		wantUncertified string
	}{
		{name: "all are probed", want: "a b"},
		{name: "a server that is not listed", change: func(_ *testing.T, w *world) { w.listed, w.alive = w.listed[:1], 1 }, want: "a"},
		{name: "a server without the plugin that is not listed", change: func(_ *testing.T, w *world) { w.listed, w.alive, w.server("b").mode = w.listed[:1], 1, "passing" }, want: "a"},
		{name: "one certificate", change: func(_ *testing.T, w *world) { w.server("b").certificate = "a" }, want: "a"},
		{name: "no certificate", change: func(_ *testing.T, w *world) { w.server("b").certificate = "" }, want: "a"},
		{name: "checks arrive at another replica", change: func(t *testing.T, w *world) {
			t.Helper()
			replica := other(t, w)
			w.server("b").replica = func() *rollout.Rollout { return replica }
		}, want: "a"},
		{name: "checks arrive with two certificates", change: func(_ *testing.T, w *world) { w.server("b").others = []string{"c"} }, want: "a"},
		{name: "checks arrive with one certificate twice", change: func(_ *testing.T, w *world) { w.server("b").others = []string{"b"} }, want: "a b"},
		{name: "a server that does not ask the front door", change: func(_ *testing.T, w *world) { w.server("b").replica = nil }, want: "a", wantUncertified: folds},
		{name: "a server that enforces nothing", change: func(_ *testing.T, w *world) { w.server("b").mode = "passing" }, want: "a"},
		{name: "two servers with one address, of which one enforces nothing", change: func(_ *testing.T, w *world) { w.server("b").mode = "two servers" }, want: "a", wantUncertified: folds},
		{name: "a server that refuses otherwise", change: func(_ *testing.T, w *world) { w.server("b").mode = "refusing" }, want: "a"},
		{name: "a server that is stalled", change: func(_ *testing.T, w *world) { w.server("b").mode = "stalled" }, want: "a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newDoors(t)
			if tc.change != nil {
				tc.change(t, w)
			}
			if got := w.known("a", "b", "c", ""); got != "" {
				t.Errorf("%q are known before the first probes", got)
			}
			w.round(t)
			if got := w.known("a", "b", "c", ""); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if state := w.replica.State(policyKey); state.Uncertified != tc.wantUncertified || w.replica.KnowsAll() != (tc.wantUncertified == "") {
				t.Errorf("got %+v, %t, want %q", state, w.replica.KnowsAll(), tc.wantUncertified)
			}
			if len(w.strange) > 0 {
				t.Errorf("strange probes: %q", w.strange)
			}
		})
	}
}

// TestCertificatesChange has servers that were known.
func TestCertificatesChange(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(*testing.T, *world)
		want   string
	}{
		{name: "another certificate", change: func(t *testing.T, w *world) { t.Helper(); w.server("b").certificate = "c"; w.round(t) }, want: "a c"},
		{name: "a server that is silent", change: func(t *testing.T, w *world) { t.Helper(); w.server("b").mode = "stalled"; w.round(t); w.round(t) }, want: "a b"},
		{name: "a server that has just left", change: func(t *testing.T, w *world) { t.Helper(); w.listed = w.listed[:1]; w.round(t) }, want: "a b"},
		{name: "a server that has left for long", change: func(t *testing.T, w *world) {
			t.Helper()
			w.listed = w.listed[:1]
			w.round(t)
			w.clock.Step(rollout.LeftFor)
			w.round(t)
		}, want: "a"},
		{name: "a new server that lacks a text that is active", change: func(t *testing.T, w *world) {
			t.Helper()
			k := w.add("c")
			k.certificate, k.replica, k.policies, k.bindings = "c", w.server("a").replica, len(w.policies), len(w.bindings)
			later := specOf("two", "update")
			w.replica.SetPolicy(policyKey, later)
			w.listed = w.listed[:2]
			w.rollOut(t, later)
			if !w.covers("update") {
				t.Fatal("the new text is not active")
			}
			w.listed = append(w.listed, "https://c:443")
			w.round(t)
		}, want: "a b"},
		{name: "a new server", change: func(t *testing.T, w *world) {
			t.Helper()
			k := w.add("c")
			k.certificate, k.replica = "c", w.server("a").replica
			w.round(t)
		}, want: "a b c"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newDoors(t)
			w.round(t)
			if got := w.known("a", "b", "c"); got != "a b" {
				t.Fatalf("got %q at first", got)
			}
			tc.change(t, w)
			if got := w.known("a", "b", "c"); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestCanaryOfBarriers has probes, and requests that the front door must not take for one.
func TestCanaryOfBarriers(t *testing.T) {
	t.Parallel()
	w := newDoors(t)
	for _, tc := range []struct {
		name   string
		change func(*authorizer.AttributesRecord)
		want   bool
	}{
		{name: "a probe", want: true},
		{name: "another user", change: func(a *authorizer.AttributesRecord) {
			a.User = &user.DefaultInfo{Name: "alice", Extra: map[string][]string{innerdoor.CanaryExtra: {innerdoor.NewNonce()}}}
		}},
		{name: "no nonce", change: func(a *authorizer.AttributesRecord) { a.User = &user.DefaultInfo{Name: innerdoor.CanaryUser} }},
		{name: "no user", change: func(a *authorizer.AttributesRecord) { a.User = nil }},
		{name: "an update", change: func(a *authorizer.AttributesRecord) { a.Verb = "update" }},
		{name: "a name", change: func(a *authorizer.AttributesRecord) { a.Name = "x" }},
		{name: "another namespace", change: func(a *authorizer.AttributesRecord) { a.Namespace = "kube-system" }},
		{name: "another group", change: func(a *authorizer.AttributesRecord) { a.APIGroup = "" }},
		{name: "another version", change: func(a *authorizer.AttributesRecord) { a.APIVersion = "*" }},
		{name: "another resource", change: func(a *authorizer.AttributesRecord) { a.Resource = "configmaps" }},
		{name: "a subresource", change: func(a *authorizer.AttributesRecord) { a.Subresource = "status" }},
		{name: "a path", change: func(a *authorizer.AttributesRecord) { a.ResourceRequest = false }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := authorizer.AttributesRecord{
				User: innerdoor.CanaryIdentity(innerdoor.NewNonce()), Verb: "create", APIGroup: "coordination.k8s.io", APIVersion: "v1", Resource: "leases", Namespace: namespace, ResourceRequest: true,
			}
			if tc.change != nil {
				tc.change(&a)
			}
			if got := w.replica.IsCanary("x", a); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
	t.Cleanup(func() {
		if w.replica.Known("x") {
			t.Error("a request with another nonce ties a certificate")
		}
	})
}

// TestCertificateDetails has the details of readiness.
func TestCertificateDetails(t *testing.T) {
	t.Parallel()
	w := newDoors(t)
	w.server("b").replica = nil
	w.round(t)
	recorder := httptest.NewRecorder()
	w.replica.ServeHTTP(recorder, nil)
	for _, want := range []string{
		"https://a:443: client certificate: known\n",
		"https://b:443: client certificate: the last probe as system:proviso:canary failed: refused, but not by the sentinel: 403 cannot create leases\n",
	} {
		if !strings.Contains(recorder.Body.String(), want) {
			t.Errorf("got\n%s\nwant %s", recorder.Body, want)
		}
	}
}

// TestUnknownCertificates ask for a round before its time, at most once a second. Certificates that are known ask for none.
func TestUnknownCertificates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newDoors(t)
		config := w.config(func(c *cluster.Config) { c.Clock, c.Interval = clock.RealClock{}, time.Hour })
		config.FrontDoor = true
		var err error
		if w.replica, err = rollout.New(config); err != nil {
			t.Fatal(err)
		}
		w.list()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go w.replica.Run(ctx)
		const ofARound = 4 // two probes of each server
		for _, tc := range []struct {
			name        string
			certificate string
			times       int
			want        int
		}{
			{name: "known", certificate: "a", times: 100},
			{name: "not known", certificate: "x", times: 1, want: ofARound},
			{name: "not known, often", certificate: "x", times: 100, want: ofARound},
		} {
			time.Sleep(2 * time.Second) // in the bubble
			before := w.sent()
			for range tc.times {
				w.replica.Known(tc.certificate)
			}
			synctest.Wait()
			if got := w.sent() - before; got != tc.want {
				t.Errorf("%s: %d probes, want %d", tc.name, got, tc.want)
			}
		}
	})
}

// sent returns how many probes were sent.
func (w *world) sent() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.probes
}
