//go:build soak

/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// sealed is a Deny policy for ron that changes.
const sealed = `{"apiVersion": "policy.proviso.dev/v1alpha1", "kind": "ClusterAuthorizationPolicy", "metadata": {"name": "sealed"}, "spec": {"effect": "Deny", "subjects": [{"kind": "User", "name": "ron"}],
  "rules": [` + writesOfMaps + `], "condition": "[object, oldObject].exists(o, o != null && o.metadata.?labels['generation'].orValue('') == '%d')"}}`

// throughout reports whether a generation was in effect for all of a period, which has ended.
func (h *history) throughout(generation int, from, to time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.allowed[generation] {
		if p.from.Before(from) && (p.to.IsZero() || p.to.After(to)) {
			return true
		}
	}
	return false
}

// changeSeal makes the next generation of sealed, waits until it is Effective, and leaves it for some seconds.
func (s *soak) changeSeal(t *testing.T) {
	t.Helper()
	s.seals.end(s.sealed)
	s.sealed++
	c, text := &changer{admin: s.changer.admin, rest: s.changer.rest}, fmt.Sprintf(sealed, s.sealed)
	switch isNew := rand.IntN(4) == 0; {
	case s.sealed > 1 && isNew:
		c.send(t, http.MethodDelete, "sealed", "", "")
		time.Sleep(time.Second)
		c.send(t, http.MethodPost, "sealed", jsonType, text)
	case s.sealed > 1:
		c.send(t, http.MethodPatch, "sealed", mergeType, text)
	default:
		c.send(t, http.MethodPost, "sealed", jsonType, text)
	}
	if _, err := s.Kubectl(t.Context(), "", "wait", "--for=condition=Effective", "--timeout=30s", "clusterauthorizationpolicy/sealed"); err == nil {
		s.seals.begin(s.sealed, time.Now())
		time.Sleep(time.Duration(rand.Int64N(int64(6 * time.Second))))
	}
}

// kind is a kind of objects, with the text of an object that has a name, a label and a token.
type kind struct{ name, path, text string }

var (
	mapKind  = kind{"ConfigMap", maps, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": %q, "labels": {"generation": %q}}, "data": {"token": %q}}`}
	machines = kind{"VirtualMachine", "/apis/demo.proviso.dev/v1alpha1/namespaces/" + demo + "/virtualmachines",
		`{"apiVersion": "demo.proviso.dev/v1alpha1", "kind": "VirtualMachine", "metadata": {"name": %q, "labels": {"generation": %q}}, "spec": {"image": %q}}`}
	policies = kind{"AuthorizationPolicy", "/apis/policy.proviso.dev/v1alpha1/namespaces/" + demo + "/authorizationpolicies",
		`{"apiVersion": "policy.proviso.dev/v1alpha1", "kind": "AuthorizationPolicy", "metadata": {"name": %q, "labels": {"generation": %q}}, "spec": {"effect": "Allow", "description": %q,
  "subjects": [{"kind": "User", "name": "none"}], "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]}}`}
	kinds = []kind{mapKind, machines, policies}
)

// verdict is what may happen to a write.
type verdict int

const (
	either verdict = iota
	// mustBeRefused is about a write that no policy of its time allows, or that a Deny of all of its time denies.
	mustBeRefused
	// mustPass is about a write that only a fault excuses.
	mustPass
)

// actor writes objects of some kinds at one kube-apiserver, at any if it is negative, or at the replicas if isDirect.
type actor struct {
	name     string
	server   int
	isDirect bool
	kinds    []kind
	// value chooses a label for a write, and judge says what may happen to a write by its label.
	value func() string
	judge func(value string, sent, answered time.Time) verdict
	// refused is since when the writes that must pass are refused.
	refused time.Time
}

// actors are the users who write.
func (s *soak) actors() []*actor {
	isOpen := func(value string, _, _ time.Time) verdict {
		if value == "open" {
			return mustPass
		}
		return mustBeRefused
	}
	byHistory := func(value string, sent, answered time.Time) verdict {
		if generation, err := strconv.Atoi(value); err == nil && s.history.wasAllowed(generation, s.chaos.since(sent, answered), answered) {
			return either
		}
		return mustBeRefused
	}
	bySeals := func(value string, sent, answered time.Time) verdict {
		if generation, err := strconv.Atoi(value); err == nil && s.seals.throughout(generation, sent, answered) {
			return mustBeRefused
		}
		return either
	}
	all := []*actor{
		{name: "admin", server: -1, kinds: kinds[2:], value: func() string { return "open" }, judge: isOpen},
		{name: "sue", server: -1, kinds: kinds[:1], value: func() string { return oneOf("open", "open", "open", "shut") }, judge: isOpen},
		{name: "hugo", isDirect: true, server: -1, kinds: kinds[1:2], value: func() string { return oneOf("open", "open", "open", "shut") }, judge: s.hook.judge},
		{name: "fred", server: -1, kinds: kinds[:1], value: func() string { return "open" }, judge: s.hook.judge},
		{name: "ron", server: -1, kinds: kinds[:1], value: func() string { return oneOf("open", strconv.Itoa(s.seals.at(time.Now()))) }, judge: bySeals},
	}
	for server := range s.nodes {
		all = append(all,
			&actor{name: "sam", server: server, kinds: kinds[:1], value: func() string { return oneOf("open", "open", "open", "shut") }, judge: isOpen},
			&actor{name: "sam", server: server, kinds: kinds[1:2], value: func() string { return oneOf("open", "open", "open", "shut") }, judge: isOpen},
			&actor{name: "rob", server: server, kinds: kinds[:1], value: func() string { return oneOf("open", "open", "open", "locked") }, judge: isOpen})
	}
	for range 4 {
		all = append(all, &actor{name: "dana", server: -1, kinds: kinds[:2], value: func() string { return strconv.Itoa(s.generation()) }, judge: byHistory})
	}
	return all
}

func oneOf(values ...string) string { return values[rand.IntN(len(values))] }

// generation chooses a generation: mostly the newest one, or an older one, or one that no policy has had.
func (s *soak) generation() int {
	now := time.Now()
	switch rand.IntN(8) {
	case 0:
		return s.history.at(now.Add(-time.Duration(rand.Int64N(int64(4 * slack)))))
	case 1:
		return 0
	case 2:
		return s.history.at(now) + 50
	}
	return s.history.at(now.Add(-time.Duration(rand.Int64N(int64(400 * time.Millisecond)))))
}

// written is a write.
type written struct {
	by             *actor
	verb           string
	value, token   string
	sent, answered time.Time
}

func (w *written) String() string {
	if w == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s of %s by %s, sent at %s", w.verb, w.token, w.by.name, w.sent.Format(time.StampMilli))
}

// object is what is known about an object: the last write that was acknowledged, and a later one whose outcome is not known.
type object struct {
	kind           kind
	name           string
	acked, pending *written
}

// ledger has all objects that must be stored, or may be.
type ledger struct {
	mu      sync.Mutex
	objects map[string]*object
	tokens  atomic.Int64
	// left are objects that users have left.
	left []*object
}

// maxLeft is how many objects stay: with more and more, the memory of servers would grow.
const maxLeft = 300

// leave adds an object to those that are left, and returns the oldest one if there are too many.
func (l *ledger) leave(o *object) (surplus *object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left = append(l.left, o); len(l.left) > maxLeft {
		surplus, l.left = l.left[0], l.left[1:]
	}
	return surplus
}

// begin records that a write is sent.
func (l *ledger) begin(o *object, w *written) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o.pending = w
	l.objects[o.kind.name+"/"+o.name] = o
}

