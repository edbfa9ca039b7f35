/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/proviso-authz/proviso/pkg/cluster"
)

// TestEach probes 33 servers, each for a second, sixteen at a time.
func TestEach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var addresses, want []string
		for i := range 33 {
			addresses = append(addresses, strconv.Itoa(i))
		}
		want = slices.Sorted(slices.Values(addresses))
		var mu sync.Mutex
		var probed []string
		began := time.Now()
		cluster.Each(t.Context(), addresses, func(_ context.Context, address string) {
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			probed = append(probed, address)
		})
		slices.Sort(probed)
		if !slices.Equal(probed, want) {
			t.Errorf("probed %v, want each server once", probed)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("took %v, want three turns of a second", took)
		}
	})
}

// sender has a client for every server.
func sender(t *testing.T, client *http.Client) *cluster.Cluster {
	t.Helper()
	return newCluster(t, cluster.Config{Client: func(string) (*http.Client, error) { return client, nil }})
}

// TestSend reads the answers to probes.
func TestSend(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, body string
		code       int
		passed     bool
		err        error
	}{
		{name: "created", code: http.StatusCreated, body: `{"kind": "Lease"}`, passed: true},
		{name: "it exists", code: http.StatusConflict, body: `{"kind": "Status", "reason": "AlreadyExists"}`, passed: true},
		{name: "refused", code: http.StatusForbidden, body: `{"kind": "Status", "reason": "Forbidden", "message": "no"}`},
		{name: "a refusal that says success", code: http.StatusForbidden, body: `{"kind": "Status", "status": "Success"}`},
		{name: "a proxy's page", code: http.StatusBadGateway, body: "<html>", err: cluster.ErrNoStatus},
		{name: "an answer that is too long", code: http.StatusForbidden, body: `{"message": "` + strings.Repeat("a", 1<<20) + `"}`, err: cluster.ErrNoStatus},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.code)
				_, _ = w.Write([]byte(tc.body))
			}))
			t.Cleanup(server.Close)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			status, err := sender(t, server.Client()).Send(request, nil)
			if !errors.Is(err, tc.err) || err == nil && (cluster.Passed(status) != tc.passed || status.Code != int32(tc.code)) { //nolint:gosec // a status code
				t.Errorf("got %+v and %v", status, err)
			}
		})
	}
}

// TestSendToNobody checks that errors have no URL.
func TestSendToNobody(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/nonce", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sender(t, http.DefaultClient).Send(request, nil); err == nil || strings.Contains(err.Error(), "nonce") {
		t.Errorf("got %v", err)
	}
}

// TestShortened checks that messages have one line and at most 256 bytes.
func TestShortened(t *testing.T) {
	t.Parallel()
	if got := cluster.Shortened("a\nb\u2028c"); got != "a b c" {
		t.Errorf("got %q", got)
	}
	if got := cluster.Shortened(strings.Repeat("ü", 200)); len(got) > 256 || !strings.HasSuffix(got, "ü…") {
		t.Errorf("got %q", got)
	}
}
