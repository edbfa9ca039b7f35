/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package probe_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/proviso-authz/proviso/pkg/cluster"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor/probe"
)

const (
	namespace = "proviso-system"
	ours      = "0123456789abcdef0123456789abcdef"
	interval  = 5 * time.Second
)

// kube is a kube-apiserver. It asks replicas of Proviso about each request, and has a manifest.
type kube struct {
	*httptest.Server
	// before is called before each request.
	before atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]

	mu sync.Mutex
	// certificate is its client certificate at the front door.
	certificate string
	// digest is that of its manifest, empty if it has none.
	digest string
	// replica returns the replica that answers a check. It may be nil.
	replica func(verb string) *probe.Prober
	// caches says that it reuses answers.
	caches bool
	// missing says that there is no ConfigMap.
	missing bool
	// answer, if not nil, answers in its place.
	answer http.HandlerFunc
	// exceptions are verbs for which it does not call the inner door.
	exceptions []string

	cached   map[string]bool
	requests []string
	strange  []string
}

func newKube(t *testing.T, certificate string) *kube {
	t.Helper()
	k := &kube{certificate: certificate, digest: ours, cached: map[string]bool{}}
	k.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before := k.before.Load(); before == nil || !(*before)(w, r) {
			k.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(k.Close)
	return k
}

// intercept has a function called before each request is answered, which reports whether it has answered it. Nil ends that.
func (k *kube) intercept(before func(http.ResponseWriter, *http.Request) bool) {
	if before == nil {
		k.before.Store(nil)
		return
	}
	k.before.Store(&before)
}

// change changes the server while it runs.
func (k *kube) change(change func(*kube)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change(k)
}

// attributesOf returns the attributes of a request as kube-apiserver reads them, with the impersonated user.
func (k *kube) attributesOf(r *http.Request) authorizer.AttributesRecord {
	path, name := strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/"+namespace+"/configmaps"), ""
	if rest, ok := strings.CutPrefix(path, "/"); ok {
		name, path = rest, ""
	}
	extra := map[string][]string{}
	for header, values := range r.Header {
		if key, ok := strings.CutPrefix(strings.ToLower(header), "impersonate-extra-"); ok {
			extra[strings.ReplaceAll(key, "%2f", "/")] = values
		}
	}
	a := authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: r.Header.Get("Impersonate-User"), Groups: []string{user.AllAuthenticated}, Extra: extra},
		Verb: map[string]string{"POST": "create", "PUT": "update", "DELETE": "delete"}[r.Method], APIVersion: "v1", Resource: "configmaps", Namespace: namespace, Name: name, ResourceRequest: true,
	}
	if selector := r.URL.Query().Get("fieldSelector"); selector != "" {
		parsed, err := fields.ParseSelector(selector)
		if err == nil {
			a.FieldSelectorRequirements = parsed.Requirements()
		}
	}
	if a.Verb == "delete" && name == "" {
		a.Verb = "deletecollection"
	}
	if path != "" || r.URL.Query().Get("dryRun") != "All" {
		k.strange = append(k.strange, r.Method+" "+r.URL.String())
	}
	return a
}

// ServeHTTP implements http.Handler.
func (k *kube) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	if k.answer != nil {
		k.answer(w, r)
		return
	}
	a := k.attributesOf(r)
	k.requests = append(k.requests, a.Verb)
	if withObject := a.Verb == "create" || a.Verb == "update"; withObject != strings.Contains(string(body), `"name": "proviso-inner-door-canary"`) {
		k.strange = append(k.strange, a.Verb+" "+string(body))
	}
	if !k.authorize(a) {
		answer(w, &metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: "forbidden"})
		return
	}
	if k.missing && a.Name != "" {
		answer(w, &metav1.Status{Code: 404, Reason: metav1.StatusReasonNotFound, Message: "not found"})
		return
	}
	matched := !k.missing || a.Verb == "create" // a deletecollection of nothing does not reach admission
	if k.digest != "" && matched && !slices.Contains(k.exceptions, a.Verb) {
		refusal := innerdoor.RefuseCanary(&admissionv1.AdmissionRequest{UID: "1", UserInfo: authenticationv1.UserInfo{
			Username: a.User.GetName(), Extra: map[string]authenticationv1.ExtraValue{innerdoor.CanaryExtra: a.User.GetExtra()[innerdoor.CanaryExtra]},
		}}, k.digest)
		refusal.Result.Message = `admission webhook "canary" denied the request: ` + refusal.Result.Message
		answer(w, refusal.Result)
		return
	}
	if a.Verb == "create" && !k.missing {
		answer(w, &metav1.Status{Code: 409, Reason: metav1.StatusReasonAlreadyExists})
		return
	}
	_, _ = io.WriteString(w, `{"kind": "ConfigMap"}`)
}

