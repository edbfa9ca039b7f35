/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/proviso-authz/proviso/pkg/cluster"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
)

// newCluster returns a Cluster. Where config says nothing else, no server is listed, one is alive, and each has the usual client.
func newCluster(t *testing.T, config cluster.Config) *cluster.Cluster {
	t.Helper()
	if config.Servers == nil {
		config.Servers = func(context.Context) ([]string, error) { return nil, nil }
	}
	if config.Renewed == nil {
		config.Renewed = func(context.Context) ([]time.Time, error) { return []time.Time{time.Now()}, nil }
	}
	if config.Client == nil {
		config.Client = func(string) (*http.Client, error) { return http.DefaultClient, nil }
	}
	c, err := cluster.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answering returns a server that answers canaries by their nonce.
func answering(t *testing.T, answer func(nonce string) (code int, message string)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut || r.URL.Path != "/api/v1/namespaces/default/configmaps/proviso-conditions-canary" || r.URL.Query().Get("dryRun") != "All" || r.Header.Get("Impersonate-User") != innerdoor.CanaryUser {
			t.Errorf("not a canary: %s %s", r.Method, r.URL)
		}
		code, message := answer(r.Header.Get("Impersonate-Extra-Authorization.proviso.dev%2fcanary"))
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(&metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Message: message})
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestProblem(t *testing.T) {
	t.Parallel()
	answers := func(handles bool) func(string) (int, string) {
		return func(nonce string) (int, string) {
			return http.StatusForbidden, `configmaps "x" is forbidden: ` + innerdoor.ConditionsCanaryReason(nonce, handles)
		}
	}
	handler, other := answering(t, answers(true)), answering(t, answers(false))
	repeats := answering(t, func(string) (int, string) {
		return http.StatusForbidden, innerdoor.ConditionsCanaryReason("0123456789abcdef0123456789abcdef", true)
	})
	fails := answering(t, func(nonce string) (int, string) {
		return http.StatusInternalServerError, innerdoor.ConditionsCanaryReason(nonce, true)
	})
	allows := answering(t, func(nonce string) (int, string) { return http.StatusOK, innerdoor.ConditionsCanaryReason(nonce, true) })
	quotes := answering(t, func(nonce string) (int, string) {
		return http.StatusForbidden, innerdoor.ConditionsCanaryReason(nonce, true) + " is what a policy says"
	})
	for _, tc := range []struct {
		name          string
		servers       []string
		alive         int
		list, renewed error
		want          string
	}{
		{name: "one server", servers: []string{handler}, alive: 1},
		{name: "more servers than Leases", servers: []string{handler, handler + "/"}, alive: 1},
		{name: "a server without options", servers: []string{handler, other}, alive: 2, want: other},
		{name: "another nonce", servers: []string{repeats}, alive: 1, want: repeats},
		{name: "another code", servers: []string{fails}, alive: 1, want: fails},
		{name: "an allowed canary", servers: []string{allows}, alive: 1, want: allows},
		{name: "a text that quotes the reason", servers: []string{quotes}, alive: 1, want: quotes},
		{name: "a server that is not listed", servers: []string{handler}, alive: 2, want: "2 run, and the addresses of 1 are known"},
		{name: "no Leases", servers: []string{handler}, want: "none has renewed its Lease lately"},
		{name: "unreadable Leases", servers: []string{handler}, renewed: errors.New("forbidden"), want: "their Leases cannot be read"},
		{name: "an unreadable list", list: errors.New("forbidden"), alive: 1, want: "they cannot be listed"},
		{name: "no servers", alive: 1, want: "1 run, and the addresses of 0 are known"},
		{name: "many servers", servers: []string{other, repeats, fails, allows, quotes}, alive: 1, want: " and 2 more"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			now := testingclock.NewFakeClock(time.Unix(1e9, 0))
			prober := cluster.NewConditions(newCluster(t, cluster.Config{
				Servers: func(context.Context) ([]string, error) { return tc.servers, tc.list },
				Renewed: func(context.Context) ([]time.Time, error) {
					return slices.Repeat([]time.Time{now.Now()}, tc.alive), tc.renewed
				},
				Clock: now,
			}))
			if _, isProbed := prober.Problem(); isProbed {
				t.Error("it is known before the first round")
			}
			prober.Round(t.Context())
			got, isProbed := prober.Problem()
			if !isProbed || !strings.HasSuffix(got, tc.want) || tc.want == "" && got != "" {
				t.Errorf("got %q, %t, want %q", got, isProbed, tc.want)
			}
			now.SetTime(now.Now().Add(16 * time.Second))
			if got, _ := prober.Problem(); got == "" || slices.ContainsFunc(tc.servers, prober.Handles) {
				t.Error("the result counts for more than three intervals")
			}
		})
	}
}

// TestDowngrade notices a server that does not handle conditions any more, or is gone, with the next round.
func TestDowngrade(t *testing.T) {
	t.Parallel()
	handles := true
	server := answering(t, func(nonce string) (int, string) {
		return http.StatusForbidden, innerdoor.ConditionsCanaryReason(nonce, handles)
	})
	servers := []string{strings.Replace(server, "http://", "https://", 1)}
	prober := cluster.NewConditions(newCluster(t, cluster.Config{
		Servers: func(context.Context) ([]string, error) { return servers, nil },
		Client: func(string) (*http.Client, error) {
			return &http.Client{Transport: insecure{}}, nil
		},
	}))
	prober.Round(t.Context())
	if problem, _ := prober.Problem(); problem != "" || !prober.Handles(servers[0]) {
		t.Fatal(problem)
	}
	handles = false
	prober.Round(t.Context())
	if problem, _ := prober.Problem(); problem != servers[0] || prober.Handles(servers[0]) {
		t.Errorf("got %q after the downgrade", problem)
	}
	response := httptest.NewRecorder()
	prober.ServeHTTP(response, nil)
	want := "not every kube-apiserver is known to handle conditions: " + servers[0] + "\n" + servers[0] + ": not known: the server sends reviews without the options for conditions\n"
	if got := response.Body.String(); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// insecure sends requests to https without TLS.
type insecure struct{}

// RoundTrip implements http.RoundTripper.
func (insecure) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme = "http"
	return http.DefaultTransport.RoundTrip(r)
}
