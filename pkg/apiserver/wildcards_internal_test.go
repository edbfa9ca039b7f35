/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// TestHasWildcard has checks of authors' permissions, as rules of policies lead to them. Versions and names are omitted in most rules.
func TestHasWildcard(t *testing.T) {
	t.Parallel()
	resource := authorizer.AttributesRecord{Verb: "list", APIVersion: "*", Resource: "configmaps", ResourceRequest: true}
	for name, tc := range map[string]struct {
		change func(*authorizer.AttributesRecord)
		want   bool
	}{
		"no wildcard":   {func(*authorizer.AttributesRecord) {}, false},
		"a name":        {func(a *authorizer.AttributesRecord) { a.Name = "*" }, false},
		"all verbs":     {func(a *authorizer.AttributesRecord) { a.Verb = "*" }, true},
		"all groups":    {func(a *authorizer.AttributesRecord) { a.APIGroup = "*" }, true},
		"all resources": {func(a *authorizer.AttributesRecord) { a.Resource = "*" }, true},
		"subresources":  {func(a *authorizer.AttributesRecord) { a.Subresource = "*" }, true},
		"a path":        {func(a *authorizer.AttributesRecord) { *a = authorizer.AttributesRecord{Verb: "get", Path: "/metrics"} }, false},
		"paths": {func(a *authorizer.AttributesRecord) {
			*a = authorizer.AttributesRecord{Verb: "get", Path: "/metrics/*"}
		}, true},
		"verbs of paths": {func(a *authorizer.AttributesRecord) { *a = authorizer.AttributesRecord{Verb: "*", Path: "/metrics"} }, true},
	} {
		check := resource
		tc.change(&check)
		if got := hasWildcard(check); got != tc.want {
			t.Errorf("%s: got %t, want %t", name, got, tc.want)
		}
	}
}
