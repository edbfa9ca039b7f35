/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// TestNodeAuthorizer makes requests as a node.
func TestNodeAuthorizer(t *testing.T) {
	t.Parallel()
	(&requests.Runner{Sender: newSender(t, "admin-direct")}).Run(t, readRequests(t, "nodes.yaml").Rows["all"])
}

// TestNodeAuthorizerInReviews asks about pods, which kube-apiserver serves, and which its
// own node authorizer does not let nodes update.
func TestNodeAuthorizerInReviews(t *testing.T) {
	t.Parallel()
	_, proviso := clients(t, "alice")
	pod := func(node string) []byte {
		return []byte(`{"apiVersion":"v1","kind":"Pod","spec":{"nodeName":"` + node + `"}}`)
	}
	u := updateReview{
		user: authenticationv1.UserInfo{Username: "system:node:e2e-one", Groups: []string{"system:nodes"}}, resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, kind: "Pod",
		before: pod("e2e-one"), sets: 1,
	}
	for node, want := range map[string]bool{"e2e-one": true, "e2e-two": false} {
		u.after = pod(node)
		if allowed, why := u.ask(t, proviso); allowed != want {
			t.Errorf("a pod on %s: got %t, %s; want %t", node, allowed, why, want)
		}
	}
}
