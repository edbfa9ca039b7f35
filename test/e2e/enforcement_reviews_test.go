/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// TestReviewsAboutCertainUsers applies the policy of the example for carol, and asks: in
// reviews, which are never stored, conditions hold like in everything else. It is not
// parallel: whoever asks whether bob may create reviews gets a folded answer meanwhile.
func TestReviewsAboutCertainUsers(t *testing.T) {
	example := readText(t, useCaseFile("reviews-about-certain-users", "policy.yaml"))
	apply(t, strings.NewReplacer("alice-reviews", "carol", "alice-team-reviews", "e2e-reviews").Replace(example))
	table := readRequests(t, "reviews-by-policy.yaml")
	apply(t, table.Manifest())
	runOnRoutes(t, table.Rows["routes"])
	(&requests.Runner{Sender: newSender(t, "admin")}).Run(t, table.Rows["kube"])
}
