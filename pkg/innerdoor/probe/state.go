/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package probe

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/proviso-authz/proviso/pkg/cluster"
)

// Known reports whether the kube-apiserver that has a certificate is known to call the inner door. If the certificate was never
// seen, it asks for a round before its time.
func (p *Prober) Known(certificate string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, _ := p.isKnown(certificate)
	if !known && p.isNew(certificate) {
		p.loop.Want()
	}
	return known
}

// isNew reports whether no server is tied to a certificate.
func (p *Prober) isNew(certificate string) bool {
	for _, s := range p.servers {
		if s.certificate == certificate {
			return false
		}
	}
	return certificate != ""
}

// isKnown is Known, with a reason if it returns false.
func (p *Prober) isKnown(certificate string) (known bool, reason string) {
	if certificate == "" {
		return false, "no client certificate"
	}
	tied := 0
	for _, address := range p.state.Listed {
		s := p.servers[address]
		//guard:probe-old-ties
		if s == nil || s.certificate != certificate || !p.cluster.IsFresh(s.tiedAt) {
			continue
		}
		//guard:probe-server-does-not-call-inner-door
		if !p.calls(s) {
			return false, p.reasonOf(s)
		}
		tied++
	}
	switch {
	case tied == 0:
		return false, "no checks about canaries have arrived lately with its client certificate"
	case p.mayBeShared(certificate):
		return p.allCall()
	}
	return p.untiedCall()
}

// calls reports whether a server is known to call the inner door, with whatever certificate.
func (p *Prober) calls(s *server) bool {
	return s != nil && s.last.result.callsInnerDoor() && p.cluster.IsFresh(s.lastAt)
}

// lacks reports whether a server answers, and is not seen to call the inner door with the manifest of this replica.
func (s *server) lacks() bool {
	//guard:probe-servers-answer-otherwise
	return s.last.result == Passed || s.last.result == OtherManifest || s.last.answered
}

// mayBeShared reports whether several servers have had a certificate, or whether no server has another one: then servers that are
// not listed may have it, too. A server that is not listed counts as having another one as long as its Lease may count.
func (p *Prober) mayBeShared(certificate string) bool {
	same, others := 0, 0
	for address, s := range p.servers {
		age := p.cluster.Clock.Since(s.tiedAt)
		switch {
		case s.certificate == "" || age > memory:
		case s.certificate == certificate:
			same++
		//guard:probe-certificates-servers-have-left
		case slices.Contains(p.state.Listed, address) || p.cluster.IsFresh(s.tiedAt.Add(cluster.AliveFor)):
			others++
		}
	}
	//guard:probe-certificates-shared
	return same > 1 || others == 0
}

// allCall reports whether all servers call the inner door, and no server that runs is missing in the list.
func (p *Prober) allCall() (known bool, reason string) {
	//guard:probe-servers-may-be-missing
	if gap := p.cluster.Gap(p.state, cluster.AliveFor); gap != "" {
		return false, gap + ": they may share a client certificate"
	}
	for _, address := range p.state.Listed {
		//guard:probe-other-servers-certificate
		if s := p.servers[address]; !p.calls(s) {
			return false, "it may share its client certificate with " + address + ": " + p.reasonOf(s)
		}
	}
	return true, ""
}

// untiedCall reports whether all servers whose certificate is not known call the inner door: they may have any certificate. The
// certificate of a server that answers without calling the inner door is known only if it was seen lately, because the server may
// have been installed again. A server that does not answer stops no other.
func (p *Prober) untiedCall() (known bool, reason string) {
	for _, address := range p.state.Listed {
		s := p.servers[address]
		//guard:probe-certificates-servers-without-manifest
		isUntied := s == nil || s.certificate == "" || s.lacks() && !p.cluster.IsFresh(s.tiedAt)
		if isUntied && !p.calls(s) {
			return false, "it may share its client certificate with " + address + ": " + p.reasonOf(s)
		}
	}
	return true, ""
}

// reasonOf says why a server is not known to call the inner door.
func (p *Prober) reasonOf(s *server) string {
	switch {
	case s == nil:
		return fmt.Sprintf("there are more than %d servers", cluster.MaxServers)
	case s.lastAt.IsZero():
		return "it has not been probed yet"
	case !p.cluster.IsFresh(s.lastAt):
		return "it was last probed at " + s.lastAt.UTC().Format(time.RFC3339)
	}
	return s.last.message
}

// State is the state of one server, as this replica knows it.
type State struct {
	// Server is the address.
	Server string
	// Known says that this replica lets writes pass on conditions for the server.
	Known bool
	// Calls says that the server calls the inner door, whether or not this replica answers its checks.
	Calls bool
	// Elsewhere says that it calls the inner door, and that another replica answers its checks.
	Elsewhere bool
	// Reason says why it is not known. It is empty if it is.
	Reason string
}

// States returns the states of all servers, by address.
func (p *Prober) States() []State {
	p.mu.Lock()
	defer p.mu.Unlock()
	states := make([]State, 0, len(p.state.Listed))
	for _, address := range p.state.Listed {
		s, state := p.servers[address], State{Server: address}
		state.Calls = p.calls(s)
		switch {
		case !state.Calls:
			state.Reason = p.reasonOf(s)
		case s.last.result == Elsewhere:
			state.Elsewhere, state.Reason = true, s.last.message
		default:
			state.Known, state.Reason = p.isKnown(s.certificate)
		}
		states = append(states, state)
	}
	return states
}

// Unknown returns the servers for which this replica lets no writes pass on conditions, in order, and whether it has probed any
// server yet. A server whose checks another replica answers is not one of them.
func (p *Prober) Unknown() (servers []string, isProbed bool) {
	for _, state := range p.States() {
		if !state.Known && !state.Elsewhere {
			servers = append(servers, state.Server)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return servers, p.probed
}

// KnowsAll reports whether the list of kube-apiservers is new and complete, as far as their Leases tell.
func (p *Prober) KnowsAll() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.probed && len(p.state.Listed) > 0 && p.cluster.Gap(p.state, cluster.AliveFor) == ""
}

// ServeHTTP writes the states, one server a line.
func (p *Prober) ServeHTTP(response http.ResponseWriter, _ *http.Request) {
	cluster.WriteText(response, func(text io.Writer) {
		for _, state := range p.States() {
			word := "not known"
			switch {
			case state.Known:
				word = "known"
			case state.Calls:
				word = "calls the inner door"
			}
			_, _ = fmt.Fprintf(text, "%s: %s: %s\n", state.Server, word, state.Reason)
		}
	})
}
