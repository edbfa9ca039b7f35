/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
)

// TestBarriersOfAnUnknownServer has a second kube-apiserver, with a client certificate of its own, that Proviso does not know of and that has admission policies
// turned off. The front door denies there what the policy could deny, while it leaves that to the barrier at the first one.
func TestBarriersOfAnUnknownServer(t *testing.T) {
	t.Parallel()
	p := newPair(t, func(c *cluster.Config) { c.Args = append(c.Args, "--barriers") })
	p.InnerDoor.Servers = p.InnerDoor.Servers[:1]
	p.Servers[1].Args = append(p.Servers[1].Args, "--disable-admission-plugins=ValidatingAdmissionPolicy")
	p.Start(t, p.Up)
	if err := p.Servers[1].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.prepare(t, "requests.yaml")
	p.begin(t, p.prepare(t, "locked.yaml", goesOnMark))
	p.deny(t, "none")
	p.barrierIs(t, "")
	p.passes(t, 0)
	_, details := p.direct(t, "/readyz/barriers")
	if !strings.Contains(details, p.Servers[0].URL()+": client certificate: known") || strings.Contains(details, p.Servers[1].URL()) {
		t.Errorf("the details are %s", details)
	}
	p.wantRows(t, "known", 0, false)
	p.wantRows(t, "not known", 1, true)

	// A Proviso that starts finds out the certificate of the first one again.
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.StartProviso(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.barrierIs(t, "")
	p.passes(t, 0)
	p.wantRows(t, "known again", 0, false)
	p.wantRows(t, "not known again", 1, true)
}
