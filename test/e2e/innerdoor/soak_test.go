//go:build soak

/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/plane"
)

const (
	// betweenFaults is the time from the beginning of one fault to the next, and calmAfter the least time from the end of one to the next.
	betweenFaults, calmAfter = 22 * time.Second, 13 * time.Second
	// recovery is how long a write that must pass may be refused after a fault: the canaries of each replica come every five seconds, and one round may be lost.
	recovery = 10 * time.Second
)

// balancer passes connections on to a server that accepts them, as a Service does.
type balancer struct {
	url     string
	mu      sync.Mutex
	targets []string
	// open are the connections to servers.
	open map[net.Conn]bool
}

// newBalancer returns a balancer before servers, by their URLs.
func newBalancer(t *testing.T, urls ...string) *balancer {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	mustBeNil(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	b := &balancer{url: "https://" + listener.Addr().String(), targets: urls, open: map[net.Conn]bool{}}
	go func() {
		for near, err := listener.Accept(); err == nil; near, err = listener.Accept() {
			go b.serve(near)
		}
	}()
	return b
}

func (b *balancer) add(url string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.targets = append(b.targets, url)
}

// cut closes all connections to servers.
func (b *balancer) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for far := range b.open {
		_ = far.Close()
	}
}

// keep adds a connection to a server, or takes it away.
func (b *balancer) keep(far net.Conn, isOpen bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[far] = true; !isOpen {
		delete(b.open, far)
	}
}

func (b *balancer) serve(near net.Conn) {
	defer func() { _ = near.Close() }()
	b.mu.Lock()
	targets := b.targets
	b.mu.Unlock()
	for _, i := range rand.Perm(len(targets)) {
		far, err := net.DialTimeout("tcp", strings.TrimPrefix(targets[i], "https://"), time.Second)
		if err != nil {
			continue
		}
		b.keep(far, true)
		defer func() {
			_ = far.Close()
			b.keep(far, false)
		}()
		go func() {
			_, _ = io.Copy(far, near)
			_ = far.Close()
		}()
		_, _ = io.Copy(near, far)
		return
	}
}

// fault is what happens to a server, and is undone.
type fault struct {
	what          string
	server        *cluster.Server
	began, undone time.Time
	// refused is how long after it a write was refused that must pass.
	refused time.Duration
}

// chaos has the faults, one after the other.
type chaos struct {
	mu     sync.Mutex
	faults []*fault
}

// cause causes a fault, which undo ends.
func (c *chaos) cause(what string, server *cluster.Server, do, undo func() error) error {
	f := &fault{what: what, server: server, began: time.Now()}
	c.mu.Lock()
	c.faults = append(c.faults, f)
	c.mu.Unlock()
	err := errors.Join(do(), undo())
	c.mu.Lock()
	defer c.mu.Unlock()
	f.undone = time.Now()
	return err
}

// since returns from when on policies may decide a write: a replica, or the store, that was stalled meanwhile has not been told newer ones.
func (c *chaos) since(sent, answered time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := sent
	for _, f := range c.faults {
		if f.what == "stalled" && f.began.Before(answered) && (f.undone.IsZero() || f.undone.Add(slack).After(sent)) && f.began.Before(from) {
			from = f.began
		}
	}
	return from.Add(-slack)
}

// missed records that a write was refused that must pass, and reports whether no fault explains it.
func (c *chaos) missed(sent time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := (*fault)(nil)
	for _, f := range c.faults {
		if f.server.Kind != hookKind { // a webhook excuses nothing
			last = f
		}
	}
	if last.undone.IsZero() || sent.Before(last.undone) {
		return false
	}
	last.refused = max(last.refused, sent.Sub(last.undone))
	return last.refused > recovery
}

// count returns the number of faults of a kind.
func (c *chaos) count(what string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.faults {
		if f.what == what {
			n++
		}
	}
	return n
}

// soak is a control plane of eight servers, with users who write.
type soak struct {
	*plane.Own
	// servers are all servers; nodes are the kube-apiservers and replicas those of Proviso.
	servers, nodes, replicas []*cluster.Server
	// history has when a generation may have allowed a write, and seals when a generation of sealed was Effective, of which sealed is the last.
	history, seals *history
	// balancers pass connections on to the replicas: one to their front doors, one to their main ports. disk has the data of the last member of etcd.
	balancers []*balancer
	disk      *disk
	hook      *hook
	sealed    int
	changer   *changer
	chaos     *chaos
	ledger    *ledger
	tally     *tally
	random    *rand.Rand
	began     time.Time
}

