/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"

	"github.com/proviso-authz/proviso/pkg/policy"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// TestEvents has policies stop working at three replicas, because another server takes over the group of their rules, and work again. kubectl describe shows
// one event for each, and none about an earlier policy with the name.
func TestEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t, cluster.Config{Managed: true, SharedStore: true}, (*cluster.Cluster).Up)
	for range 2 {
		_, stop, err := r.Replica(t.Context(), "--barriers", "--kube-apiserver-servers="+r.KubeAPIServerURL())
		t.Cleanup(stop)
		if err != nil {
			t.Fatal(err)
		}
	}
	manifest := plane.TestData(t, "events.yaml")
	r.MustApply(t, manifest)
	policies := []*described{
		{namespace: "default", args: []string{"clusterauthorizationpolicy/gears"}},
		{namespace: "gearbox", args: []string{"authorizationpolicy/gears", "--namespace=gearbox"}},
	}
	awaitEffective := func() {
		t.Helper()
		for _, p := range policies {
			r.effective(t, p.args...)
		}
	}
	awaitEffective()
	for _, p := range policies {
		p.uid = r.MustKubectl(t, append([]string{"get", "-o=jsonpath={.metadata.uid}"}, p.args...)...)
		if got := p.events(t, r); len(got) > 0 {
			t.Errorf("%v: a new policy has the events %v", p.args, got)
		}
	}
	r.MustKubectl(t, "replace", "-f", "testdata/other-server.yaml")
	for _, p := range policies {
		p.awaitDescribed(t, r, `Warning +NotEnforced .* proviso\.dev/policies.* The policy does not decide all requests`)
	}
	r.MustKubectl(t, "delete", "apiservice", "v1.gears.example.com")
	awaitEffective()
	for _, p := range policies {
		p.awaitDescribed(t, r, `Normal +Enforced .* proviso\.dev/policies.* The policy decides all requests`)
	}
	time.Sleep(time.Second) // by now other replicas would have sent theirs
	for _, p := range policies {
		if got := p.events(t, r); !slices.Equal(got, []string{"Warning NotEnforced", "Normal Enforced"}) {
			t.Errorf("%v: got the events %v", p.args, got)
		}
	}
	for _, p := range policies {
		r.MustKubectl(t, append([]string{"delete", "--timeout=1m"}, p.args...)...)
	}
	r.MustApply(t, manifest)
	for _, p := range policies {
		if got := r.MustKubectl(t, append([]string{"describe"}, p.args...)...); strings.Contains(got, "NotEnforced ") {
			t.Errorf("%v: another policy with the name has the events of the earlier one: %s", p.args, got)
		}
	}
}

// described is a policy that kubectl describes.
type described struct {
	namespace string // of its events
	args      []string
	uid       string
}

// awaitDescribed waits until kubectl describe shows an event.
func (p *described) awaitDescribed(t *testing.T, r *rig, event string) {
	t.Helper()
	poll.Eventually(t, event, func() string {
		got := r.MustKubectl(t, append([]string{"describe"}, p.args...)...)
		if !regexp.MustCompile(event).MatchString(got) {
			return got[max(0, len(got)-800):]
		}
		return ""
	})
}

// events returns the types and reasons of the events about whether the policy works, in their order. They have nothing of the policy but its name and kind.
func (p *described) events(t *testing.T, r *rig) (got []string) {
	t.Helper()
	var list eventsv1.EventList
	if err := json.Unmarshal([]byte(r.MustKubectl(t, "get", "events.v1.events.k8s.io", "--namespace="+p.namespace, "--sort-by=.eventTime", "-o=json")), &list); err != nil {
		t.Fatal(err)
	}
	for _, event := range list.Items {
		if event.ReportingController != policy.EventsController {
			continue
		}
		got = append(got, event.Type+" "+event.Reason)
		if string(event.Regarding.UID) != p.uid || event.Series != nil || strings.Contains(event.String(), "gears.example.com") || strings.Contains(event.String(), "frozen") {
			t.Errorf("got the event %v", event)
		}
	}
	return got
}
