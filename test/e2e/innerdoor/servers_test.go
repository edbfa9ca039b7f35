/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// pair is a control plane with two kube-apiservers. Proviso probes the second one through a wire.
type pair struct {
	*rig
	wire *wire
}

// newPair prepares a pair that does not run.
func newPair(t *testing.T, changes ...func(*cluster.Config)) *pair {
	t.Helper()
	r := prepareRig(t, "", append(changes, func(c *cluster.Config) { c.SecondKubeAPIServer = true })...)
	server := r.Servers[1]
	p := &pair{rig: r, wire: newWire(t, strings.TrimPrefix(server.URL(), "https://"))}
	server.Doors = r.doors[1].url
	r.InnerDoor.Servers = []string{r.KubeAPIServerURL(), "https://" + p.wire.address}
	return p
}

// user returns the caller of a user at a kube-apiserver, 0 or 1.
func (p *pair) user(server int, name string) *caller { return p.as(name).at(p.Servers[server].URL()) }

// passes waits until a write of dana passes at a kube-apiserver, and expects another one to be refused by the inner door.
func (p *pair) passes(t *testing.T, server int) {
	t.Helper()
	p.becomes(t, server, "passes")
	// The canaries of another replica may be late, so that the front door refuses once more.
	poll.Holds(t, "the inner door refuses", func() bool {
		answer := p.answer(t, server, "refused")
		if answer.Code != http.StatusForbidden {
			t.Errorf("got %d %.300s, want a refusal", answer.Code, answer.Body)
		}
		return answer.Has("reason=NotMet")
	})
}

// stops waits until the front door refuses writes of dana at a kube-apiserver, and expects it to go on, and users of RBAC to be allowed.
func (p *pair) stops(t *testing.T, server int) {
	t.Helper()
	poll.Probe(t, "no write passes on conditions", func() bool { return p.runnerAt(server).Try(t, p.states["stopped"][0]) == "" })
	p.remainsStopped(t, server)
}

func (p *pair) remainsStopped(t *testing.T, server int) {
	t.Helper()
	for range 20 {
		p.is(t, server, "stopped")
	}
	p.is(t, server, "RBAC")
}

// says waits until Proviso says why it does not know that the second kube-apiserver calls the inner door.
func (p *pair) says(t *testing.T, reason string) {
	t.Helper()
	state := ""
	defer func() {
		if t.Failed() {
			t.Logf("the states are %s", state)
		}
	}()
	poll.Holds(t, "the state of the second kube-apiserver is: "+reason, func() bool {
		_, state = p.direct(t, "/readyz/inner-door")
		_, second, _ := strings.Cut(state, p.wire.address+": not known: ")
		return strings.Contains(second, reason)
	})
}

// steady has dana write at the first kube-apiserver until stop is called, which expects all of the writes to have passed.
func (p *pair) steady(t *testing.T) (stop func()) {
	t.Helper()
	end, refused, writes := make(chan struct{}), []string(nil), 0
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-end:
				return
			case <-time.After(50 * time.Millisecond):
			}
			writes++
			if answer, err := p.runnerAt(0).Send(t.Context(), t, p.states["passes"][0]); err != nil || answer.Code != http.StatusCreated {
				refused = append(refused, fmt.Sprint(answer, err))
			}
		}
	})
	return func() {
		close(end)
		group.Wait()
		if len(refused) > 0 || writes == 0 {
			t.Errorf("%d of %d writes did not pass at the other kube-apiserver, the first: %.600s", len(refused), writes, slices.Concat(refused, []string{""})[0])
		}
		t.Logf("%d writes passed at the other kube-apiserver", writes)
	}
}

