/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package validation_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/apis/config"
	"github.com/proviso-authz/proviso/apis/config/validation"
)

func TestValidateInnerDoorConfiguration(t *testing.T) {
	t.Parallel()
	many := make([]string, config.MaxExcludedIdentities+1)
	for i := range many {
		many[i] = fmt.Sprintf("u%d", i)
	}
	for _, tc := range []struct {
		name   string
		change func(*config.InnerDoorConfiguration)
		want   []string
	}{
		{name: "valid", change: func(*config.InnerDoorConfiguration) {}},
		{name: "a file of certificates", change: func(c *config.InnerDoorConfiguration) { c.CABundle, c.CAFile = nil, "ca.crt" }},
		{name: "no certificates", change: func(c *config.InnerDoorConfiguration) { c.CABundle = nil }, want: []string{"caBundle: Required value"}},
		{name: "two bundles", change: func(c *config.InnerDoorConfiguration) { c.CAFile = "ca.crt" }, want: []string{"caFile: Forbidden"}},
		{name: "excluded identities", change: func(c *config.InnerDoorConfiguration) {
			c.ExcludedIdentities = config.ExcludedIdentities{Users: []string{"backup"}, Groups: []string{"system:nodes"}}
		}},
		{name: "identities without a name", change: func(c *config.InnerDoorConfiguration) {
			c.ExcludedIdentities = config.ExcludedIdentities{Users: []string{""}, Groups: []string{"g", "g"}}
		}, want: []string{"excludedIdentities.users[0]: Required value", "excludedIdentities.groups[1]: Duplicate value"}},
		{name: "a long name", change: func(c *config.InnerDoorConfiguration) {
			c.ExcludedIdentities.Users = []string{strings.Repeat("a", config.MaxIdentityBytes+1)}
		}, want: []string{"excludedIdentities.users[0]: Too long"}},
		{name: "many identities", change: func(c *config.InnerDoorConfiguration) { c.ExcludedIdentities.Groups = many }, want: []string{"excludedIdentities.groups: Too many"}},
		{name: "everybody", change: func(c *config.InnerDoorConfiguration) {
			c.ExcludedIdentities.Groups = []string{"system:authenticated"}
		}, want: []string{"excludedIdentities.groups[0]: Invalid value"}},
		{name: "relative paths", change: func(c *config.InnerDoorConfiguration) {
			c.KubeAPIServer.Directory, c.KubeAPIServer.ClientCertificate, c.KubeAPIServer.ClientKey = "a", "b", ""
		}, want: []string{"kubeAPIServer.directory: Invalid value", "kubeAPIServer.clientCertificate: Invalid value", "kubeAPIServer.clientKey: Invalid value"}},
		{name: "no failure policy", change: func(c *config.InnerDoorConfiguration) { c.KubeAPIServer.FrontDoorFailurePolicy = "" }, want: []string{"kubeAPIServer.frontDoorFailurePolicy: Required value"}},
		{name: "another failure policy", change: func(c *config.InnerDoorConfiguration) { c.KubeAPIServer.FrontDoorFailurePolicy = "Allow" }, want: []string{"kubeAPIServer.frontDoorFailurePolicy: Unsupported value"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := &config.InnerDoorConfiguration{CABundle: []byte("ca"), KubeAPIServer: config.KubeAPIServerConfiguration{
				Directory: "/etc/kubernetes/proviso", ClientCertificate: "/c.crt", ClientKey: "/c.key", FrontDoorFailurePolicy: config.FailurePolicyNoOpinion,
			}}
			tc.change(c)
			errs := validation.ValidateInnerDoorConfiguration(c)
			if len(errs) != len(tc.want) {
				t.Fatalf("got %v, want %q", errs, tc.want)
			}
			for i, want := range tc.want {
				if !strings.Contains(errs[i].Error(), want) {
					t.Errorf("got %v, want %q", errs[i], want)
				}
			}
		})
	}
}
