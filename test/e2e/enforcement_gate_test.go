/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/test/testutil/cases"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// TestEnforcementWithTheGateOff makes the requests of the table at a server without the
// feature gate ConditionalAuthorization. Requests that are decided without conditions end as
// they do with it; all others are refused. What is decided without conditions is what another
// server, with the gate, answers who does not ask for any. It tries a third of the sets, or all with all cases.
func TestEnforcementWithTheGateOff(t *testing.T) {
	t.Parallel()
	var urls []string
	for _, args := range [][]string{nil, {"--feature-gates=ConditionalAuthorization=false"}} {
		url := startReplica(t, args...)
		urls = append(urls, url)
	}
	at := func(url, user string) versioned.Interface {
		return stack.ClientAt(t, user+"-direct", url)
	}
	kube, err := kubernetes.NewForConfig(config(t, "admin"))
	must(t, err)
	x := &table{sets: readTable(t), kube: kube, proviso: at(urls[0], "admin"), clients: map[string]versioned.Interface{}}
	for _, user := range []string{"alice", "bob", "carol"} {
		x.clients[user] = at(urls[1], user)
	}
	sets := cases.Sample(x.sets, 3)
	var with, without atomic.Int32 // conditions
	t.Run("sets", func(t *testing.T) {
		for _, set := range sets {
			set.elsewhere("gate-")
			t.Run(set.Set, func(t *testing.T) {
				t.Parallel()
				x.install(t, set)
				x.settleGate(t, at(urls[1], "admin"), set)
				for _, row := range set.Rows {
					switch c := (&tableCase{tableRow: row, set: set, route: "off"}); {
					case row.By == "kubectl": // has no context for this server
					case x.runGate(t, c):
						without.Add(1)
					default:
						with.Add(1)
					}
				}
			})
		}
	})
	if without.Load() < 5 || with.Load() < 50 {
		t.Errorf("%d requests were decided without conditions, and %d on them: the table proves little", without.Load(), with.Load())
	}
}

// elsewhere moves a set to other namespaces, so that it can be in force twice.
func (s *tableSet) elsewhere(prefix string) {
	before := s.Set
	s.Set = prefix + before
	for i := range s.Policies {
		p := &s.Policies[i]
		p.Condition = strings.ReplaceAll(p.Condition, `"table-`+before+`"`, `"table-`+s.Set+`"`)
		if p.Cluster {
			p.Name = prefix + p.Name
		}
	}
}

// runGate makes one request without the gate, and reports whether no condition decided it.
func (x *table) runGate(t *testing.T, c *tableCase) (unconditional bool) {
	t.Helper()
	x.prepare(t, c)
	want, _ := c.wanted()
	if unconditional = x.unconditional(t, c); !unconditional {
		want = outcomeForbidden
	}
	before := x.state(t, c)
	outcome, message := c.make(t, x.clients[c.As].DemoV1alpha1().RESTClient(), c.As)
	if outcome != want {
		t.Errorf("%s: the request was %s, want %s: %s", c.Name, outcome, want, message)
	}
	if outcome == outcomeForbidden {
		x.checkState(t, c, nil, before, outcome)
	}
	return unconditional
}

// unconditional reports whether everything that a request needs is allowed without conditions.
func (x *table) unconditional(t *testing.T, c *tableCase) bool {
	t.Helper()
	var data []admitted
	if c.decides() {
		data = x.admittedOf(t, c)
	}
	if len(data) == 0 { // nothing comes to admission; the verb has to be allowed all the same
		data = []admitted{{subresource: c.Sub, checks: []check{c.firstCheck()}}}
	}
	for _, o := range data {
		for _, q := range o.checks {
			if !x.askAdmin(t, c, c.attributes(o, q), nil).Allowed {
				return false
			}
		}
	}
	return true
}

// firstCheck is what is asked before anything of the object is known.
func (c *tableCase) firstCheck() check {
	if c.Do == "client-apply" && c.Old != nil {
		return check{verb: "patch", name: c.object()}
	}
	switch c.Do {
	case "create", "client-apply":
		return check{verb: "create"}
	case "deletecollection", "list", "watch":
		return check{verb: c.Do}
	case "update", "delete", "get":
		return check{verb: c.Do, name: c.object()}
	default:
		return check{verb: "patch", name: c.object()}
	}
}

// settleGate waits until the policies of a set have arrived at the other server.
func (x *table) settleGate(t *testing.T, off versioned.Interface, set *tableSet) {
	t.Helper()
	other, rows := &table{proviso: off}, set.Rows
	poll.Holds(t, "policies of "+set.Set, func() bool {
		for ; len(rows) > 0; rows = rows[1:] {
			row := rows[0]
			c := &tableCase{tableRow: row, set: set, route: "off"}
			q := c.firstCheck()
			o := admitted{subresource: c.Sub}
			here, there := x.askAdmin(t, c, c.attributes(o, q), nil), other.askAdmin(t, c, c.attributes(o, q), nil)
			// Only the server with the gate can show the conditions, and says how.
			reason := strings.TrimSuffix(here.Reason, "; "+authorization.HowToSeeConditions)
			if here.Allowed != there.Allowed || here.Denied != there.Denied || reason != there.Reason {
				return false
			}
		}
		return true
	})
}
