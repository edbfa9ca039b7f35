/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

import (
	"context"
	"fmt"
	"os"
	"syscall"
)

// Server is a server of a cluster, for tests that treat all alike. Its methods must not be called concurrently.
type Server struct {
	// Kind is etcd, kube-apiserver or proviso-apiserver, and Name has a number after it.
	Kind, Name string
	// URL is the URL of its main port. Etcd has none here.
	URL string
	// Start starts the server at its addresses, if it does not run, and waits until it is ready.
	Start   func(context.Context) error
	process *process
}

// AllServers returns the members of etcd, the kube-apiservers, and the replicas of Proviso: the one of the cluster, and others.
func (c *Cluster) AllServers(others ...*Alone) []*Server {
	var all []*Server
	add := func(kind string, i int, url string, start func(context.Context) error, p *process) {
		all = append(all, &Server{Kind: kind, Name: fmt.Sprintf("%s-%d", kind, i+1), URL: url, Start: start, process: p})
	}
	for i, m := range c.members {
		add("etcd", i, "", func(ctx context.Context) error { return c.startMember(ctx, m) }, m.process)
	}
	for i, s := range c.Servers {
		add("kube-apiserver", i, s.URL(), s.Start, s.process)
	}
	add("proviso-apiserver", 0, c.ProvisoURL(), c.StartProviso, c.Proviso)
	for i, a := range others {
		add("proviso-apiserver", i+1, a.URL, a.Start, a.process)
	}
	return all
}

// Pid returns the ID of the process, or an empty text if it does not run. It may be called while the server is killed or started.
func (s *Server) Pid() string {
	content, _ := os.ReadFile(s.process.pidFile()) // there is none if the process was stopped
	return string(content)
}

// Runs reports whether the process runs.
func (s *Server) Runs() bool { return s.process.running() }

// Kill kills the process, as in a crash.
func (s *Server) Kill() error { return s.process.stop(syscall.SIGKILL, startTimeout) }

// Stop ends the process.
func (s *Server) Stop() error { return s.process.stop(syscall.SIGTERM, startTimeout) }

// Stall stops the process without ending it. Resume lets it go on.
func (s *Server) Stall() error { return s.process.signal(syscall.SIGSTOP) }

// Resume lets a process go on that was stalled.
func (s *Server) Resume() error { return s.process.signal(syscall.SIGCONT) }
