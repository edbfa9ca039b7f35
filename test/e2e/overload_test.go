/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// flood is a number of parallel requests, repeated, with a label selector of some length.
type flood struct {
	name     string
	selector string
	parallel int
	rounds   int
	// sampled says that eight requests of the flood are sent in a run that is not the full load.
	sampled bool
}

// dense is a selector of the length that has as many requirements as possible: kube-apiserver
// makes a review of it that is thirteen times as long.
func dense(length int) string { return strings.Repeat("!a,", length/3-1) + "!a" }

// sparse is a selector of the length with long values. The review of it is about as long.
func sparse(length int) string {
	values := make([]string, length/64)
	for i := range values {
		values[i] = fmt.Sprintf("%063d", i) // the same value twice counts once
	}
	return "a in (" + strings.Join(values, ",") + ")"
}

// floods are those that once got past a Deny policy, and their like.
var floods = []flood{
	{name: "400 kB", selector: sparse(400_000), parallel: 40, rounds: 20, sampled: true},
	{name: "270 kB", selector: sparse(270_000), parallel: 16, rounds: 20},
	{name: "reviews that are read", selector: sparse(200_000), parallel: 40, rounds: 20, sampled: true},
	{name: "reviews that are read, of many requirements", selector: dense(18_000), parallel: 40, rounds: 20},
	{name: "270 kB of many requirements", selector: dense(270_000), parallel: 16, rounds: 20},
	{name: "400 kB of many requirements", selector: dense(400_000), parallel: 40, rounds: 20},
}

// TestOverload has carol, to whom RBAC gives what a policy denies, list with long selectors from
// many connections, while bob asks for little. kube-apiserver must have an answer of the front
// door every time: it is set up to leave to RBAC what the front door does not answer in three
// seconds. `make overload` runs all of it.
func TestOverload(t *testing.T) {
	const namespace = "overload"
	inNamespace(t, namespace)
	mustKubectl(t, "admin", "create", "rolebinding", "reader-bob", "--role=reader", "--user=bob", "--namespace", namespace)
	mustKubectl(t, "admin", "create", "configmap", "closed", "--namespace", namespace)
	namespacedPolicy(t, namespace, "no-lists", `
  effect: Deny
  rules: [{verbs: [list], apiGroups: [""], resources: [configmaps]}]
`)
	apply(t, `{apiVersion: policy.proviso.dev/v1alpha1, kind: AuthorizationPolicy, metadata: {name: closed, namespace: overload}, spec: {effect: Deny, rules: [{verbs: [get], apiGroups: [""], resources: [configmaps], resourceNames: [closed]}]}}`)
	path := "/api/v1/namespaces/" + namespace + "/configmaps"
	carol, bob := newRequester(t, "carol"), newRequester(t, "bob")
	poll.Holds(t, "the policies are in force", func() bool {
		return carol.get(t, path, "") == http.StatusForbidden && bob.get(t, path+"/closed", "") == http.StatusForbidden
	})
	before := unanswered(t)
	for _, f := range floods {
		full := os.Getenv(loadEnv) != ""
		if !full {
			f.parallel, f.rounds = 8, 1
		}
		if full || f.sampled {
			t.Run(f.name, func(t *testing.T) { f.run(t, path, bob) })
		}
	}
	if after := unanswered(t); after != before {
		t.Errorf("kube-apiserver had no answer of the front door in time: its count went from %s to %s", before, after)
	}
	answered := mustKubectl(t, "admin-direct", "get", "--raw", "/metrics")
	t.Logf("times of the front door:\n%s", strings.Join(answeredPattern.FindAllString(answered, -1), "\n"))
}

// answeredPattern finds how many reviews the front door decided in a second and in all, and how
// many it denied by itself.
var answeredPattern = regexp.MustCompile(`(?m)^proviso_webhook_authorize_(duration_seconds_bucket\{[^}]*le="(1|5|\+Inf)"|undecided_total).*$`)