// authorize asks the front door.
func (k *kube) authorize(a authorizer.AttributesRecord) bool {
	key := fmt.Sprint(a.Verb, a.Name, a.User.GetExtra())
	if k.caches && k.cached[key] {
		return true
	}
	replica := k.replica(a.Verb)
	if replica == nil || !replica.IsCanary(k.certificate, a) {
		return false
	}
	k.cached[key] = true
	return true
}

func answer(w http.ResponseWriter, status *metav1.Status) {
	status.Status = metav1.StatusFailure
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

// fakeCluster has kube-apiservers, and what is known of them.
type fakeCluster struct {
	mu       sync.Mutex
	servers  []*kube
	listed   []string
	listErr  error
	alive    int
	aliveErr error
	clock    *testingclock.FakeClock
}

// newCluster has servers with the given certificates.
func newCluster(t *testing.T, certificates ...string) *fakeCluster {
	t.Helper()
	c := &fakeCluster{clock: testingclock.NewFakeClock(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)), alive: len(certificates)}
	for _, certificate := range certificates {
		k := newKube(t, certificate)
		c.servers = append(c.servers, k)
		c.listed = append(c.listed, k.URL)
	}
	return c
}

// newReplica is a replica of Proviso.
func (c *fakeCluster) newReplica(t *testing.T, change func(*cluster.Config)) *probe.Prober {
	t.Helper()
	config := cluster.Config{
		Interval: interval, Clock: c.clock,
		Servers: func(context.Context) ([]string, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return slices.Clone(c.listed), c.listErr
		},
		Renewed: func(context.Context) ([]time.Time, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return slices.Repeat([]time.Time{c.clock.Now()}, c.alive), c.aliveErr
		},
		Client: func(string) (*http.Client, error) { return &http.Client{}, nil },
	}
	if change != nil {
		change(&config)
	}
	probed, err := cluster.New(config)
	if err != nil {
		t.Fatal(err)
	}
	p, err := probe.New(probed, namespace, ours)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// connect has all servers ask one replica.
func (c *fakeCluster) connect(p *probe.Prober) {
	for _, k := range c.servers {
		k.change(func(k *kube) { k.replica = func(string) *probe.Prober { return p } })
	}
}

// knows returns the certificates of the servers that are known.
func knows(p *probe.Prober, certificates ...string) string {
	var known []string
	for _, certificate := range certificates {
		if p.Known(certificate) {
			known = append(known, certificate)
		}
	}
	return strings.Join(known, " ")
}

func statesOf(p *probe.Prober) string {
	recorder := httptest.NewRecorder()
	p.ServeHTTP(recorder, nil)
	return recorder.Body.String()
}

// TestRound probes a server in every state that it can be in.
func TestRound(t *testing.T) {
	t.Parallel()
	refuse := func(code int32, reason metav1.StatusReason, message string) func(*kube) {
		return func(k *kube) {
			k.answer = func(w http.ResponseWriter, _ *http.Request) {
				answer(w, &metav1.Status{Code: code, Reason: reason, Message: message})
			}
		}
	}
	for _, tc := range []struct {
		name   string
		change func(*kube)
		want   string
	}{
		{name: "good", want: ""},
		{name: "no manifest", change: func(k *kube) { k.digest = "" }, want: "create: the server did not call the inner door"},
		{name: "no manifest, and no ConfigMap", change: func(k *kube) { k.digest, k.missing = "", true }, want: "create: the server did not call the inner door"},
		{name: "another manifest", change: func(k *kube) { k.digest = "x" }, want: "create: the server has the manifest x, and this replica has " + ours},
		{name: "no webhook for updates", change: func(k *kube) { k.exceptions = []string{"update"} }, want: "update: the server did not call the inner door"},
		{name: "no webhook for deletions", change: func(k *kube) { k.exceptions = []string{"delete"} }, want: "delete: the server did not call the inner door"},
		{name: "no webhook for collections", change: func(k *kube) { k.exceptions = []string{"deletecollection"} }, want: "deletecollection: the server did not call the inner door"},
		{name: "no ConfigMap", change: func(k *kube) { k.missing = true }, want: "update: refused, but not by the inner door: 404 not found"},
		{name: "another webhook", change: refuse(403, metav1.StatusReasonForbidden, `admission webhook "x" denied the request: no ConfigMaps`),
			want: `create: refused, but not by the inner door: 403 admission webhook "x" denied the request: no ConfigMaps`},
		{name: "no permission to impersonate", change: refuse(403, metav1.StatusReasonForbidden, "cannot impersonate"), want: "create: refused, but not by the inner door: 403 cannot impersonate"},
		{name: "Proviso is down", change: refuse(500, metav1.StatusReasonInternalError, "failed calling webhook"), want: "create: refused, but not by the inner door: 500 failed calling webhook"},
		{name: "a long message", change: refuse(500, "", strings.Repeat("é", 500)), want: "create: refused, but not by the inner door: 500 " + strings.Repeat("é", 102) + "…"},
		{name: "no Status", change: func(k *kube) {
			k.answer = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy", http.StatusTooManyRequests) }
		}, want: "create: the answer is no Status: 429"},
		{name: "a redirect", change: func(k *kube) {
			k.answer = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusTemporaryRedirect) }
		}, want: "create: the answer is no Status: 307"},
		{name: "a success that looks like a refusal", change: func(k *kube) {
			k.answer = func(w http.ResponseWriter, r *http.Request) {
				refusal := innerdoor.RefuseCanary(&admissionv1.AdmissionRequest{UserInfo: authenticationv1.UserInfo{Username: innerdoor.CanaryUser, Extra: map[string]authenticationv1.ExtraValue{
					innerdoor.CanaryExtra: {k.attributesOf(r).User.GetExtra()[innerdoor.CanaryExtra][0]},
				}}}, ours)
				_ = json.NewEncoder(w).Encode(refusal.Result)
			}
		}, want: "create: the server did not call the inner door"},
		{name: "the refusal of another canary", change: func(k *kube) {
			k.answer = func(w http.ResponseWriter, _ *http.Request) {
				answer(w, innerdoor.RefuseCanary(&admissionv1.AdmissionRequest{UserInfo: authenticationv1.UserInfo{Username: innerdoor.CanaryUser, Extra: map[string]authenticationv1.ExtraValue{
					innerdoor.CanaryExtra: {innerdoor.NewNonce()},
				}}}, ours).Result)
			}
		}, want: "create: refused, but not by the inner door: 403 the inner door refuses every request of its canary"},
		{name: "no front door", change: func(k *kube) { k.replica = func(string) *probe.Prober { return nil } }, want: "create: refused, but not by the inner door: 403 forbidden"},
		{name: "answers are reused", change: func(k *kube) { k.caches = true }, want: "the server did not ask again: set cacheAuthorizedRequests to false"},
		{name: "no certificate", change: func(k *kube) { k.certificate = "" }, want: "the server calls the inner door, and another replica of Proviso answers its checks"},
		{name: "several certificates", change: func(k *kube) {
			one := k.replica
			k.replica = func(verb string) *probe.Prober {
				if k.certificate = "one"; verb == "delete" {
					k.certificate = "other"
				}
				return one(verb)
			}
		}, want: "the checks about its canaries arrived with several client certificates: does one address have several servers?"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, "one")
			p := c.newReplica(t, nil)
			c.connect(p)
			if tc.change != nil {
				c.servers[0].change(tc.change)
			}
			p.Round(t.Context())
			states := p.States()
			if len(states) != 1 || states[0].Reason != tc.want || states[0].Known != (tc.want == "") {
				t.Errorf("got %+v, want the reason %q", states, tc.want)
			}
			if got := p.Known("one"); got != (tc.want == "") {
				t.Errorf("known: %t", got)
			}
			if len(c.servers[0].strange) > 0 {
				t.Errorf("strange requests: %q", c.servers[0].strange)
			}
		})
	}
}

