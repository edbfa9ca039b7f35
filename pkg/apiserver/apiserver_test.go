/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver_test

import (
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// TestIncompleteConfigs lack what keeps the server closed.
func TestIncompleteConfigs(t *testing.T) {
	t.Parallel()
	chain, err := authorization.NewChain(authorization.Member{Name: "test", Decider: authorization.DeciderOf(authorizerfactory.NewAlwaysDenyAuthorizer())})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		change func(*apiserver.Config)
		want   string
	}{
		{"no chain for reviews", func(c *apiserver.Config) { c.ExtraConfig.Chains.Reviews = nil }, "has no authorizer"},
		{"no chain for requests", func(c *apiserver.Config) { c.GenericConfig.Authorization.Authorizer = nil }, "has no authorizer"},
		{"no source of policies", func(c *apiserver.Config) { c.ExtraConfig.Policies = nil }, "has no source of policies"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			config := &apiserver.Config{
				GenericConfig: genericapiserver.NewRecommendedConfig(apiserver.Codecs),
				ExtraConfig:   apiserver.ExtraConfig{Chains: apiserver.Chains{Reviews: chain, Requests: chain, Restrictions: chain}, Policies: &engine.Source{}},
			}
			config.GenericConfig.Authorization.Authorizer = chain
			tc.change(config)
			if _, err := config.Complete(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
