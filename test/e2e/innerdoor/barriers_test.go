/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// goesOnMark is the mark of rows whose requests must pass all the time.
const goesOnMark = "goes on"

func locked(t *testing.T) map[string][]*requests.Row {
	t.Helper()
	return table(t, "locked.yaml", goesOnMark).Rows
}

// sendRow sends a row to a kube-apiserver. There is an error if there is no answer in time.
func (p *pair) sendRow(ctx context.Context, t *testing.T, server int, row *requests.Row) (*requests.Answer, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return p.runnerAt(server).Send(ctx, t, row)
}

// deny applies the policy that denies writes of objects with the label locked, and with another one.
func (p *pair) deny(t *testing.T, other string) {
	t.Helper()
	p.MustApply(t, strings.ReplaceAll(plane.TestData(t, "locked-policy.yaml"), "OTHER", other))
}

// wantRows compares the outcomes of all rows at a kube-apiserver. folded says that the policy denies all requests of its subjects.
func (p *pair) wantRows(t *testing.T, when string, server int, folded bool) {
	t.Helper()
	runner := p.runnerAt(server)
	runner.Want = func(row *requests.Row) *requests.Outcome {
		if folded && row.User.Name != "nina" {
			return &requests.Outcome{Code: http.StatusForbidden, Says: []string{"policy=locked reason=Error"}}
		}
		return &row.Outcome
	}
	t.Run(fmt.Sprintf("%s, server %d", when, server), func(t *testing.T) { runner.Run(t, locked(t)["locked"]) })
}

// never sends all rows that policies deny to both kube-apiservers again and again, until stop is called. None may pass.
func (p *pair) never(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	rows := locked(t)["locked"]
	var group sync.WaitGroup
	for server := range p.Servers {
		group.Go(func() {
			sent, passed := 0, 0
			for ctx.Err() == nil {
				for _, row := range rows {
					if row.Code < 400 {
						continue
					}
					answer, err := p.sendRow(ctx, t, server, row)
					if err == nil && answer.Code < 300 {
						if passed++; passed > 3 {
							continue
						}
						t.Errorf("server %d: passes: %s: %d %.300s", server, row, answer.Code, answer.Body)
					}
					if err == nil {
						sent++
					}
				}
				time.Sleep(250 * time.Millisecond)
			}
			if t.Logf("%d requests that policies deny were sent to kube-apiserver %d, %d passed", sent, server, passed); sent < 30 {
				t.Errorf("too few requests were sent to kube-apiserver %d", server)
			}
		})
	}
	return func() {
		cancel()
		group.Wait()
	}
}

