/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// becomes waits until carol's request is "allowed", "warned" or "denied", and returns how long it took.
func (r *rig) becomes(t *testing.T, state string) time.Duration {
	t.Helper()
	began := time.Now()
	r.runner().Await(t, table(t, "host-network.yaml").Rows[state][0])
	return time.Since(began)
}

// is expects carol's request to be "allowed" or "denied".
func (r *rig) is(t *testing.T, state string) {
	t.Helper()
	r.runner().Run(t, table(t, "host-network.yaml").Rows[state])
}

// tells waits until an event is about an object, and has a reason.
func (r *rig) tells(t *testing.T, event string) {
	t.Helper()
	poll.Eventually(t, "an event tells", func() string {
		got := r.MustKubectl(t, "get", "events", "-n=default", "-o=jsonpath={range .items[*]}{.involvedObject.kind} {.involvedObject.name} {.reason}\n{end}")
		if !strings.Contains(got, event) {
			return got
		}
		return ""
	})
}

// testController follows a Deny policy from its creation to its deletion, on a cluster whose kube-apiserver knows nothing of Proviso.
func testController(t *testing.T, r *rig) {
	t.Helper()
	r.MustApply(t, plane.TestData(t, "writer.yaml"))
	r.becomes(t, "allowed")
	r.MustApply(t, table(t, "host-network.yaml").Manifest())
	t.Logf("a written policy denies %s after it is ready", r.becomes(t, "denied"))
	r.effective(t, "clusterauthorizationpolicy/host-network")
	got := r.MustKubectl(t, "get", "clusterauthorizationpolicy/host-network", "-o=jsonpath={.status.enforcement[*]['at','result','message']}")
	if !strings.HasPrefix(got, "Barrier Enforced ") || !regexp.MustCompile(`at most \d+ms for an object of 256 KiB$`).MatchString(got) {
		t.Errorf("got the status %q", got)
	}
	r.tells(t, "ClusterAuthorizationPolicy host-network BarrierWritten")
	r.MustKubectl(t, "patch", "clusterauthorizationpolicy/host-network", "--type=merge", `-p={"spec":{"enforcement":"Audit"}}`)
	r.becomes(t, "warned")
	r.MustKubectl(t, "patch", "clusterauthorizationpolicy/host-network", "--type=merge", `-p={"spec":{"enforcement":"Enforce"}}`)
	r.becomes(t, "denied")
	name := "validatingadmissionpolicy/host-network.cluster.policy.proviso.dev"
	r.MustKubectl(t, "patch", name, "--type=merge", `-p={"spec":{"validations":[{"expression":"true"}]}}`)
	took := poll.Eventually(t, "a change is undone", func() string {
		got := r.MustKubectl(t, "get", name, "-o=jsonpath={.spec.validations[0].expression}")
		if got == "true" {
			return got
		}
		return ""
	})
	t.Logf("a change of others is undone after %s", took)
	r.tells(t, "ClusterAuthorizationPolicy host-network BarrierRestored")
	r.MustKubectl(t, "delete", "clusterauthorizationpolicy/host-network", "--timeout=1m")
	if got, err := r.Kubectl(t.Context(), "", "get", name); err == nil {
		t.Errorf("the policy is gone before its barrier: %s", got)
	}
	t.Logf("a deleted policy denies nothing after %s", r.becomes(t, "allowed"))
	r.MustDelete(t, plane.TestData(t, "writer.yaml"))
}