// TestRequests has the requests of a round, which arrive in any order.
func TestRequests(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "one")
	p := c.newReplica(t, nil)
	c.connect(p)
	p.Round(t.Context())
	if got, want := slices.Sorted(slices.Values(c.servers[0].requests)), []string{"create", "create", "delete", "deletecollection", "update"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestNew knows nothing before its first round, and asks for one when requests arrive.
func TestNew(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "one")
	p := c.newReplica(t, nil)
	c.connect(p)
	if p.Known("one") || p.Known("") {
		t.Error("a replica without a round knows a server")
	}
	p.Round(t.Context())
	if got := knows(p, "", "one", "other"); got != "one" {
		t.Errorf("got %q: %s", got, statesOf(p))
	}
	for name, of := range map[string][2]string{"namespace": {"", ours}, "digest": {namespace, ""}} {
		if _, err := probe.New(nil, of[0], of[1]); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestFaults changes servers that were known, and has the servers that are known after the next round.
func TestFaults(t *testing.T) {
	t.Parallel()
	own, shared := []string{"one", "two"}, []string{"one", "one"}
	second := func(change func(*kube)) func(*fakeCluster) {
		return func(c *fakeCluster) { c.servers[1].change(change) }
	}
	for _, tc := range []struct {
		name         string
		certificates []string
		change       func(*fakeCluster)
		want         string
	}{
		{name: "own certificates", certificates: own, want: "one two"},
		{name: "own certificates, one is emptied", certificates: own, change: second(func(k *kube) { k.digest = "" }), want: "one"},
		{name: "own certificates, one has an older manifest", certificates: own, change: second(func(k *kube) { k.digest = "older" }), want: "one"},
		{name: "own certificates, one is down", certificates: own, change: func(c *fakeCluster) { c.servers[1].Close() }, want: "one"},
		{name: "own certificates, one caches", certificates: own, change: second(func(k *kube) { k.caches = true }), want: "one"},
		{name: "own certificates, one leaves the list", certificates: own, change: func(c *fakeCluster) { c.listed = c.listed[:1] }, want: "one"},
		{name: "own certificates, one is not listed", certificates: own, change: func(c *fakeCluster) { c.alive = 3 }, want: "one two"},
		{name: "own certificates, no Leases", certificates: own, change: func(c *fakeCluster) { c.aliveErr = errors.New("x") }, want: "one two"},
		{name: "own certificates, no list", certificates: own, change: func(c *fakeCluster) { c.listErr = errors.New("x") }, want: "one two"},
		{name: "own certificates, one gets the other's", certificates: own, change: second(func(k *kube) { k.certificate = "one" }), want: "one"},
		{name: "own certificates, one gets the other's and is emptied", certificates: own, change: second(func(k *kube) { k.certificate, k.digest = "one", "" }), want: ""},
		{name: "own certificates, a new one", certificates: own, change: second(func(k *kube) { k.certificate = "three" }), want: "one three"},

		{name: "shared", certificates: shared, want: "one"},
		{name: "shared, one is emptied", certificates: shared, change: second(func(k *kube) { k.digest = "" }), want: ""},
		{name: "shared, the other is emptied", certificates: shared, change: func(c *fakeCluster) { c.servers[0].change(func(k *kube) { k.digest = "" }) }, want: ""},
		{name: "shared, one is down", certificates: shared, change: func(c *fakeCluster) { c.servers[1].Close() }, want: ""},
		{name: "shared, one has another manifest", certificates: shared, change: second(func(k *kube) { k.digest = "x" }), want: ""},
		{name: "shared, one is not listed", certificates: shared, change: func(c *fakeCluster) { c.alive = 3 }, want: ""},
		{name: "shared, no Lease is alive", certificates: shared, change: func(c *fakeCluster) { c.alive = 0 }, want: ""},
		{name: "shared, one leaves the list and runs", certificates: shared, change: func(c *fakeCluster) { c.listed = c.listed[:1] }, want: ""},
		{name: "shared, one leaves the list", certificates: shared, change: func(c *fakeCluster) { c.listed, c.alive = c.listed[:1], 1 }, want: "one"},
		{name: "shared, one gets its own", certificates: shared, change: second(func(k *kube) { k.certificate = "two" }), want: "one two"},

		{name: "two of three share", certificates: []string{"one", "one", "two"}, want: "one two"},
		{name: "two of three share, one is emptied", certificates: []string{"one", "one", "two"}, change: second(func(k *kube) { k.digest = "" }), want: "two"},
		{name: "two of three share, one is not listed", certificates: []string{"one", "one", "two"}, change: func(c *fakeCluster) { c.alive = 4 }, want: "two"},
		{name: "two of three share, the third is emptied", certificates: []string{"one", "one", "two"}, change: func(c *fakeCluster) { c.servers[2].change(func(k *kube) { k.digest = "" }) }, want: ""},

		{name: "alone", certificates: own[:1], want: "one"},
		{name: "alone in the list", certificates: own[:1], change: func(c *fakeCluster) { c.alive = 2 }, want: ""},
		{name: "no list at all", certificates: own, change: func(c *fakeCluster) { c.listed = nil }, want: ""},
		{name: "a third that cannot be reached", certificates: own, change: func(c *fakeCluster) { c.listed = append(c.listed, "http://127.0.0.1:1") }, want: ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, tc.certificates...)
			p := c.newReplica(t, nil)
			c.connect(p)
			p.Round(t.Context())
			if got, want := knows(p, slices.Compact(slices.Clone(tc.certificates))...), strings.Join(slices.Compact(slices.Clone(tc.certificates)), " "); got != want {
				t.Fatalf("first round: got %q, want %q\n%s", got, want, statesOf(p))
			}
			if tc.change != nil {
				c.mu.Lock()
				tc.change(c)
				c.mu.Unlock()
			}
			c.clock.Step(interval)
			p.Round(t.Context())
			if got := knows(p, "one", "two", "three"); got != tc.want {
				t.Errorf("got %q, want %q\n%s", got, tc.want, statesOf(p))
			}
		})
	}
}