// settle records that a write was acknowledged, or certainly refused.
func (l *ledger) settle(o *object, passed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if passed {
		o.acked = o.pending
	}
	o.pending = nil
	if o.acked == nil || o.acked.verb == http.MethodDelete {
		delete(l.objects, o.kind.name+"/"+o.name)
	}
}

// patience is how long a client waits for an answer: longer than a server is stalled.
const patience = 12 * time.Second

// send sends a write, and returns the status code, and the reason or the error.
func (s *soak) send(t *testing.T, a *actor, o *object, w *written) (code int, answer string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	node := a.server
	if node < 0 {
		node = rand.IntN(len(s.nodes))
	}
	url := s.nodes[node].URL
	if a.isDirect {
		url = s.balancers[1].url
	}
	path, contentType, body := o.kind.path+"/"+o.name, jsonType, fmt.Sprintf(o.kind.text, o.name, w.value, w.token)
	switch w.verb {
	case http.MethodPost:
		path = o.kind.path
	case http.MethodPatch:
		contentType = mergeType
	case http.MethodDelete:
		body = ""
	}
	code, answer, err := (&caller{s.Sender, certified(a.name)}).at(url).send(ctx, w.verb, path, contentType, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	return code, answer
}

// write creates an object, changes it and mostly deletes it. If it is left, another one is deleted that was. After a write that may have succeeded it stays as it is.
func (s *soak) write(t *testing.T, a *actor) {
	t.Helper()
	o := &object{kind: a.kinds[rand.IntN(len(a.kinds))], name: fmt.Sprintf("%s-%d", a.name, s.ledger.tokens.Add(1))}
	known := s.step(t, a, o, http.MethodPost, a.value())
	for range rand.IntN(3) {
		if known && o.acked != nil {
			known = s.step(t, a, o, oneOf(http.MethodPut, http.MethodPatch), a.value())
		}
	}
	if !known || o.acked == nil {
		return
	}
	if rand.IntN(20) == 0 {
		o = s.ledger.leave(o)
	} else if !s.step(t, a, o, http.MethodDelete, o.acked.value) || o.acked.verb == http.MethodDelete {
		return
	}
	if o != nil {
		sweeper := &actor{name: "admin", server: -1, judge: func(string, time.Time, time.Time) verdict { return either }}
		s.step(t, sweeper, o, http.MethodDelete, o.acked.value)
	}
}

// step sends a write, judges what happened to it, and reports whether its outcome is known.
func (s *soak) step(t *testing.T, a *actor, o *object, verb, value string) (known bool) {
	t.Helper()
	time.Sleep(time.Duration(rand.Int64N(int64(120 * time.Millisecond))))
	w := &written{by: a, verb: verb, value: value, token: "t" + strconv.FormatInt(s.ledger.tokens.Add(1), 10), sent: time.Now()}
	s.ledger.begin(o, w)
	code, answer := s.send(t, a, o, w)
	w.answered = time.Now()
	passed := code >= 200 && code < 300
	known = passed || code == http.StatusForbidden || code == http.StatusUnprocessableEntity || code == http.StatusBadRequest
	if known {
		s.ledger.settle(o, passed)
	}
	wanted := a.judge(value, w.sent, w.answered)
	s.tally.add(a, o.kind, passed, wanted, code, answer)
	switch {
	case passed && wanted == mustBeRefused:
		s.tally.fail(t, wrong, "%s: %s of %s %s with %q passed, sent at %s and answered after %s", a.name, verb, o.kind.name, o.name, value, w.sent.Format(time.StampMilli), w.answered.Sub(w.sent))
	case wanted == mustPass && passed:
		if !a.refused.IsZero() {
			s.tally.outage(a, w.answered.Sub(a.refused))
			a.refused = time.Time{}
		}
	case wanted == mustPass:
		if a.refused.IsZero() {
			a.refused = w.sent
		}
		if s.chaos.missed(w.sent) {
			s.tally.fail(t, late, "%s: %s of %s %s at server %d, sent at %s, got %d %.400s after %s", a.name, verb, o.kind.name, o.name, a.server, w.sent.Format(time.StampMilli), code, answer, w.answered.Sub(w.sent))
		}
	}
	return known
}

// stored is an object in the store.
type stored struct {
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	Data struct{ Token string }
	Spec struct{ Image, Description, Condition string }
}

// list lists the objects of a kind at a server, again until it answers.
func (s *soak) list(t *testing.T, url, path string) (items []stored) {
	t.Helper()
	poll.Eventually(t, "a list of "+path, func() string {
		code, answer, err := s.admin(url).send(t.Context(), http.MethodGet, path, "", http.NoBody)
		var list struct{ Items []stored }
		if err = errors.Join(err, json.Unmarshal([]byte(answer), &list)); err != nil || code != http.StatusOK {
			return fmt.Sprintf("%d %v %.300s", code, err, answer)
		}
		items = list.Items
		return ""
	})
	return items
}

// verify compares what each server reads from the store with the ledger, and the policies with those that were last in effect.
func (s *soak) verify(t *testing.T, when string) {
	t.Helper()
	for _, server := range append(s.nodes, s.replicas...) {
		for _, k := range kinds {
			if server.Kind == "proviso-apiserver" && k == mapKind {
				continue
			}
			s.compare(t, when+", read by "+server.Name, k, s.list(t, server.URL, k.path))
		}
		conditions, generation, sealed := map[string]string{}, fmt.Sprintf("'%d'", s.history.current), fmt.Sprintf("'%d'", s.sealed)
		if !poll.Until(t.Context(), 30*time.Second, func() bool { // a Deny policy that is being deleted waits until its barrier is gone
			clear(conditions)
			for _, policy := range s.list(t, server.URL, policiesPath) {
				conditions[policy.Metadata.Name] = policy.Spec.Condition
			}
			return len(conditions) == 5 && strings.Contains(conditions["generations"], generation) && strings.Contains(conditions["sealed"], sealed)
		}) {
			s.tally.fail(t, lost, "%s, read by %s: the policies are %v, want generations %s and sealed %s", when, server.Name, conditions, generation, sealed)
		}
	}
}

func (s *soak) compare(t *testing.T, when string, k kind, items []stored) {
	t.Helper()
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	seen := map[string]bool{}
	for _, item := range items {
		name, token := item.Metadata.Name, cmp.Or(item.Data.Token, item.Spec.Image, item.Spec.Description)
		o := s.ledger.objects[k.name+"/"+name]
		seen[name] = true
		switch {
		case name == "kube-root-ca.crt":
		case o == nil:
			s.tally.fail(t, wrong, "%s: the %s %s with %s is stored, but no acknowledged write has left it there", when, k.name, name, token)
		case o.pending != nil && o.pending.token == token:
			if w := o.pending; w.by.judge(w.value, w.sent, w.answered.Add(time.Minute)) == mustBeRefused {
				s.tally.fail(t, wrong, "%s: the %s %s has what %s wrote with %q, which got no answer, and which no policy allowed", when, k.name, name, w.by.name, w.value)
			}
		case o.acked == nil || o.acked.token != token:
			s.tally.fail(t, lost, "%s: the %s %s has %s, not the acknowledged %s or the pending %s", when, k.name, name, token, o.acked, o.pending)
		}
	}
	for _, o := range s.ledger.objects {
		if mayBeGone := o.acked == nil || o.pending != nil && o.pending.verb == http.MethodDelete; o.kind == k && !mayBeGone && !seen[o.name] {
			s.tally.fail(t, lost, "%s: the %s %s is lost, which %s wrote at %s", when, k.name, o.name, o.acked.by.name, o.acked.sent.Format(time.StampMilli))
		}
	}
}