// newSoak starts three members of etcd, two kube-apiservers, and three replicas of Proviso that run a binary.
func newSoak(t *testing.T, binary string) *soak {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("PROVISO_SOAK_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64N(1_000_000)
	}
	t.Logf("the seed is %d", seed)
	s := &soak{
		history: &history{allowed: map[int][]period{}}, seals: &history{allowed: map[int][]period{}}, chaos: &chaos{}, ledger: &ledger{objects: map[string]*object{}},
		tally: &tally{rows: map[string]*[4]int{}, causes: map[string]*[4]int{}, outages: map[string]time.Duration{}}, random: rand.New(rand.NewPCG(seed, 0)),
	}
	s.Own = plane.Prepare(t, cluster.Config{
		InnerDoor:   &cluster.InnerDoor{Configuration: plane.TestData(t, "inner-door.yaml") + "\naskOtherAuthorizers: false # because of the webhook\n"},
		EtcdMembers: 3, SecondKubeAPIServer: true, SharedStore: true, ProvisoBinary: binary, Args: []string{"--barriers"},
	})
	s.hook = newHook(t, s.Cluster)
	s.Args = append(s.Args, "--authorization-config="+filepath.Join(s.Dir, "authorizers.yaml"), "--feature-gates=UpstreamConditionalDecisions=true")
	s.disk = newDisk(t, filepath.Join(s.Dir, "etcd-3", "etcd"))
	doors, api := newBalancer(t, s.FrontDoorURL()), newBalancer(t, s.ProvisoURL())
	s.balancers = []*balancer{doors, api}
	s.InnerDoor.URL, s.KubeAPIServers = doors.url, newBalancer(t, s.Servers[0].URL(), s.Servers[1].URL()).url
	s.ServicePort, err = strconv.Atoi(api.url[strings.LastIndex(api.url, ":")+1:])
	mustBeNil(t, err)
	s.Start(t, s.Up, s.Servers[1].Start)
	var others []*cluster.Alone
	for range 2 {
		a, err := s.Alone(t.Context(), append(s.Args, "--feature-gates=ConditionalImpersonation=true")...)
		t.Cleanup(a.Stop)
		mustBeNil(t, err)
		others = append(others, a)
		doors.add(a.FrontDoorURL)
		api.add(a.URL)
	}
	s.servers = s.AllServers(others...)
	s.nodes, s.replicas = s.servers[3:5], s.servers[5:]
	s.MustKubectl(t, "create", "namespace", demo)
	s.MustApply(t, plane.TestData(t, "soak.yaml"))
	s.changer = &changer{history: s.history, admin: s.admin(api.url), rest: 2 * time.Second}
	s.changer.change(t, func() {})
	return s
}

// admin is the administrator at a server.
func (s *soak) admin(url string) *caller { return (&caller{s.Sender, nil}).at(url) }

// run has users write while policies change, until a function returns. The beginning counts as a fault.
func (s *soak) run(t *testing.T, meanwhile func()) {
	t.Helper()
	if s.began.IsZero() {
		s.began = time.Now()
	}
	mustBeNil(t, s.chaos.cause("begins", s.replicas[0], func() error { return nil }, func() error { return nil }))
	end := make(chan struct{})
	var group sync.WaitGroup
	repeat := func(do func()) {
		group.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
					do()
				}
			}
		})
	}
	for _, a := range s.actors() {
		repeat(func() { s.write(t, a) })
	}
	repeat(func() { s.changer.change(t, func() { time.Sleep(300 * time.Millisecond) }) })
	repeat(func() { s.changeSeal(t) })
	repeat(s.sample)
	defer func() { // also if the test has failed
		close(end)
		group.Wait()
	}()
	meanwhile()
}

// crash kills all servers, and starts them again.
func (s *soak) crash(t *testing.T) {
	t.Helper()
	for _, server := range s.servers {
		mustBeNil(t, server.Kill())
	}
	mustBeNil(t, s.StartEtcd(t.Context()))
	for _, server := range s.servers {
		mustBeNil(t, server.Start(t.Context()))
	}
}

// TestSoak kills and stalls the servers of a control plane one after the other, fills a disk, and lets certificates expire, while users write and policies change. No write may pass that no policy allows, or
// that a barrier denies; no acknowledged write may be lost; and writes that must pass must pass again soon after each fault. It writes a report.
func TestSoak(t *testing.T) {
	duration, err := time.ParseDuration(os.Getenv("PROVISO_SOAK"))
	mustBeNil(t, err)
	s := newSoak(t, "")
	s.run(t, func() {
		defer s.hook.misbehave(s.chaos)()
		s.faults(t, duration)
	})
	s.verify(t, "at the end")
	s.crash(t)
	s.verify(t, "after a crash of all servers")
	s.report(t)
	if kills := s.chaos.count("killed"); s.tally.passed < int(duration.Seconds()) || kills == 0 {
		t.Errorf("%d writes passed, and %d processes were killed: too few to say anything", s.tally.passed, kills)
	}
	s.wantBounded(t)
}