// TestProbeSilence has results that count for three intervals, and not longer.
func TestProbeSilence(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name         string
		certificates []string
		// fails is what fails in each later round.
		fails func(*testing.T, *fakeCluster)
		// rounds says that there are later rounds.
		rounds     bool
		wantBefore string
	}{
		{name: "no rounds", certificates: []string{"one", "two"}, wantBefore: "one two"},
		{name: "no rounds, shared", certificates: []string{"one", "one"}, wantBefore: "one"},
		{name: "no Leases, shared", certificates: []string{"one", "one"}, rounds: true, fails: func(_ *testing.T, c *fakeCluster) { c.aliveErr = errors.New("x") }, wantBefore: "one"},
		{name: "no list, shared", certificates: []string{"one", "one"}, rounds: true, fails: func(_ *testing.T, c *fakeCluster) { c.listErr = errors.New("x") }, wantBefore: "one"},
		{name: "checks arrive elsewhere", certificates: []string{"one", "two"}, rounds: true, wantBefore: "one two", fails: func(t *testing.T, c *fakeCluster) {
			t.Helper()
			c.connect(c.newReplica(t, nil))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, tc.certificates...)
			p := c.newReplica(t, nil)
			c.connect(p)
			p.Round(t.Context())
			if tc.fails != nil {
				c.mu.Lock()
				tc.fails(t, c)
				c.mu.Unlock()
			}
			for range 3 {
				c.clock.Step(interval)
				if tc.rounds {
					p.Round(t.Context())
				}
				if got := knows(p, "one", "two"); got != tc.wantBefore {
					t.Errorf("within the bound: got %q, want %q\n%s", got, tc.wantBefore, statesOf(p))
				}
			}
			c.clock.Step(time.Nanosecond)
			if got := knows(p, "one", "two"); got != "" {
				t.Errorf("after the bound: got %q\n%s", got, statesOf(p))
			}
		})
	}
}

