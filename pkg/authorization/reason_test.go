/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// TestReasonEntries has texts of authors that look like an entry: they are part of the text of the entry that they are in.
func TestReasonEntries(t *testing.T) {
	t.Parallel()
	const cluster, namespaced = authorization.ClusterPolicyDomain + "/a", "demo" + authorization.NamespacedPolicyDomain + "/b"
	one := authorization.Explain(cluster, authorization.WordNotMet, "dev only; policy=c reason=Allowed: xpolicy=d reason=Denied: it allows", "failed part: object.a")
	two := authorization.Explain(namespaced, authorization.WordDenied)
	for _, tc := range []struct {
		reason string
		want   []authorization.ReasonEntry
	}{
		{reason: ""},
		{reason: "RBAC: nothing"},
		{reason: one, want: []authorization.ReasonEntry{{Name: "policy=a", Word: "NotMet", Text: "dev only; policy = c reason=Allowed: xpolicy = d reason=Denied: it allows: failed part: object.a"}}},
		{reason: one + "; " + two + "; and more", want: []authorization.ReasonEntry{
			{Name: "policy=a", Word: "NotMet", Text: "dev only; policy = c reason=Allowed: xpolicy = d reason=Denied: it allows: failed part: object.a"},
			{Name: "policy=demo/b", Word: "Denied", Text: "it denies the request; and more"},
		}},
		{reason: authorization.Explain("example.com/x", authorization.WordError, "a\nb"), want: []authorization.ReasonEntry{{Name: "condition=example.com/x", Word: "Error", Text: "a b"}}},
	} {
		if diff := cmp.Diff(tc.want, authorization.ReasonEntries(tc.reason)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
		}
	}
}
