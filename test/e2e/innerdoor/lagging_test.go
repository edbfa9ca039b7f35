/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

const (
	// maxLag is for how long what the store delivers to the watches of one replica is held back at most.
	maxLag = 5 * time.Second
	// slack is what an event may take otherwise, also on a busy machine.
	slack = 3 * time.Second
	// betweenChanges is the time between two changes of the policies.
	betweenChanges = 100 * time.Millisecond
)

// period is a span of time.
type period struct {
	from, to time.Time
}

// history has when each generation of the policy may have been in effect in the store.
type history struct {
	mu sync.Mutex
	// allowed are the periods by generation. The last one of the current generation has no end yet.
	allowed map[int][]period
	// current is the generation that is in effect, or was last.
	current int
	// began has when each generation began.
	began []time.Time
	// ages are the ages of the generations by which some of the last writes passed.
	ages [8]time.Duration
}

// passed records that a write passed that was sent at a time.
func (h *history) passed(generation int, sent time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ages[rand.IntN(len(h.ages))] = sent.Sub(h.began[generation])
}

// age returns an age at which the last writes passed.
func (h *history) age() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ages[rand.IntN(len(h.ages))]
}

// begin records that a write, which was sent at a time, puts a generation in effect. It may be in effect from then on.
func (h *history) begin(generation int, sent time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.began) <= generation {
		h.began = append(h.began, sent)
	}
	h.current = generation
	h.allowed[generation] = append(h.allowed[generation], period{from: sent})
}

// end records that a generation is not in effect any more when a write has been answered.
func (h *history) end(generation int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	periods := h.allowed[generation]
	if len(periods) > 0 && periods[len(periods)-1].to.IsZero() {
		periods[len(periods)-1].to = time.Now()
	}
}

// at returns the generation that was in effect at a time, or the one before it.
func (h *history) at(when time.Time) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for generation := h.current; generation > 0; generation-- {
		if h.began[generation].Before(when) {
			return generation
		}
	}
	return 0
}

// since returns for how long a generation has not been in effect.
func (h *history) since(generation int) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	periods := h.allowed[generation]
	if len(periods) == 0 || periods[len(periods)-1].to.IsZero() {
		return 0
	}
	return time.Since(periods[len(periods)-1].to)
}

// wasAllowed reports whether a generation may have been in effect in the store within a period.
func (h *history) wasAllowed(generation int, from, to time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.allowed[generation] {
		if !p.from.After(to) && (p.to.IsZero() || !p.to.Before(from)) {
			return true
		}
	}
	return false
}

// generations is the only policy that lets dana write ConfigMaps and VirtualMachines. noGeneration denies it.
const (
	generations = `{"apiVersion": "policy.proviso.dev/v1alpha1", "kind": "ClusterAuthorizationPolicy", "metadata": {"name": "generations"}, "spec": {"effect": "Allow",
  "subjects": [{"kind": "User", "name": "dana"}], "condition": "` + ofGeneration + `",
  "rules": [` + writesOfMaps + `, {"verbs": ["create", "update", "patch", "delete"], "apiGroups": ["demo.proviso.dev"], "apiVersions": ["v1alpha1"], "resources": ["virtualmachines"]}]}}`
	noGeneration = `{"apiVersion": "policy.proviso.dev/v1alpha1", "kind": "ClusterAuthorizationPolicy", "metadata": {"name": "no-generation"}, "spec": {"effect": "Deny",
  "subjects": [{"kind": "User", "name": "dana"}], "rules": [{"verbs": ["create", "update", "patch", "delete"], "apiGroups": ["", "demo.proviso.dev"], "resources": ["configmaps", "virtualmachines"]}]}}`
	writesOfMaps = `{"verbs": ["create", "update", "patch", "delete"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}`
	ofGeneration = "(object == null ? oldObject : object).metadata.labels.generation == '%d'"
)