// TestReplicas has two replicas. Each server asks one of them, and the other one calls it good without knowing its
// certificate.
func TestReplicas(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "one", "two")
	a, b := c.newReplica(t, nil), c.newReplica(t, nil)
	c.servers[0].change(func(k *kube) { k.replica = func(string) *probe.Prober { return a } })
	c.servers[1].change(func(k *kube) { k.replica = func(string) *probe.Prober { return b } })
	both := func() string { return knows(a, "one", "two") + " | " + knows(b, "one", "two") }
	round := func() {
		c.clock.Step(interval)
		a.Round(t.Context())
		b.Round(t.Context())
	}
	round()
	// Each replica has seen one certificate only, but both servers call the inner door.
	if got := both(); got != "one | two" {
		t.Errorf("got %s\n%s%s", got, statesOf(a), statesOf(b))
	}
	if len(unknown(t, a))+len(unknown(t, b)) > 0 {
		t.Errorf("not known: %v and %v", unknown(t, a), unknown(t, b))
	}

	// A replica that answers some checks of a round learns nothing.
	for _, k := range c.servers {
		k.change(func(k *kube) {
			k.replica = func(verb string) *probe.Prober {
				if verb == "delete" {
					return a
				}
				return b
			}
		})
	}
	for range 4 {
		round()
	}
	if got := both(); got != " | " {
		t.Errorf("split: got %s\n%s%s", got, statesOf(a), statesOf(b))
	}

	// A replica that takes over knows nothing before its next round.
	c.connect(b)
	if got := both(); got != " | " {
		t.Errorf("before a round: got %s", got)
	}
	round()
	if got := both(); got != " | one two" {
		t.Errorf("taken over: got %s", got)
	}

	// A server that is emptied is known to be so by both.
	c.servers[0].change(func(k *kube) { k.digest = "" })
	round()
	if got := both(); got != " | two" || !slices.Equal(unknown(t, a), []string{c.servers[0].URL}) || !slices.Equal(unknown(t, b), unknown(t, a)) {
		t.Errorf("emptied: got %s, not known: %v and %v", got, unknown(t, a), unknown(t, b))
	}
}

// unknown returns the servers that a replica does not know, which has probed some.
func unknown(t *testing.T, p *probe.Prober) []string {
	t.Helper()
	servers, isProbed := p.Unknown()
	if !isProbed {
		t.Error("no server has been probed")
	}
	return servers
}

// TestUnknown has a replica that knows no server before its first round, and a server that calls the inner door but may share its
// certificate with one that is not listed.
func TestUnknown(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "one")
	p := c.newReplica(t, nil)
	c.connect(p)
	if servers, isProbed := p.Unknown(); len(servers) > 0 || isProbed {
		t.Errorf("before the first round: got %v, %t", servers, isProbed)
	}
	p.Round(t.Context())
	if got := unknown(t, p); len(got) > 0 {
		t.Errorf("got %v\n%s", got, statesOf(p))
	}
	c.alive = 2
	p.Round(t.Context())
	if got := unknown(t, p); !slices.Equal(got, []string{c.servers[0].URL}) {
		t.Errorf("a server that is not listed: got %v\n%s", got, statesOf(p))
	}
}

// TestInterrupted has rounds that do not end in time.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"POST", "PUT", "DELETE"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, "one", "two")
			p := c.newReplica(t, nil)
			c.connect(p)
			p.Round(t.Context())
			ctx, cancel := context.WithCancel(t.Context())
			c.servers[0].intercept(func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Method != verb {
					return false
				}
				_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice that the client is gone
				cancel()
				<-r.Context().Done()
				return true
			})
			c.clock.Step(interval)
			p.Round(ctx)
			if p.Known("one") {
				t.Errorf("known after a round that was interrupted\n%s", statesOf(p))
			}
			c.servers[0].intercept(nil)
			p.Round(t.Context())
			if got := knows(p, "one", "two"); got != "one two" {
				t.Errorf("got %q after a whole round\n%s", got, statesOf(p))
			}
		})
	}
}

