/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/proviso-authz/proviso/pkg/cluster"
)

// TestNew needs everything but the defaults.
func TestNew(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*cluster.Config){
		"Servers": func(c *cluster.Config) { c.Servers = nil }, "Renewed": func(c *cluster.Config) { c.Renewed = nil },
		"Client": func(c *cluster.Config) { c.Client = nil }, "Interval": func(c *cluster.Config) { c.Interval = -1 },
	} {
		config := cluster.Config{
			Servers: func(context.Context) ([]string, error) { return nil, nil }, Renewed: func(context.Context) ([]time.Time, error) { return nil, nil },
			Client: func(string) (*http.Client, error) { return http.DefaultClient, nil },
		}
		if _, err := cluster.New(config); err != nil {
			t.Fatal(err)
		}
		change(&config)
		if _, err := cluster.New(config); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestClients makes the client of a server once, and again if it was not used for more than an hour.
func TestClients(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	made, clock := 0, testingclock.NewFakeClock(time.Now())
	c := newCluster(t, cluster.Config{Clock: clock, Client: func(string) (*http.Client, error) { made++; return http.DefaultClient, nil }})
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {time.Hour, 1}, {time.Hour, 1}, {time.Hour + time.Second, 2}} {
		clock.Step(step.after)
		if _, err := c.Send(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)); err != nil || made != step.want {
			t.Errorf("after %s: %d clients, %v, want %d", step.after, made, err, step.want)
		}
	}
}

// listeners is a canary that is sent to no server.
type listeners struct{}

func (listeners) Servers() []string             { return nil }
func (listeners) Probe(context.Context, string) {}

// TestOlderLook has two rounds read what there is: the answer to the earlier one, which arrives later, does not count.
func TestOlderLook(t *testing.T) {
	t.Parallel()
	clock, first, asked, answer := testingclock.NewFakeClock(time.Now()), true, make(chan struct{}), make(chan struct{})
	c := newCluster(t, cluster.Config{Clock: clock, Servers: func(context.Context) ([]string, error) {
		if !first {
			return []string{"https://new:443"}, nil
		}
		first = false
		close(asked)
		<-answer
		return []string{"https://old:443"}, nil
	}})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Round(t.Context(), listeners{}, time.Minute, 0)
	}()
	<-asked
	clock.Step(time.Second)
	c.Round(t.Context(), listeners{}, time.Minute, 0)
	close(answer)
	<-ended
	if got := c.State(); !slices.Equal(got.Listed, []string{"https://new:443"}) || !got.ListedAt.Equal(clock.Now()) {
		t.Errorf("got %+v", got)
	}
}