// changer changes the policies again and again.
type changer struct {
	history *history
	admin   *caller
	changes int
	// rest is how long it waits before it sends a write again. It is 50 milliseconds if it is zero.
	rest time.Duration
}

// isDeleted is in the answer to the creation of a policy whose deletion has not finished.
const isDeleted = "object is being deleted"

// send sends a write of a policy, again until it succeeds, and returns when it was first sent. A write that got no answer may have succeeded.
func (c *changer) send(t *testing.T, method, name, contentType, body string) time.Time {
	t.Helper()
	path := "/apis/policy.proviso.dev/v1alpha1/clusterauthorizationpolicies"
	if method != http.MethodPost {
		path += "/" + name
	}
	sent := time.Now()
	for isUnknown := false; ; {
		code, answer, err := c.sendOnce(t, method, path, contentType, body)
		switch {
		case isUnknown && (method == http.MethodPost && code == http.StatusConflict && !strings.Contains(answer, isDeleted) || method == http.MethodDelete && code == http.StatusNotFound):
			c.changes++
			return sent
		case t.Context().Err() != nil:
			return sent
		case err == nil && code < 300:
			c.changes++
			return sent
		case code == http.StatusConflict: // a deleted policy is there until its barrier is gone
		case err == nil && code != http.StatusTooManyRequests && code < 500:
			t.Errorf("%s %s: got %d %.300s", method, name, code, answer)
			return sent
		}
		isUnknown = isUnknown || code == 0 || code >= 500
		time.Sleep(cmp.Or(c.rest, 50*time.Millisecond))
	}
}

// sendOnce sends a write of a policy, which may wait for half a minute.
func (c *changer) sendOnce(t *testing.T, method, path, contentType, body string) (int, string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return c.admin.send(ctx, method, path, contentType, strings.NewReader(body))
}

// change makes the next generation: mostly by one change of the policy, sometimes by its deletion and creation, and sometimes while
// another policy denies everything.
func (c *changer) change(t *testing.T, pause func()) {
	t.Helper()
	before := c.history.current
	next := before + 1
	text := fmt.Sprintf(generations, next)
	patch := fmt.Sprintf(`{"spec": {"condition": "`+ofGeneration+`"}}`, next)
	switch kind := rand.IntN(10); {
	case before == 0:
		c.history.begin(next, c.send(t, "POST", "generations", jsonType, text))
	case kind == 0:
		c.send(t, "DELETE", "generations", "", "")
		c.history.end(before)
		pause()
		sent := time.Now()
		c.history.begin(next, sent)
		c.send(t, "POST", "generations", jsonType, text)
	case kind == 1:
		c.send(t, "POST", "no-generation", jsonType, noGeneration)
		c.history.end(before)
		pause()
		c.send(t, "PATCH", "generations", mergeType, patch)
		pause()
		c.history.begin(next, time.Now())
		c.send(t, "DELETE", "no-generation", "", "")
	default:
		c.history.begin(next, time.Now())
		c.send(t, "PATCH", "generations", mergeType, patch)
		c.history.end(before)
	}
	pause()
}

// observer reads again and again which generation a replica has.
type observer struct {
	caller *caller

	observations []observation
}

// observation is that a replica lagged, at some time between two.
type observation struct {
	asked, answered time.Time
	lag             time.Duration
}

var generationOf = regexp.MustCompile(`generation == '(\d+)'`)

// observe reads the policy from the cache of the replica, which has what the replica has been told. What is not in effect any more in the store has
// lagged since its end.
func (o *observer) observe(t *testing.T, h *history) {
	t.Helper()
	asked := time.Now()
	code, answer, err := o.caller.send(t.Context(), "GET", "/apis/policy.proviso.dev/v1alpha1/clusterauthorizationpolicies/generations?resourceVersion=0", "", nil)
	found := generationOf.FindStringSubmatch(answer)
	if err != nil || code != http.StatusOK || found == nil {
		return // it may have been deleted
	}
	generation, err := strconv.Atoi(found[1])
	if err != nil {
		t.Error(err)
		return
	}
	o.observations = append(o.observations, observation{asked, time.Now(), h.since(generation)})
}

