/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor_test

import (
	"cmp"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/pkg/place"
)

// TestReviewThatPasses decides reviews of a POST that passes on a condition to the inner door. TestFilesOfAReview in test/architecture builds it with coverage, and
// counts the files with code that runs for each review.
func TestReviewThatPasses(t *testing.T) {
	t.Parallel()
	reviews, err := strconv.Atoi(cmp.Or(os.Getenv("PROVISO_REVIEWS"), "1"))
	if err != nil {
		t.Fatal(err)
	}
	source := publish(t, map[string]policy{"p": onVerbs(allow, `object.spec.a == "b"`, "create")})
	inner := newInnerDoor()
	inner.Known = func(*place.Client) bool { return true }
	door, err := frontdoor.New(frontdoor.Config{
		Policies: frontdoor.Policies{Chain: chainOf(t, source), Source: source}, KubeAPIServer: &others{}, Places: places{enforces: enforcesMachines, inner: inner}.table(),
	})
	if err != nil {
		t.Fatal(err)
	}
	send := listen(t, door)
	body := strings.NewReplacer(`"get"`, `"create"`, `"configmaps"`, `"services"`, `, "name": "c"`, "").Replace(reviewJSON)
	for range reviews {
		if got := send(post(body)); !strings.Contains(got.body, `"allowed":true`) {
			t.Fatalf("got %d %s", got.code, got.body)
		}
	}
}
