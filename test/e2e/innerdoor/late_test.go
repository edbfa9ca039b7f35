/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// manyLate is how many bodies are held back at a time for each user.
const manyLate = 100

// maxAtOnce is how many of them reach the inner door at a time. It refuses a user's reviews in one namespace with 429 if more wait.
const maxAtOnce = 40

const lateSecrets = "/api/v1/namespaces/own/secrets"

func lateSecret(user string, i int) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "late-%s-%d"}}`, user, i)
}

// held are requests of a user that have been authorized, and whose bodies are held back.
type held struct {
	rig   *rig
	user  string
	rests []func()
	done  []chan struct{}
	codes []int
	all   sync.WaitGroup
}

// questions returns how often kube-apiserver has asked the front door about a user, without the questions that come from Proviso.
func (r *rig) questions(user string, about func(*authorizationv1.ResourceAttributes) bool) (n int) {
	r.proxy.mu.Lock()
	defer r.proxy.mu.Unlock()
	for _, spec := range r.proxy.asked {
		if _, isMarked := spec.Extra[authorization.DelegationMarker]; spec.User == user && !isMarked && spec.ResourceAttributes != nil && about(spec.ResourceAttributes) {
			n++
		}
	}
	return n
}

// hold sends requests to create secrets, and returns when all have been authorized. Those of lara are sent in chunks over HTTP/1.1, all others
// over HTTP/2.
func (r *rig) hold(t *testing.T, user string, n int) *held {
	t.Helper()
	sender := r.Sender
	if user == "lara" {
		admin, err := r.Client(cluster.Admin)
		if err != nil {
			t.Fatal(err)
		}
		admin.NextProtos = []string{"http/1.1"}
		sender = requests.NewSender(admin, nil)
	}
	as := &requests.User{Name: user, Groups: []string{"late"}}
	creates := func(a *authorizationv1.ResourceAttributes) bool { return a.Verb == "create" && a.Version == "v1" }
	h, before := &held{rig: r, user: user, codes: make([]int, n)}, r.questions(user, creates)
	for i := range n {
		body, rest := io.Pipe()
		text := lateSecret(user, i)
		h.rests = append(h.rests, func() {
			_, _ = io.WriteString(rest, text[5:])
			_ = rest.Close()
		})
		done := make(chan struct{})
		h.done = append(h.done, done)
		h.all.Go(func() {
			defer close(done)
			answer, err := sender.Do(t.Context(), as, requests.Request{Method: "POST", Path: lateSecrets, ContentType: jsonType, Body: body})
			if err != nil {
				t.Error(err)
				_ = body.CloseWithError(err)
				return
			}
			h.codes[i] = answer.Code
		})
		go func() { _, _ = io.WriteString(rest, text[:5]) }()
	}
	poll.Holds(t, "the requests of "+user+" are authorized", func() bool { return r.questions(user, creates)-before >= n })
	time.Sleep(time.Second) // kube-apiserver has its answers
	return h
}

// release sends the rest of the bodies.
func (h *held) release() {
	h.rig.proxy.take(h.user)
	turns := make(chan struct{}, maxAtOnce)
	for i, rest := range h.rests {
		turns <- struct{}{}
		go func() {
			rest()
			<-h.done[i]
			<-turns
		}()
	}
}

// testRefused waits for the answers. The inner door must have refused all requests.
func (h *held) testRefused(t *testing.T) {
	t.Helper()
	h.all.Wait()
	for i, code := range h.codes {
		if code != http.StatusForbidden {
			t.Errorf("%s, body %d: got %d, want 403", h.user, i, code)
		}
	}
	if calls := h.rig.proxy.take(h.user); len(calls) != len(h.codes) {
		t.Errorf("%s: the inner door was called %d times, want %d", h.user, len(calls), len(h.codes))
	}
	if _, stored := h.rig.send(t, cluster.Admin, "GET", lateSecrets, "", ""); strings.Contains(stored, `"late-`+h.user+`-`) {
		t.Errorf("%s: a secret was stored", h.user)
	}
}

// awaitLate waits until users get a code when they create a secret.
func (r *rig) awaitLate(t *testing.T, code int, users ...string) {
	t.Helper()
	for _, user := range users {
		poll.Eventually(t, user+" creates a secret", func() string {
			got, answer := r.Sender.Send(t, &requests.User{Name: user}, http.MethodPost, lateSecrets+"?dryRun=All", jsonType, lateSecret(user, -1))
			if got != code {
				return answer
			}
			return ""
		})
	}
}

// forget takes something away, and waits until users who had it are refused.
func (r *rig) forget(t *testing.T, args []string, users ...string) {
	t.Helper()
	r.MustKubectl(t, append([]string{"delete"}, args...)...)
	r.awaitLate(t, http.StatusForbidden, users...)
}

// lateFor is a body that takes nearly as long as kube-apiserver lets a request take.
const lateFor = 30 * time.Second

// holdForLong holds back one body for lateFor, and deletes the policy of its user meanwhile.
func (r *rig) holdForLong(t *testing.T) *held {
	t.Helper()
	r.MustApply(t, plane.TestData(t, "late.yaml"))
	r.awaitLate(t, http.StatusCreated, "lena", "lara", "lotte", "last", "rita")
	h := r.hold(t, "lotte", 1)
	time.AfterFunc(lateFor, h.rests[0])
	r.forget(t, []string{"clusterauthorizationpolicy", "late-lotte"}, "lotte")
	r.proxy.take("lotte")
	return h
}

// testManyLateBodies takes away what has authorized requests while their bodies are coming: one policy of a user, the only one of a user,
// and RBAC.
func testManyLateBodies(t *testing.T, r *rig) {
	lena, lara, rita := r.hold(t, "lena", manyLate), r.hold(t, "lara", manyLate), r.hold(t, "rita", manyLate)
	r.forget(t, []string{"clusterauthorizationpolicy", "late-lena", "late-lara"}, "lena", "lara")
	r.forget(t, []string{"clusterrolebinding", "late"}, "rita")
	for _, h := range []*held{lena, lara, rita} {
		h.release()
		h.testRefused(t)
	}
}

// testLastPolicy deletes all policies while bodies are coming.
func testLastPolicy(t *testing.T, r *rig) {
	last := r.hold(t, "last", manyLate)
	r.forget(t, []string{"clusterauthorizationpolicies", "--all"}, "last")
	r.forget(t, []string{"authorizationpolicies", "--all", "--all-namespaces"})
	last.release()
	last.testRefused(t)
}