// lag returns the longest lag at a time, or shortly before or after. It is at least maxLag.
func (o *observer) lag(from, to time.Time) time.Duration {
	lag := maxLag
	for _, seen := range o.observations {
		if seen.answered.After(from.Add(-slack)) && seen.asked.Before(to.Add(slack)) {
			lag = max(lag, seen.lag)
		}
	}
	return lag
}

// outcome is one write.
type outcome struct {
	name           string
	generation     int
	sent, answered time.Time
	code           int
	answer         string
}

// TestLagging has two kube-apiservers and two replicas of Proviso, of which one lags by up to five seconds, while the policies change ten
// times a second. Eight clients write, with the generation of the policy that would allow them. What passes must have been
// allowed by the policies that the replica that decided it at admission had: the newest one within slack, and the other one by as much
// more as it was seen to lag, which is printed. Each kube-apiserver asks one replica at its front door, and either
// at admission. With PROVISO_FULL_LOAD it sends 100,000 requests.
func TestLagging(t *testing.T) {
	total := 2000
	if os.Getenv("PROVISO_FULL_LOAD") != "" {
		total = 100_000
	}
	p := newPair(t, func(c *cluster.Config) { c.SharedStore = true })
	p.Start(t, p.Up)
	if err := p.Servers[1].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	store := newLateStore(t, p.Cluster)
	lagging, err := p.AloneAt(t.Context(), store.url)
	t.Cleanup(lagging.Stop)
	if err != nil {
		t.Fatal(err)
	}
	newest := p.FrontDoorURL()
	for i, door := range p.doors {
		door.set(func() {
			door.target = []string{newest, lagging.FrontDoorURL}[i]
			door.forgetful, door.admittedBy, door.admitting = true, map[string][]string{}, []string{newest, lagging.FrontDoorURL}
		})
	}
	p.MustKubectl(t, "create", "namespace", demo)
	admin := p.as(cluster.Admin)
	h := &history{allowed: map[int][]period{}}
	c := &changer{history: h, admin: admin.at(p.ProvisoURL())}
	c.change(t, func() {})
	clients := []*caller{p.user(0, "dana"), p.user(1, "dana")}
	for i := range clients {
		poll.Eventually(t, "writes pass on conditions", func() string {
			code, answer, err := clients[i].send(t.Context(), "POST", maps+"?dryRun=All", jsonType, strings.NewReader(generated("x", 1)))
			if err == nil && code == http.StatusCreated {
				return ""
			}
			return fmt.Sprintf("server %d: %d %v %s", i, code, err, answer)
		})
	}

	o := &observer{caller: admin.at(lagging.URL)}
	outcomes := p.load(t, c, clients, store, o, total)
	judge(t, p, h, o, outcomes, lagging.FrontDoorURL)
	t.Logf("%d changes of policies", c.changes)
}

// generated is a ConfigMap for a generation of the policy.
func generated(name string, generation int) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": %q, "labels": {"generation": "%d"}}}`, name, generation)
}