// TestSlow has a server that does not answer in time: the round ends after the interval, and the other server is known. What was known of
// the slow one counts for three intervals, and not longer.
func TestSlow(t *testing.T) {
	t.Parallel()
	const interval = 300 * time.Millisecond
	c := newCluster(t, "one", "two")
	p := c.newReplica(t, func(config *cluster.Config) { config.Interval = interval })
	c.connect(p)
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	const quick, slow = false, true
	var isSlow atomic.Bool
	c.servers[0].intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if !isSlow.Load() {
			return false
		}
		select {
		case <-stop:
		case <-r.Context().Done():
		}
		return true
	})
	round := func(what string, slow bool, want string) {
		t.Helper()
		c.clock.Step(interval)
		isSlow.Store(slow)
		p.Round(t.Context())
		if got := knows(p, "one", "two"); got != want {
			t.Errorf("%s: got %q, want %q\n%s", what, got, want, statesOf(p))
		}
	}
	round("slow from the beginning", slow, "")
	round("quick", quick, "one two")
	round("slow once", slow, "one two")
	round("slow twice", slow, "one two")
	round("slow for three intervals", slow, "one two")
	round("slow for longer", slow, "two")
	round("quick again", quick, "one two")
	round("slow again", slow, "one two")
	c.servers[0].change(func(k *kube) { k.digest = "other" })
	round("another manifest after it was slow", quick, "two")
	round("slow with another manifest", slow, "two")
}

// TestLateAnswers has answers that take too long, and others: only the former leave what was known.
func TestLateAnswers(t *testing.T) {
	t.Parallel()
	timeout := &metav1.Status{Code: 504, Reason: metav1.StatusReasonTimeout, Message: "request did not complete within the allotted time"}
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{name: "a timeout of kube-apiserver", answer: func(w http.ResponseWriter, _ *http.Request) { answer(w, timeout) }, want: "one"},
		{name: "an error of kube-apiserver", answer: func(w http.ResponseWriter, _ *http.Request) {
			answer(w, &metav1.Status{Code: 500, Reason: metav1.StatusReasonInternalError, Message: "context deadline exceeded"})
		}},
		{name: "too many requests", answer: func(w http.ResponseWriter, _ *http.Request) {
			answer(w, &metav1.Status{Code: 429, Reason: metav1.StatusReasonTooManyRequests})
		}},
		{name: "no status", answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGatewayTimeout) }},
		{name: "a canary that passes", answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }},
		{name: "a lost connection", answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, "one")
			p := c.newReplica(t, nil)
			c.connect(p)
			p.Round(t.Context())
			c.servers[0].change(func(k *kube) { k.answer = tc.answer })
			c.clock.Step(interval)
			p.Round(t.Context())
			if got := knows(p, "one"); got != tc.want {
				t.Errorf("got %q, want %q\n%s", got, tc.want, statesOf(p))
			}
		})
	}
}

// TestLateFromTheBeginning has a server whose first answer takes too long. The state of the server says so.
func TestLateFromTheBeginning(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "one")
	p := c.newReplica(t, nil)
	c.connect(p)
	c.servers[0].change(func(k *kube) {
		k.answer = func(w http.ResponseWriter, _ *http.Request) {
			answer(w, &metav1.Status{Code: 504, Reason: metav1.StatusReasonTimeout, Message: "not in time"})
		}
	})
	p.Round(t.Context())
	if states := p.States(); len(states) != 1 || states[0].Known || !strings.Contains(states[0].Reason, "not in time") {
		t.Errorf("got %+v", states)
	}
}

// TestLateBesideNews has a server that answers one canary late, and does not call the inner door for another one.
func TestLateBesideNews(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "one")
	p := c.newReplica(t, nil)
	c.connect(p)
	p.Round(t.Context())
	k := c.servers[0]
	k.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		answer(w, &metav1.Status{Code: 504, Reason: metav1.StatusReasonTimeout})
		return true
	})
	k.change(func(k *kube) { k.exceptions = []string{"deletecollection"} })
	c.clock.Step(interval)
	p.Round(t.Context())
	if got := knows(p, "one"); got != "" {
		t.Errorf("got %q, want none\n%s", got, statesOf(p))
	}
}

// hangs has a server not answer canaries of a method, until it is released.
func (k *kube) hangs(t *testing.T, method string) (arrived chan struct{}, release func()) {
	arrived, stop := make(chan struct{}, 100), make(chan struct{})
	release = sync.OnceFunc(func() { close(stop) })
	t.Cleanup(release)
	k.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == method {
			_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice that the client is gone
			arrived <- struct{}{}
			select {
			case <-stop:
			case <-r.Context().Done():
			}
		}
		return false
	})
	return arrived, release
}

