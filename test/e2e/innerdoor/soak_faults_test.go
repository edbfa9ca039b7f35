//go:build soak

/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/pki"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// faults causes one fault after the other.
func (s *soak) faults(t *testing.T, duration time.Duration) {
	t.Helper()
	end, next, turn := s.began.Add(duration), s.began.Add(calmAfter), []func() error(nil)
	for {
		time.Sleep(time.Until(next))
		if !time.Now().Add(betweenFaults).Before(end) {
			time.Sleep(time.Until(end))
			return
		}
		if len(turn) == 0 {
			turn = s.turn(t, duration)
		}
		began := time.Now()
		if err := turn[0](); err != nil {
			t.Error(err)
			return
		}
		turn = turn[1:]
		if next = began.Add(betweenFaults); time.Until(next) < calmAfter {
			next = time.Now().Add(calmAfter)
		}
	}
}

// turn returns a kill of each server, and one fault of each other kind, in a random order. The last replica is killed in the first sixth only, so that its memory shows over
// a longer time.
func (s *soak) turn(t *testing.T, duration time.Duration) (turn []func() error) {
	t.Helper()
	for _, server := range s.servers {
		turn = append(turn, func() error {
			if server == s.replicas[2] && time.Since(s.began) > duration/6 {
				return s.stall(server)
			}
			return s.kill(t, server)
		})
	}
	turn = append(turn, func() error { return s.stall(s.servers[s.random.IntN(len(s.servers))]) })
	if s.disk.missing == nil {
		turn = append(turn, func() error { return s.fill(t, s.servers[2]) })
	}
	turn = append(turn,
		func() error { return s.expire(t, s.replicas[s.random.IntN(len(s.replicas))]) },
		func() error { return s.expireClient(t, s.random.IntN(len(s.nodes))) })
	s.random.Shuffle(len(turn), func(i, j int) { turn[i], turn[j] = turn[j], turn[i] })
	return turn
}

// pause returns up to three seconds.
func (s *soak) pause() time.Duration { return time.Duration(s.random.Int64N(int64(3 * time.Second))) }

func (s *soak) kill(t *testing.T, server *cluster.Server) error {
	t.Helper()
	return s.chaos.cause("killed", server, server.Kill, func() error { time.Sleep(s.pause()); return server.Start(t.Context()) })
}

func (s *soak) stall(server *cluster.Server) error {
	return s.chaos.cause("stalled", server, server.Stall, func() error { time.Sleep(2*time.Second + 2*s.pause()); return server.Resume() })
}

// fill fills the disk of a member of etcd, which then ends, and starts it when there is room again.
func (s *soak) fill(t *testing.T, member *cluster.Server) error {
	t.Helper()
	return s.chaos.cause("with a full disk", member, func() error {
		err := s.disk.fill()
		for full := time.Now(); err == nil && member.Runs(); time.Sleep(100 * time.Millisecond) {
			if time.Since(full) > 20*time.Second {
				err = fmt.Errorf("%s goes on, although its disk is full", member.Name)
			}
		}
		time.Sleep(s.pause())
		return err
	}, func() error { return errors.Join(s.disk.empty(), member.Start(t.Context())) })
}

// expire has a replica serve with a certificate that has expired, for some seconds. Clients must connect again and again, for no open connection notices.
func (s *soak) expire(t *testing.T, replica *cluster.Server) error {
	t.Helper()
	return s.chaos.cause("with an expired certificate", replica, func() error {
		err := s.certify(t, replica, -time.Second)
		for end := time.Now().Add(2*time.Second + s.pause()); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
			for _, b := range s.balancers {
				b.cut()
			}
		}
		return err
	}, func() error { return s.certify(t, replica, 30*24*time.Hour) })
}

// expireClient has a kube-apiserver call the doors with a certificate that has expired, for some seconds. It reads the certificate when it starts.
func (s *soak) expireClient(t *testing.T, node int) error {
	t.Helper()
	renew := func(validity time.Duration) error {
		ca, err := pki.New(filepath.Join(s.Dir, "pki"), "front-door-ca", validity)
		if err == nil {
			suffix := []string{"", "-2"}[node]
			_, err = ca.Client("front-door"+suffix, "kube-apiserver"+suffix)
		}
		return errors.Join(err, s.nodes[node].Kill(), s.nodes[node].Start(t.Context()))
	}
	return s.chaos.cause("with an expired client certificate", s.nodes[node], func() error {
		defer time.Sleep(2*time.Second + s.pause())
		return renew(-time.Second)
	}, func() error { return renew(30 * 24 * time.Hour) })
}

// certify replaces the serving certificate of a replica by one with a validity, and waits until the replica has read it.
func (s *soak) certify(t *testing.T, replica *cluster.Server, validity time.Duration) error {
	t.Helper()
	ca, err := pki.New(filepath.Join(s.Dir, "pki"), "ca", validity)
	if err != nil {
		return err
	}
	address, name := strings.TrimPrefix(replica.URL, "https://"), "proviso-serving"
	if replica != s.replicas[0] {
		name = "alone-" + address[strings.Index(address, ":")+1:]
	}
	if _, err = ca.Server(name, cluster.ServerName, "localhost", "127.0.0.1"); err != nil {
		return err
	}
	trusted, err := cert.NewPool(s.CAFile())
	if err != nil {
		return err
	}
	if !poll.Until(t.Context(), 10*time.Second, func() bool {
		connection, dialErr := (&tls.Dialer{Config: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}}).DialContext(t.Context(), "tcp", address)
		if err = dialErr; err == nil {
			_ = connection.Close()
		}
		invalid := x509.CertificateInvalidError{}
		return (err == nil) == (validity > 0) && (err == nil || errors.As(err, &invalid) && invalid.Reason == x509.Expired)
	}) {
		return fmt.Errorf("%s has not read the certificate with a validity of %s: %w", replica.Name, validity, err)
	}
	return nil
}

// disk is a file system in memory, which can be full.
type disk struct {
	dir string
	// missing is why there is none: not every user may mount.
	missing error
}

// newDisk mounts a disk at a directory for as long as the test runs.
func newDisk(t *testing.T, dir string) *disk {
	t.Helper()
	mustBeNil(t, os.MkdirAll(dir, 0o700))
	d := &disk{dir, syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,"+diskSize)}
	if d.missing == nil {
		t.Setenv("ETCD_SNAPSHOT_COUNT", "200")                                       // a member without room in its database may go on, but not without a snapshot
		t.Cleanup(func() { mustBeNil(t, syscall.Unmount(dir, syscall.MNT_DETACH)) }) // the member may still run
	}
	return d
}

// diskSize is more than a member needs in hours.
const diskSize = "size=2g"

func (d *disk) resize(size string) error {
	return syscall.Mount("tmpfs", d.dir, "tmpfs", syscall.MS_REMOUNT, size)
}

func (d *disk) empty() error { return d.resize(diskSize) }

// fill makes the disk as small as what is on it, which the member may change meanwhile.
func (d *disk) fill() error {
	for range 100 {
		var now syscall.Statfs_t
		if err := syscall.Statfs(d.dir, &now); err != nil {
			return err
		}
		err := d.resize(fmt.Sprintf("size=%d", (now.Blocks-now.Bfree)*uint64(now.Bsize)))
		if err == nil {
			probe := filepath.Join(d.dir, "probe")
			err = os.WriteFile(probe, []byte("x"), 0o600)
			_ = os.Remove(probe)
		}
		if errors.Is(err, syscall.ENOSPC) {
			return nil
		}
	}
	return errors.New("the disk does not become full")
}
