/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcementstatus

import (
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/excerpt"
)

// Entry is some requests that a rule of a policy describes: those for an entry of its resources in one of its groups, with some of its verbs and versions.
type Entry struct {
	// Effect is the effect of the policy.
	Effect policyv1alpha1.PolicyEffect
	// Reads is what its condition reads.
	Reads Reads
	// Group and Path are an API group and an entry of the resources of the rule. Both may be *.
	Group, Path string
	Verbs       []string
	// Versions are empty if the rule has none, which means all.
	Versions []string
	// Note says why the places before do not evaluate the condition on these requests. It is empty if there is nothing to say.
	Note string

	// because replaces the notes of all outcomes but ResultEnforced. It is empty unless the barrier of the policy leaves the requests out.
	because string
	found   findings
}

// Add adds what happens to the requests with some of the verbs, which the caller must not change afterwards.
func (e *Entry) Add(verbs []string, o Outcome) {
	if e.because != "" && o.Result != policyv1alpha1.ResultEnforced {
		o.Note = excerpt.Of(e.because, maxNoteBytes)
	}
	e.found.addAll(qualified(e.Group, e.Path), verbs, o)
}

// With returns the requests with other verbs and versions, none if there are no verbs.
func (e Entry) With(verbs, versions []string, note string) []Entry {
	if len(verbs) == 0 {
		return nil
	}
	e.Verbs, e.Versions, e.Note = verbs, versions, note
	return []Entry{e}
}

// Outcome is a result in a place.
type Outcome struct {
	At     policyv1alpha1.EnforcementPlace
	Result policyv1alpha1.EnforcementResult
	// Note says why, if the place and the result do not.
	Note string
}

// Place is what a component does with requests that rules describe, at a moment. It is immutable, and compared with reflect.DeepEqual.
type Place interface {
	// Share adds what happens to those requests of an entry whose condition the component evaluates. It returns the other requests.
	Share(Entry) []Entry
}

// share gives an entry to the first place, what that place returns to the second one, and so on.
func share(places []Place, e Entry) {
	if len(e.Verbs) == 0 {
		return
	}
	entries := []Entry{e}
	for _, p := range places {
		var rest []Entry
		for i := range entries {
			rest = append(rest, p.Share(entries[i])...)
		}
		entries = rest
	}
}
