/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rollout

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/cluster"
)

// Phase is the phase of the barrier of a policy.
type Phase string

// The phases. They are the values of a label of a metric.
const (
	// Absent means that the policy has no barrier: it is not known, or none of its rules can be translated.
	Absent Phase = "absent"
	// Pending means that not every kube-apiserver is known to have loaded the barrier.
	Pending Phase = "pending"
	// Active means that every kube-apiserver has loaded the barrier.
	Active Phase = "active"
)

var phases = []Phase{Absent, Pending, Active}

// State is the state of the barrier of a policy, as this replica knows it.
type State struct {
	Phase Phase
	// Earlier says that an earlier text of the policy is active while Phase is Pending.
	Earlier bool
	// Loaded says that the barrier counts as loaded: Phase is Active, or there is no front door, which would fold conditions, and every kube-apiserver whose
	// address is known has loaded it. Behind a load balancer there may be others.
	Loaded bool
	// Message explains the phase.
	Message string
	// Uncertified says at which kube-apiservers the front door leaves nothing to the barrier, because it cannot know their client certificates. It is empty
	// if there are none, or without the front door.
	Uncertified string
	// Lacking are the servers that have not loaded the barrier, sorted.
	Lacking []string
}

const (
	messageActive  = "every kube-apiserver has loaded the barrier"
	messageEarlier = "; the barrier of an earlier text is active until then"
)

// State returns the state of the barrier of a policy.
func (r *Rollout) State(key engine.Key) State {
	r.mu.RLock()
	defer r.mu.RUnlock()
	e := r.entries[key]
	if e == nil {
		return State{Phase: Absent, Message: "the policy has no barrier"}
	}
	return r.state(e)
}

// IsAbout reports whether the state of the barrier of a policy is about these objects. The objects of a changed policy may not be known yet.
func (r *Rollout) IsAbout(key engine.Key, policy *admissionregistrationv1.ValidatingAdmissionPolicy, binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	e := r.entries[key]
	return e != nil && e.wanted != nil && e.wanted.isStoredAs(policy, binding)
}

// States returns the states of the barriers of all Deny policies.
func (r *Rollout) States() map[engine.Key]State {
	r.mu.RLock()
	defer r.mu.RUnlock()
	states := make(map[engine.Key]State, len(r.entries))
	for key, e := range r.entries {
		states[key] = r.state(e)
	}
	return states
}

// Equal reports whether two states are the same.
func (s State) Equal(other State) bool {
	return s.Phase == other.Phase && s.Earlier == other.Earlier && s.Loaded == other.Loaded && s.Message == other.Message && s.Uncertified == other.Uncertified && slices.Equal(s.Lacking, other.Lacking)
}

func (r *Rollout) state(e *entry) State {
	blind := r.blind()
	switch {
	//guard:rollout-sight-lost-in-state
	case e.isActive() && blind == "":
		return State{Phase: Active, Loaded: true, Message: messageActive, Uncertified: r.uncertified()}
	case e.wanted == nil:
		return State{Phase: Absent, Message: "the policy does not compile"}
	case !e.wanted.exists():
		return State{Phase: Absent, Message: "no rule can be translated"}
	}
	state := State{Phase: Pending, Earlier: len(e.active) > 0 && blind == ""}
	state.Message, state.Lacking = r.obstacle(e)
	state.Loaded = !r.config.FrontDoor && len(r.servers) > 0 && state.Message == r.cause
	if state.Earlier {
		state.Message += messageEarlier
	}
	return state
}

// obstacle says why the wanted text of a policy cannot come into force, and which servers lack it. The message is empty if it can.
func (r *Rollout) obstacle(e *entry) (message string, lacking []string) {
	switch {
	case e.wanted == nil || !e.wanted.exists():
		return "there is no barrier", nil
	//guard:rollout-before-all-read
	case !r.synced:
		return "the barriers have not been read yet", nil
	case e.policy == nil || e.binding == nil:
		return "the barrier is not written yet", nil
	//guard:rollout-another-text-stored
	case !e.isStored:
		return "kube-apiserver has another text of the barrier", nil
	}
	number := r.after(e)
	if number == 0 {
		return "the sentinel has not been written after the barrier yet", nil
	}
	if blind := r.blind(); blind != "" {
		return blind, nil
	}
	var causes []string
	for _, address := range slices.Sorted(maps.Keys(r.servers)) {
		//guard:rollout-servers-lack
		if s := r.servers[address]; s.shown < number {
			lacking = append(lacking, address)
			causes = append(causes, address+": "+cmp.Or(s.last.message, "it has not been probed yet"))
		}
	}
	if more := len(causes) - maxCauses; more > 0 {
		causes = append(causes[:maxCauses], fmt.Sprintf("and %d others", more))
	}
	if len(lacking) > 0 {
		return "not loaded by " + strings.Join(causes, "; "), lacking
	}
	//guard:rollout-servers-missing
	return r.cause, nil
}

// after returns the least number of the sentinel that was written after the stored objects of a barrier, or 0.
func (r *Rollout) after(e *entry) int64 {
	policy, binding := barrier.VersionOf(e.policy), barrier.VersionOf(e.binding)
	if policy == 0 || binding == 0 {
		return 0
	}
	for _, m := range r.sentinel {
		//guard:rollout-policies-after-sentinel
		if policy <= m.extent.Policies && binding <= m.extent.Bindings {
			return m.number
		}
	}
	return 0
}

// ServeHTTP writes the last number that each server has shown, one server a line, and then the policies whose barrier is not active.
func (r *Rollout) ServeHTTP(response http.ResponseWriter, _ *http.Request) {
	cluster.WriteText(response, r.write)
}

func (r *Rollout) write(response io.Writer) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, _ = fmt.Fprintf(response, "sentinel: number %d\n", r.last)
	if r.cause != "" {
		_, _ = fmt.Fprintf(response, "servers: %s\n", r.cause)
	}
	if blind := r.blind(); blind != "" {
		_, _ = fmt.Fprintln(response, blind, r.sight.detail)
	}
	for _, address := range slices.Sorted(maps.Keys(r.servers)) {
		s := r.servers[address]
		_, _ = fmt.Fprintf(response, "%s: number %d: %s\n", address, s.shown, cmp.Or(s.last.message, string(s.last.outcome), "it has not been probed yet"))
		if r.config.FrontDoor {
			_, _ = fmt.Fprintf(response, "%s: client certificate: %s\n", address, s.canary)
		}
	}
	shown := 0
	for _, key := range slices.SortedFunc(maps.Keys(r.entries), engine.Key.Compare) {
		state := r.state(r.entries[key])
		if state.Phase == Active {
			continue
		}
		if shown++; shown > maxShown {
			_, _ = fmt.Fprintln(response, "…")
			return
		}
		_, _ = fmt.Fprintf(response, "%s: %s: %s\n", key, state.Phase, state.Message)
	}
}

// maxCauses bounds the servers in a message.
const maxCauses = 4

// maxShown bounds the policies that ServeHTTP shows.
const maxShown = 100