// TestTwoServers has two kube-apiservers, of which the second one is new, slow, out of reach, without a manifest, or with an older list. No
// write passes there on conditions then. The first one goes on, unless they share a client certificate.
func TestTwoServers(t *testing.T) {
	p := newPair(t)
	p.Start(t, p.Up)
	p.prepare(t, "requests.yaml")
	t.Run("a new server", func(t *testing.T) {
		// A server that has never been seen may have any certificate: it stops the first one, too, until its first canaries.
		p.stops(t, 0)
		if err := p.Servers[1].Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.passes(t, 0)
		p.passes(t, 1)
	})
	tooLate := p.tooLate(t)
	stop := p.steady(t)
	t.Run("a slow server", func(t *testing.T) {
		p.wire.setLag(7 * time.Second)
		p.stops(t, 1)
	})
	t.Run("a server out of reach", func(t *testing.T) {
		p.wire.cut(true)
		p.says(t, "EOF")
		p.remainsStopped(t, 1)
		p.wire.setLag(0)
		p.wire.cut(false)
		p.passes(t, 1)
	})
	t.Run("an older list", func(t *testing.T) {
		before := p.InnerDoor.Configuration
		p.InnerDoor.Configuration = strings.Replace(before, "- resource: secrets\n", "", 1)
		if err := p.Servers[1].WriteInnerDoor(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.says(t, "the server has the manifest ")
		p.remainsStopped(t, 1)
		p.InnerDoor.Configuration = before
	})
	t.Run("a truncated manifest", func(t *testing.T) {
		server := p.Servers[1]
		if err := server.WriteInnerDoor(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.passes(t, 1)
		content, err := os.ReadFile(server.Manifest())
		if err != nil {
			t.Fatal(err)
		}
		// The last webhook is for canaries. Without it nothing opens, and those for ConfigMaps, which are listed, refuse the canaries.
		text := string(content)
		for range 2 {
			text = text[:strings.LastIndex(text, "- admissionReviewVersions:")]
		}
		replaceFile(t, server, server.Manifest(), text)
		p.says(t, "the server did not call the inner door")
		p.remainsStopped(t, 1)
		if err := server.WriteInnerDoor(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.passes(t, 1)
	})
	t.Run("an emptied manifest", func(t *testing.T) { testEmptiedOnOne(t, p) })
	t.Run("a body after the request timeout", tooLate) // while the manifest is empty
	stop()
	t.Run("one certificate", func(t *testing.T) { testOneCertificate(t, p) })
	t.Run("starts in either order", func(t *testing.T) { testOrders(t, p) })
}

// tooLate sends the headers of a write that the front door lets pass at the second kube-apiserver, and returns a test that waits until the body
// has been sent after the request timeout. Nothing must be created then, although the server has no manifest any more.
func (p *pair) tooLate(t *testing.T) func(*testing.T) {
	t.Helper()
	const timeout = 34 * time.Second
	began, done := time.Now(), make(chan struct{})
	ready := make(chan struct{})
	rows := table(t, "faults.yaml").Rows
	var answer *requests.Answer
	go func() {
		defer close(done)
		answer = p.late(t, 1, rows["too late"][0], func() {
			close(ready)
			time.Sleep(time.Until(began.Add(timeout + 2*time.Second)))
		})
	}()
	select {
	case <-ready:
	case <-done:
		t.FailNow() // the request was not authorized
	}
	return func(t *testing.T) {
		<-done
		t.Logf("a body that came %s later was answered with %d %.300s", timeout+2*time.Second, answer.Code, answer.Body)
		if answer.Code < http.StatusBadRequest {
			t.Errorf("got %d %.300s", answer.Code, answer.Body)
		}
		p.runner().Run(t, rows["not created too late"])
	}
}

// testEmptiedOnOne empties the manifest of the second kube-apiserver: from the next canaries on nothing passes there on conditions. A request
// that was authorized before, and whose body comes later, passes without a decision about the object.
func testEmptiedOnOne(t *testing.T, p *pair) {
	rows := table(t, "faults.yaml").Rows
	first, other := rows["late without a manifest"][0], rows["late elsewhere"][0]
	wantAnswer(t, first, p.late(t, 1, first, func() {
		replaceFile(t, p.Servers[1], p.Servers[1].Manifest(), "")
		began := time.Now()
		p.stops(t, 1)
		t.Logf("nothing passed on conditions %s after the manifest was emptied", time.Since(began).Round(100*time.Millisecond))
	}))
	p.says(t, "the server did not call the inner door")
	wantAnswer(t, other, p.late(t, 0, other, func() {}))
}

// testOneCertificate lets both kube-apiservers have the same client certificate. If one does not call the inner door, both are stopped.
func testOneCertificate(t *testing.T, p *pair) {
	server := p.Servers[1]
	server.SharesCertificate = true
	p.doors[1].set(func() { p.doors[1].client = p.proxy.client })
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.passes(t, 1)
	p.passes(t, 0)
	replaceFile(t, server, server.Manifest(), "")
	p.stops(t, 1)
	p.stops(t, 0)
	if err := server.WriteInnerDoor(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.passes(t, 0)
	p.passes(t, 1)
}

// testOrders starts kube-apiserver without Proviso, and Proviso without kube-apiserver. While Proviso is down, users of RBAC go on, and
// as fast as before: the test prints both.
func testOrders(t *testing.T, p *pair) {
	median := func() time.Duration {
		var times []time.Duration
		for range 100 {
			began := time.Now()
			if answer := p.answer(t, 0, "RBAC"); answer.Code != http.StatusCreated {
				t.Fatalf("RBAC: got %d %.300s", answer.Code, answer.Body)
			}
			times = append(times, time.Since(began))
		}
		slices.Sort(times)
		return times[len(times)/2]
	}
	killServers := func() {
		if err := errors.Join(p.Servers[0].Kill(), p.Servers[1].Kill()); err != nil {
			t.Fatal(err)
		}
	}
	startServers := func() {
		if err := errors.Join(p.Servers[0].Start(t.Context()), p.Servers[1].Start(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	up := median()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	down := median()
	t.Logf("a write of a user whom RBAC allows takes %s (p50), and %s while Proviso is down", up.Round(10*time.Microsecond), down.Round(10*time.Microsecond))
	p.refuses(t, 0, "Proviso is down")
	killServers()
	startServers() // without Proviso
	p.becomes(t, 0, "RBAC")
	p.refuses(t, 0, "Proviso is down")
	if err := p.StartProviso(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.passes(t, 0)
	p.passes(t, 1)

	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	killServers()
	started := make(chan error, 1)
	go func() { started <- p.StartProviso(t.Context()) }()
	poll.Holds(t, "Proviso listens", func() bool {
		connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.ProvisoURL(), "https://"))
		if err == nil {
			_ = connection.Close()
		}
		return err == nil
	})
	startServers()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	p.passes(t, 0)
	p.passes(t, 1)
}