// load changes the policies and the lag while eight clients send writes, and returns the outcomes.
func (p *pair) load(t *testing.T, c *changer, clients []*caller, store *lateStore, o *observer, total int) []outcome {
	t.Helper()
	h := c.history
	end, background := make(chan struct{}), sync.WaitGroup{}
	background.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
				c.change(t, func() { time.Sleep(betweenChanges) })
			}
		}
	})
	background.Go(func() {
		for {
			store.setLag(time.Duration(rand.Int64N(int64(maxLag))))
			select {
			case <-end:
				store.setLag(0)
				return
			case <-time.After(time.Duration(rand.Int64N(int64(3 * time.Second)))):
			}
		}
	})
	background.Go(func() {
		for {
			select {
			case <-end:
				return
			case <-time.After(betweenChanges):
				o.observe(t, h)
			}
		}
	})
	began := time.Now()
	outcomes, last := make([]outcome, total), atomic.Int64{}
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for i := int(last.Add(1)) - 1; i < total; i = int(last.Add(1)) - 1 {
				generation := choose(h, store)
				o := outcome{name: "w-" + strconv.Itoa(i), generation: generation, sent: time.Now()}
				var err error
				o.code, o.answer, err = clients[rand.IntN(len(clients))].send(t.Context(), "POST", maps+"?dryRun=All", jsonType, strings.NewReader(generated(o.name, generation)))
				if err != nil {
					o.answer = err.Error()
				}
				o.answered = time.Now()
				outcomes[i] = o
				if o.code == http.StatusCreated {
					h.passed(generation, o.sent)
				}
			}
		})
	}
	writers.Wait()
	t.Logf("%d writes in %s", total, time.Since(began).Round(time.Second))
	close(end)
	background.Wait()
	return outcomes
}

// choose returns a generation: mostly one that a replica may have at the moment, and sometimes an older one, or one that comes later.
func choose(h *history, store *lateStore) int {
	now := time.Now().Add(-time.Duration(rand.Int64N(int64(2 * betweenChanges)))) // a replica does not have a change at once
	switch rand.IntN(8) {
	case 0:
		return h.at(now)
	case 1:
		return h.at(now.Add(-store.lagNow()))
	case 2, 3, 4:
		return h.at(now.Add(betweenChanges - h.age()))
	case 5:
		return h.at(now.Add(-time.Duration(rand.Int64N(int64(maxLag)))))
	case 6:
		return h.at(now.Add(-3*maxLag - time.Duration(rand.Int64N(int64(maxLag)))))
	}
	return h.at(now) + 50 + rand.IntN(50)
}

// judge compares what has passed with the policies that the replicas may have had.
func judge(t *testing.T, p *pair, h *history, observed *observer, outcomes []outcome, lagging string) {
	t.Helper()
	codes, passedByLagging, passedByNewest, passedLate := map[int]int{}, 0, 0, 0
	for _, o := range outcomes {
		if codes[o.code]++; o.code == 0 || o.code >= 500 {
			if codes[o.code] <= 3 {
				t.Logf("%d %.300s", o.code, o.answer)
			}
		}
		if o.code != http.StatusCreated {
			continue
		}
		targets := append(p.proxy.targetsOf(o.name), p.doors[1].targetsOf(o.name)...)
		byLagging := strings.Contains(strings.Join(targets, " "), lagging)
		from := o.sent.Add(-slack)
		if byLagging {
			from = from.Add(-observed.lag(o.sent, o.answered))
			passedByLagging++
			if !h.wasAllowed(o.generation, o.sent, o.answered) {
				passedLate++
			}
		} else {
			passedByNewest++
		}
		switch {
		case len(targets) == 0:
			t.Errorf("%s passed without a decision at admission", o.name)
		case !h.wasAllowed(o.generation, from, o.answered):
			t.Errorf("%s passed with generation %d, decided by %v, sent at %s and answered after %s, which no policy allowed then: %v", o.name, o.generation, targets,
				o.sent.Format(time.StampMilli), o.answered.Sub(o.sent), h.allowed[o.generation])
		}
	}
	t.Logf("the lagging replica lagged by %s at most", observed.lag(time.Time{}, time.Now()).Round(100*time.Millisecond))
	t.Logf("status codes: %v; %d passed by the newest replica, %d by the lagging one, of which %d by policies that were not in effect any more", codes, passedByNewest, passedByLagging, passedLate)
	if few := len(outcomes) / 200; passedByNewest < few || passedByLagging < few || passedLate == 0 {
		t.Error("too few writes passed to say anything")
	}
}