// TestNewsBesideSilence has a server that does not answer one canary, and does not call the inner door for another one: that is known after an
// interval.
func TestNewsBesideSilence(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "one")
	p := c.newReplica(t, func(config *cluster.Config) { config.Interval = time.Hour })
	c.connect(p)
	p.Round(t.Context())
	k := c.servers[0]
	k.change(func(k *kube) { k.exceptions = []string{"delete"} })
	arrived, _ := k.hangs(t, http.MethodPost)
	ended := make(chan struct{})
	go func() {
		p.Round(t.Context())
		close(ended)
	}()
	<-arrived
	for range 5000 {
		c.clock.Step(time.Hour)
		select {
		case <-ended:
			if got := knows(p, "one"); got != "" {
				t.Errorf("got %q, want none\n%s", got, statesOf(p))
			}
			return
		case <-time.After(time.Millisecond):
		}
	}
	t.Fatal("the round waits for all answers")
}

// TestOlderRounds has a round that ends after one that began later: what the later one found stays, unless the older one brings news.
func TestOlderRounds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name         string
		older, later []string
		want         string
	}{
		{name: "both good", want: "one"},
		{name: "the later one passed", later: []string{"update"}},
		{name: "the older one passed", older: []string{"update"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, "one")
			p := c.newReplica(t, nil)
			c.connect(p)
			k := c.servers[0]
			arrived, release := k.hangs(t, http.MethodPut)
			ended := make(chan struct{})
			go func() {
				p.Round(t.Context())
				close(ended)
			}()
			<-arrived
			k.intercept(nil)
			k.change(func(k *kube) { k.exceptions = tc.later })
			c.clock.Step(interval)
			p.Round(t.Context())
			k.change(func(k *kube) { k.exceptions = tc.older })
			release()
			<-ended
			if got := knows(p, "one"); got != tc.want {
				t.Errorf("got %q, want %q\n%s", got, tc.want, statesOf(p))
			}
		})
	}
}

// TestLateWithAnotherCertificate has a server whose check arrives with a new certificate, and whose answer is late: the old one is not
// known any more, and the new one not yet.
func TestLateWithAnotherCertificate(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "one")
	p := c.newReplica(t, nil)
	c.connect(p)
	p.Round(t.Context())
	k := c.servers[0]
	k.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			return false
		}
		answer(w, &metav1.Status{Code: 504, Reason: metav1.StatusReasonTimeout})
		return true
	})
	k.change(func(k *kube) { k.certificate = "two" })
	c.clock.Step(interval)
	p.Round(t.Context())
	if got := knows(p, "one", "two"); got != "" {
		t.Errorf("got %q, want none\n%s", got, statesOf(p))
	}
}

// TestLeavesWhileProbed has a server leave the list while a round waits for it.
func TestLeavesWhileProbed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "one")
	p := c.newReplica(t, nil)
	c.connect(p)
	arrived, release := c.servers[0].hangs(t, http.MethodPut)
	ended := make(chan struct{})
	go func() {
		p.Round(t.Context())
		close(ended)
	}()
	<-arrived
	c.mu.Lock()
	c.listed = nil
	c.mu.Unlock()
	c.clock.Step(interval)
	p.Round(t.Context())
	release()
	<-ended
	if states := p.States(); len(states) > 0 || p.Known("one") {
		t.Errorf("got %+v", states)
	}
}

// TestNoClient has a server of which no client can be made.
func TestNoClient(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "one")
	p := c.newReplica(t, func(config *cluster.Config) {
		config.Client = func(string) (*http.Client, error) { return nil, errors.New("no certificate authority") }
	})
	p.Round(t.Context())
	if states := p.States(); len(states) != 1 || states[0].Known || states[0].Reason != "create: no certificate authority" {
		t.Errorf("got %+v", states)
	}
}

// TestTooManyServers has more servers than are probed: all may share a certificate with the others.
func TestTooManyServers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "one", "two")
	p := c.newReplica(t, nil)
	c.connect(p)
	for i := range cluster.MaxServers {
		c.listed = append(c.listed, fmt.Sprintf("http://127.0.0.1:1/%d", i))
	}
	p.Round(t.Context())
	if got := knows(p, "one", "two"); got != "" || len(p.States()) != cluster.MaxServers+2 {
		t.Errorf("got %q of %d servers", got, len(p.States()))
	}
}