// run floods, and counts how both are answered.
func (f flood) run(t *testing.T, path string, bob *requester) {
	t.Helper()
	stop, finished := make(chan struct{}), make(chan []time.Duration)
	go func() { finished <- requestMeanwhile(t, bob, path, stop) }()
	// Each connection is of its own, as those of an attacker would be.
	requesters := make([]*requester, f.parallel)
	for i := range requesters {
		requesters[i] = newRequester(t, "carol")
	}
	started, codes := time.Now(), map[int]int{}
	for range f.rounds {
		var group sync.WaitGroup
		got := make([]int, f.parallel)
		for i, a := range requesters {
			group.Go(func() { got[i] = a.get(t, path, f.selector) })
		}
		group.Wait()
		for _, code := range got {
			codes[code]++
		}
	}
	took := time.Since(started)
	close(stop)
	times := <-finished
	if codes[http.StatusOK] > 0 || codes[http.StatusForbidden] == 0 {
		t.Errorf("got answers %v, want 403 and not one 200", codes)
	}
	if len(times) == 0 {
		t.Fatal("bob was not answered once")
	}
	slices.Sort(times)
	t.Logf("%d rounds of %d requests with a selector of %d bytes in %s: %v; meanwhile %d small requests of another user: p50 %s, p99 %s, longest %s", f.rounds, f.parallel,
		len(f.selector), took.Round(time.Millisecond), codes, len(times), times[len(times)/2].Round(time.Millisecond), times[len(times)*99/100].Round(time.Millisecond), times[len(times)-1].Round(time.Millisecond))
}

// requestMeanwhile gets a ConfigMap that bob may read and for one that a policy keeps from him,
// in turn, and returns how long the answers took.
func requestMeanwhile(t *testing.T, bob *requester, path string, stop <-chan struct{}) []time.Duration {
	t.Helper()
	var times []time.Duration
	for {
		for name, want := range map[string]int{"c": http.StatusOK, "closed": http.StatusForbidden} {
			started := time.Now()
			if got := bob.get(t, path+"/"+name, ""); got != want {
				t.Errorf("bob gets %q: got %d, want %d", name, got, want)
			}
			times = append(times, time.Since(started))
		}
		select {
		case <-stop:
			return times
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// requester sends requests to kube-apiserver over a connection of its own.
type requester struct{ client *http.Client }

func newRequester(t *testing.T, user string) *requester {
	t.Helper()
	c := config(t, user)
	c.Dial = (&net.Dialer{}).DialContext // keeps the transport from being shared
	client, err := rest.HTTPClientFor(c)
	must(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return &requester{client}
}

// get gets a path, with a label selector if there is one, and returns the status code. A client
// of client-go would escape the selector.
func (r *requester) get(t *testing.T, path, selector string) int {
	t.Helper()
	target, err := url.Parse(stack.KubeAPIServerURL() + path)
	if err != nil {
		t.Error(err)
		return 0
	}
	if selector != "" {
		target.RawQuery = "labelSelector=" + strings.ReplaceAll(selector, " ", "+")
	}
	request := (&http.Request{Method: http.MethodGet, URL: target, Header: http.Header{}}).WithContext(context.WithoutCancel(t.Context()))
	response, err := r.client.Do(request)
	if err != nil {
		var withURL *url.Error
		if errors.As(err, &withURL) {
			err = withURL.Err // the URL has some hundred kilobytes
		}
		t.Error(err)
		return 0
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Error(err)
	}
	return response.StatusCode
}

var unansweredPattern = regexp.MustCompile(`(?m)^apiserver_authorization_webhook_evaluations_fail_open_total\{[^}]*name="proviso.front-door"[^}]*\} .*$`)

// unanswered returns how often kube-apiserver went on without an answer of the front door, in
// the words of its metrics.
func unanswered(t *testing.T) string {
	t.Helper()
	return strings.Join(unansweredPattern.FindAllString(mustKubectl(t, "admin", "get", "--raw", "/metrics"), -1), "\n")
}