// goesOn has a user whom RBAC allows write at the first kube-apiserver until stop is called. All writes must pass.
func (p *pair) goesOn(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	rows := slices.DeleteFunc(locked(t)["locked"], func(row *requests.Row) bool { return !row.Is(goesOnMark) })
	var group sync.WaitGroup
	group.Go(func() {
		writes := 0
		for ctx.Err() == nil {
			for _, row := range rows {
				answer, err := p.sendRow(ctx, t, 0, row)
				if ctx.Err() != nil {
					break
				}
				if writes++; err != nil || answer.Code != row.Code {
					t.Errorf("%s, of a user whom RBAC allows: got %+v, %v", row, answer, err)
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Logf("%d writes of a user whom RBAC allows were sent", writes)
	})
	return func() {
		cancel()
		group.Wait()
	}
}

// barrierIs waits until the details of readiness say something about the barrier of the policy, or nothing if it is active.
func (p *pair) barrierIs(t *testing.T, text string) {
	t.Helper()
	details := ""
	defer func() {
		if t.Failed() {
			t.Logf("the details are %s", details)
		}
	}()
	poll.Holds(t, "the state of the barrier is: "+text, func() bool {
		_, details = p.direct(t, "/readyz/barriers")
		_, state, found := strings.Cut(details, `ClusterAuthorizationPolicy "locked": `)
		return found == (text != "") && strings.Contains(state, text) && strings.Contains(details, "sentinel: number ")
	})
}

// forbidBarriers takes Proviso the permission to read and write barriers, until the returned function is called.
func (p *pair) forbidBarriers(t *testing.T) (giveBack func()) {
	t.Helper()
	roles := p.administrator(t).RbacV1().ClusterRoles()
	var stored []*rbacv1.ClusterRole
	for _, name := range []string{"proviso-apiserver", "proviso-apiserver:barriers"} {
		role, err := roles.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, role.DeepCopy())
		for i := range role.Rules {
			role.Rules[i].Resources = slices.DeleteFunc(role.Rules[i].Resources, func(resource string) bool { return strings.HasPrefix(resource, "validatingadmissionpolic") })
		}
		role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return len(rule.Resources) == 0 && len(rule.NonResourceURLs) == 0 })
		if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		for _, role := range stored {
			role.ResourceVersion = ""
			if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// deleteBinding deletes the binding of a barrier, and the finalizer that keeps it.
func (p *pair) deleteBinding(t *testing.T, name string) {
	t.Helper()
	bindings := p.administrator(t).AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	if _, err := bindings.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := bindings.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (p *pair) administrator(t *testing.T) kubernetes.Interface {
	t.Helper()
	config, err := p.Client(cluster.Admin)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestBarriersOfTwoServers brings the barrier of a conditional Deny into force on two kube-apiservers, beside conditional Allow policies, the
// inner door and RBAC. Before, meanwhile and afterwards no request passes that the policies deny.
func TestBarriersOfTwoServers(t *testing.T) {
	t.Parallel()
	p := newPair(t, func(c *cluster.Config) { c.Args = append(c.Args, "--barriers") })
	p.Start(t, p.Up)
	if err := p.Servers[1].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.prepare(t, "requests.yaml")
	rows := p.prepare(t, "locked.yaml", goesOnMark)
	p.begin(t, rows)
	p.passes(t, 0)
	p.passes(t, 1)

	// While one server is stalled, the barrier does not become active, and the policy denies all.
	if err := p.Servers[1].Stall(); err != nil {
		t.Fatal(err)
	}
	p.deny(t, "none")
	p.barrierIs(t, "pending: not loaded by https://"+p.wire.address)
	stop := p.never(t)
	p.wantRows(t, "before", 0, true)
	if err := p.Servers[1].Resume(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	p.barrierIs(t, "")
	t.Logf("the barrier was active %s after the second kube-apiserver went on", time.Since(began).Round(100*time.Millisecond))
	p.passes(t, 1) // its canaries
	for server := range p.Servers {
		p.wantRows(t, "after", server, false)
	}
	p.MustKubectl(t, "wait", "--for=condition=Effective", "--timeout=60s", "clusterauthorizationpolicy/locked")

	t.Run("a stalled server", func(t *testing.T) {
		goOn := p.goesOn(t)
		if err := p.Servers[1].Stall(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(8 * time.Second) // some rounds of probes
		p.barrierIs(t, "")
		// Another text does not become active, and the first one stays: it is enforced by each server, stalled or not.
		p.deny(t, "sealed")
		p.barrierIs(t, "the barrier of an earlier text is active until then")
		goOn()
		p.deny(t, "none")
		err := p.Servers[1].Resume()
		if err != nil {
			t.Fatal(err)
		}
		p.barrierIs(t, "")
	})
	t.Run("a restarted server", func(t *testing.T) {
		goOn := p.goesOn(t)
		if err := p.Servers[1].Kill(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if err := p.Servers[1].Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.barrierIs(t, "")
		goOn()
		p.passes(t, 1)
		p.wantRows(t, "restarted", 1, false)
	})
	stop()
	t.Run("another text", func(t *testing.T) {
		p.deny(t, "sealed")
		for server := range p.Servers {
			p.runnerAt(server).Await(t, rows["sealed"][0])
		}
		p.barrierIs(t, "")
	})
	t.Run("a replica that starts", func(t *testing.T) {
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := p.StartProviso(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.barrierIs(t, "")
		p.passes(t, 0)
	})
	t.Run("a replica that may not read barriers", func(t *testing.T) {
		giveBack := p.forbidBarriers(t)
		// The replica watches no more once kube-apiserver has ended its watch.
		if err := errors.Join(p.Servers[0].Kill(), p.Servers[0].Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		p.deleteBinding(t, "locked.cluster.policy.proviso.dev")
		poll.Holds(t, "the policy denies all", func() bool {
			answer, err := p.sendRow(t.Context(), t, 0, locked(t)["locked"][1])
			return err == nil && answer.Code == http.StatusForbidden && strings.Contains(answer.Body, "policy=locked reason=Error")
		})
		p.barrierIs(t, "the ValidatingAdmissionPolicies that kube-apiserver stores are not known")
		giveBack()
		p.barrierIs(t, "")
	})
	t.Run("no policy any more", func(t *testing.T) {
		p.MustKubectl(t, "delete", "--wait=true", "--timeout=60s", "clusterauthorizationpolicy/locked")
		poll.Holds(t, "no barrier", func() bool {
			_, err := p.Kubectl(t.Context(), "", "get", "validatingadmissionpolicy", "locked.cluster.policy.proviso.dev")
			return err != nil
		})
		for server := range p.Servers {
			passes := p.runnerAt(server)
			passes.Want = func(*requests.Row) *requests.Outcome { return &requests.Outcome{Code: http.StatusOK} }
			passes.Await(t, rows["sealed"][0])
		}
	})
	if err := errors.Join(p.Servers[0].Resume(), p.Servers[1].Resume()); err != nil {
		t.Error(err)
	}
}
