/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// enforcementOf returns where the rules of a policy are enforced, each place and result once, and the reason and the message of the
// condition Effective.
func (r *rig) enforcementOf(t *testing.T, policy string) string {
	t.Helper()
	const columns = `{range .status.enforcement[*]}{.at}={.result}{"\n"}{end}{.status.conditions[?(@.type=="Effective")].reason}: {.status.conditions[?(@.type=="Effective")].message}`
	output := r.MustKubectl(t, "get", "clusterauthorizationpolicy", policy, "--output=jsonpath="+columns)
	return strings.Join(slices.Compact(strings.Split(output, "\n")), " ")
}

// testStatus reads where policies are enforced, and the warnings at writes of policies and in the answers to reviews.
func testStatus(t *testing.T, r *rig) {
	for policy, want := range map[string]string{
		"dana-dev-claims": "InnerDoor=Enforced Enforced: ", "dana-widgets": "InnerDoor=Enforced Enforced: ",
		"dana-tokens": "InnerDoor=Enforced Enforced: ", "dana-reads": "FrontDoor=Enforced Enforced: ",
	} {
		got := ""
		poll.Holds(t, policy+" is "+want, func() bool { got = r.enforcementOf(t, policy); return strings.HasPrefix(got, want) })
	}
	const warned = "testdata/status.yaml"
	output := r.MustKubectl(t, "apply", "-f", warned)
	for policy, want := range map[string][2]string{
		"status-selector":   {"rules[0] (deletecollection configmaps): the condition reads the path or a selector of the request", "InnerDoor=GrantsNothing GrantsNothing: "},
		"status-not-listed": {"rules[0] (create pods): the inner door is not configured for these writes", "FrontDoor=GrantsNothing GrantsNothing: "},
		"status-deny":       {"rules[0] (create secrets): kube-apiserver does not call the inner door for requests that another authorizer allows", "FrontDoor=DeniesUnconditionally DeniesUnconditionally: "},
	} {
		if !strings.Contains(output, "Warning: spec."+want[0]) {
			t.Errorf("%s: the write has no warning with %q:\n%s", policy, want[0], output)
		}
		poll.Holds(t, policy+" is "+want[1], func() bool { return strings.HasPrefix(r.enforcementOf(t, policy), want[1]+want[0]) })
	}
	for review, want := range map[[2]string]string{
		{"dana", "persistentvolumeclaims"}: "", {"nina", "pods"}: "does not enforce conditions on create pods", {"nina", "secrets"}: "a condition could deny",
	} {
		output, err := r.Kubectl(t.Context(), strings.NewReplacer("USER", review[0], "RESOURCE", review[1]).Replace(plane.TestData(t, "status-review.yaml")), "create", "-f", "-", "--output=yaml")
		if err != nil || !strings.Contains(output, "conditionsChain") || !strings.Contains(output, want) || strings.Contains(output, "Warning:") != (want != "") {
			t.Errorf("the review about %s: got %v\n%s\nwant the warning %q", review, err, output, want)
		}
	}
	r.MustKubectl(t, "delete", "-f", warned)
}