// TestProbeRun probes again and again, and at once if a certificate is new.
func TestProbeRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "one")
	p := c.newReplica(t, nil)
	c.connect(p)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		p.Run(ctx)
		close(stopped)
	}()
	rounds := func() int {
		c.servers[0].mu.Lock()
		defer c.servers[0].mu.Unlock()
		return len(c.servers[0].requests) / 5
	}
	waitFor := func(what string, is func() bool) {
		t.Helper()
		for range 3000 {
			// A timer that was made after its time had come does not end before the clock is set again.
			c.clock.Step(0)
			if is() {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("no %s after %d rounds\n%s", what, rounds(), statesOf(p))
	}
	// Known would ask for a round if it were not known.
	isKnown := func() bool {
		states := p.States()
		return len(states) == 1 && states[0].Known
	}
	waitFor("first round", isKnown)
	// The first round does not count any more, so that the server is known only when the second one has ended.
	c.clock.Step(4 * interval)
	waitFor("second round", isKnown)

	// A server gets a new certificate, and asks about requests.
	c.servers[0].change(func(k *kube) { k.certificate = "new" })
	p.Known("new")
	c.clock.Step(time.Second)
	waitFor("round for a new certificate", func() bool { return p.Known("new") })
	if got := rounds(); got != 3 {
		t.Errorf("got %d rounds, want 3", got)
	}
	cancel()
	<-stopped
}

// TestRunBesideSilence has a server that answers nothing: the next round begins in time, and never more than two run.
func TestRunBesideSilence(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "one")
	p := c.newReplica(t, func(config *cluster.Config) { config.Interval = time.Hour })
	c.connect(p)
	arrived, release := c.servers[0].hangs(t, http.MethodPut)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		p.Run(ctx)
		close(stopped)
	}()
	begins := func() bool {
		for range 100 {
			c.clock.Step(time.Hour)
			select {
			case <-arrived:
				return true
			case <-time.After(time.Millisecond):
			}
		}
		return false
	}
	for i, want := range []bool{true, true, false} {
		if got := begins(); got != want {
			t.Errorf("round %d: got %t, want %t", i+1, got, want)
		}
	}
	release()
	if !begins() {
		t.Error("no round begins after two that were released")
	}
	cancel()
	<-stopped
}

// TestIsCanary has checks that are no canary's, and canaries of other replicas.
func TestIsCanary(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "one")
	p := c.newReplica(t, nil)
	a := authorizer.AttributesRecord{User: innerdoor.CanaryIdentity(innerdoor.NewNonce()), Verb: "create", APIVersion: "v1", Resource: "configmaps", Namespace: namespace, ResourceRequest: true}
	if !p.IsCanary("one", a) {
		t.Error("the canary of another replica is refused")
	}
	if p.Known("one") {
		t.Error("the canary of another replica makes a certificate known")
	}
	a.Namespace = "demo"
	if p.IsCanary("one", a) {
		t.Error("a request in another namespace is a canary")
	}
}

// TestCertificatesThatMove has certificates that other servers get, while the checks of these servers arrive at another replica.
func TestCertificatesThatMove(t *testing.T) {
	t.Parallel()
	t.Run("a listed server without the manifest gets the new certificate", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, "old", "old", "old")
		one, other := c.newReplica(t, nil), c.newReplica(t, nil)
		c.connect(one)
		one.Round(t.Context())
		for i, k := range c.servers {
			k.change(func(k *kube) {
				k.certificate = "new"
				if i > 0 {
					k.replica = func(string) *probe.Prober { return other }
				}
			})
		}
		c.servers[2].change(func(k *kube) { k.digest = "" })
		for range 4 {
			c.clock.Step(interval)
			one.Round(t.Context())
			other.Round(t.Context())
		}
		if one.Known("new") {
			t.Errorf("the certificate is known, although a listed server that may have it does not call the inner door\n%s", statesOf(one))
		}
	})
	t.Run("a listed server that answers otherwise gets the certificate of another", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, "one", "two", "three")
		one, other := c.newReplica(t, nil), c.newReplica(t, nil)
		c.connect(one)
		one.Round(t.Context())
		c.servers[2].change(func(k *kube) {
			k.certificate, k.replica = "one", func(string) *probe.Prober { return other }
			k.answer = func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, `{"kind": "Status", "code": 403, "message": "exceeded quota\nhttps://x: known: "}`, http.StatusForbidden)
			}
		})
		for range 5 {
			c.clock.Step(interval)
			one.Round(t.Context())
		}
		if one.Known("one") {
			t.Errorf("the certificate is known, although a listed server that may have it is not seen to call the inner door\n%s", statesOf(one))
		}
		w := httptest.NewRecorder()
		one.ServeHTTP(w, nil)
		if got := strings.Count(w.Body.String(), "\n"); got != len(c.servers) {
			t.Errorf("%d lines about %d servers:\n%s", got, len(c.servers), w.Body)
		}
	})
	t.Run("a server that is not listed gets the certificate of the only listed one", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, "old", "old", "new")
		p := c.newReplica(t, nil)
		c.connect(p)
		c.listed, c.alive = c.listed[:2], 2
		p.Round(t.Context())
		c.listed = c.listed[:1]
		c.servers[0].change(func(k *kube) { k.certificate = "new" })
		for range 20 {
			c.clock.Step(interval)
			p.Round(t.Context())
		}
		if p.Known("new") {
			t.Errorf("the certificate is known, although two servers run and one is listed\n%s", statesOf(p))
		}
	})
}
