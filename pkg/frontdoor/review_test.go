/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/frontdoor"
)

// TestTooLongIsAnsweredByItsLength sends no body: over HTTP/2, which kube-apiserver uses, the answer
// does not wait for it.
func TestTooLongIsAnsweredByItsLength(t *testing.T) {
	t.Parallel()
	ask := listen(t, newDoor(t, publish(t, never), enforcesMachines))
	reader, writer := io.Pipe()
	t.Cleanup(func() { _ = writer.Close() })
	r := post("")
	r.Body, r.ContentLength = reader, 256<<10+1
	if got := ask(r); got.code != http.StatusOK || !strings.Contains(got.body, tooLong.Reason) || !strings.Contains(got.body, `"denied":true`) {
		t.Errorf("got %+v, want denied", got)
	}
	if got := ask(post(reviewJSON)); got.code != http.StatusOK {
		t.Errorf("the next on the connection: got %+v", got)
	}
}

// TestSlowBodyIsDenied sends a part of a large review, and asks that this does not hold up the
// answer for as long as kube-apiserver waits. The connection stays usable.
func TestSlowBodyIsDenied(t *testing.T) {
	t.Parallel()
	ask := listen(t, newDoor(t, publish(t, always), enforcesMachines))
	reader, writer := io.Pipe()
	t.Cleanup(func() { _ = writer.Close() })
	go func() { _, _ = io.WriteString(writer, reviewJSON) }()
	r := post("")
	r.Body, r.ContentLength = reader, largeBytes
	if got := ask(r); got.code != http.StatusOK || !strings.Contains(got.body, reasonTooLate) || !strings.Contains(got.body, `"denied":true`) {
		t.Errorf("got %+v, want denied", got)
	}
	if got := ask(review("alice", "c", largeBytes)); got.code != http.StatusOK || !strings.Contains(got.body, `"allowed":true`) {
		t.Errorf("the next large one: got %+v", got)
	}
}

// TestTooLongIsAnsweredOverHTTP1 sends all of a long body before it reads the answer.
func TestTooLongIsAnsweredOverHTTP1(t *testing.T) {
	t.Parallel()
	s := newListener(t, newDoor(t, publish(t, never), enforcesMachines))
	client := s.client(t, s.clientPair(t, "kube-apiserver"))
	client.Transport.(*http.Transport).ForceAttemptHTTP2 = false
	for range 3 {
		response, err := client.Post("https://"+s.address+frontdoor.AuthorizePath, "application/json", strings.NewReader(strings.Repeat(" ", 8<<20)))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.ProtoMajor != 1 || response.StatusCode != http.StatusOK || !strings.Contains(string(body), tooLong.Reason) {
			t.Errorf("got %s %d %s, %v, want denied", response.Proto, response.StatusCode, body, err)
		}
	}
}

// denseReview is one of the longest reviews, with as many requirements as fit it.
func denseReview() string {
	return `{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "alice", "resourceAttributes": {"verb": "list", "version": "v1", "resource": "pods",
	  "labelSelector": {"requirements": [` + strings.Repeat(`{"key":"b","operator":"DoesNotExist"},`, 6_400) + `{"key":"b","operator":"Exists"}]}}}}`
}

// TestSelectorsAreDecodedOnlyIfNeeded counts allocations, of which each requirement that is decoded
// or parsed causes some.
//
//nolint:paralleltest // allocations of other tests would count
func TestSelectorsAreDecodedOnlyIfNeeded(t *testing.T) {
	const requirements = 6_400
	for _, tc := range []struct {
		name     string
		policies map[string]policy
		needed   bool
		denied   bool
	}{
		{name: "no policy"},
		{name: "an unconditional Deny", policies: never, denied: true},
		{name: "an unconditional Deny beside a condition that reads them", policies: map[string]policy{"a": readsLabels["p"], "z": never["p"]}, denied: true},
		{name: "a condition on something else", policies: ofTheName},
		{name: "a condition that reads them", policies: readsLabels, needed: true, denied: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newListener(t, newDoor(t, publish(t, tc.policies), enforcesMachines))
			state, body := s.state(t, "kube-apiserver"), denseReview()
			var answer string
			allocations := testing.AllocsPerRun(1, func() {
				recorder, r := httptest.NewRecorder(), post(body)
				r.TLS = state
				s.handler.ServeHTTP(recorder, r)
				answer = recorder.Body.String()
			})
			if (allocations > requirements) != tc.needed || strings.Contains(answer, `"denied":true`) != tc.denied {
				t.Errorf("got %s after %.0f allocations, want denied: %t, that selectors are decoded: %t", answer, allocations, tc.denied, tc.needed)
			}
		})
	}
}

// BenchmarkLargeReview is the cost of a large review, by whether a policy reads its selector.
func BenchmarkLargeReview(b *testing.B) {
	for name, policies := range map[string]map[string]policy{"selector=unread": never, "selector=read": readsLabels} {
		b.Run(name, func(b *testing.B) {
			s := newListener(b, newDoor(b, publish(b, policies), enforcesMachines))
			client, body := s.client(b, s.clientPair(b, "kube-apiserver")), denseReview()
			for b.Loop() {
				response, err := client.Post("https://"+s.address+frontdoor.AuthorizePath, "application/json", strings.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
		})
	}
}
