/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster_test

import (
	"context"
	"net/http"
	"testing"
	"time"

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
