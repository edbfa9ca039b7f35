//go:build soak

/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"net/http"
	"os"
	"regexp"
	"testing"
	"time"
)

// TestUpgrade replaces three replicas of an earlier version by this one, one after the other, and then back, under the writers of TestSoak. Each version reads what the
// other one has stored. No write that must pass is refused for longer than the restart of one replica takes.
func TestUpgrade(t *testing.T) {
	previous := os.Getenv("PROVISO_PREVIOUS")
	if _, err := os.Stat(previous); err != nil {
		t.Fatalf("PROVISO_PREVIOUS must name the proviso-apiserver of an earlier version: %v", err)
	}
	s := newSoak(t, previous)
	var versions []string
	pause := func() { time.Sleep(20 * time.Second) }
	s.run(t, pause)
	versions = append(versions, s.version(t))
	clear(s.tally.outages) // the beginning
	for _, step := range []struct{ what, binary string }{{"upgraded", ""}, {"downgraded", previous}} {
		s.ProvisoBinary = step.binary
		var longest time.Duration
		s.run(t, func() {
			for _, replica := range s.replicas {
				began := time.Now()
				mustBeNil(t, s.chaos.cause(step.what, replica, replica.Stop, func() error { return replica.Start(t.Context()) }))
				longest = max(longest, time.Since(began))
				pause()
			}
		})
		version := s.version(t)
		t.Logf("%s to %s: a replica took %s at most", step.what, version, longest.Round(10*time.Millisecond))
		versions = append(versions, version)
		for name, lasted := range s.tally.outages {
			if lasted > longest {
				t.Errorf("%s: writes of %s were refused for %s, and the restart of a replica took %s", step.what, name, lasted, longest)
			}
		}
		s.verify(t, step.what+" to "+version)
	}
	s.crash(t)
	s.verify(t, "after a crash of all servers")
	if versions[0] == versions[1] || versions[0] != versions[2] {
		t.Errorf("the versions were %v, want an upgrade and a downgrade", versions)
	}
	s.report(t)
}

var gitVersion = regexp.MustCompile(`"gitVersion": "(.*)"`)

// version returns the version that all replicas must report.
func (s *soak) version(t *testing.T) (version string) {
	t.Helper()
	for _, replica := range s.replicas {
		_, answer := s.Sender.At(replica.URL).Send(t, nil, http.MethodGet, "/version", "", "")
		found := gitVersion.FindStringSubmatch(answer)
		if found == nil || version != "" && found[1] != version {
			t.Fatalf("%s reports %s, and another replica is %s", replica.Name, answer, version)
		}
		version = found[1]
	}
	return version
}
