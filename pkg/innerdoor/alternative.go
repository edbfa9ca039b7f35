/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor

import "slices"

// Alternative is one way to send a write that has a certain check, beside the other ways to send a write that looks the same at
// admission. If other authorizers allow one of these, kube-apiserver does not call the inner door. Therefore a request may
// pass on conditions only if policies do not deny what the user could have sent instead.
type Alternative struct {
	// Rest are the other checks of the same way.
	Rest []Check
	// Others are the checks of the other ways, without the check itself.
	Others []Check
}

// Alternatives returns an Alternative for each kind of writes that a request with the check can turn into. It returns none
// if the inner door does not decide requests with the check.
func Alternatives(resource Resource, check Check) []Alternative {
	var alternatives []Alternative
	for i := range Kinds {
		kind := &Kinds[i]
		if !kind.Has(resource) {
			continue
		}
		//guard:inner-door-other-ways
		for j, way := range kind.Ways {
			if slices.Contains(way, check) {
				others := slices.Concat(append(slices.Clone(kind.Ways[:j]), kind.Ways[j+1:]...)...)
				alternatives = append(alternatives, Alternative{Rest: without(way, check), Others: without(others, check)})
			}
		}
		if slices.Contains(kind.Collection, check) {
			alternatives = append(alternatives, Alternative{Rest: without(kind.Collection, check)})
		}
	}
	return alternatives
}

// without returns the checks but one, each once.
func without(checks []Check, check Check) []Check {
	var rest []Check
	for _, c := range checks {
		if c != check && !slices.Contains(rest, c) {
			rest = append(rest, c)
		}
	}
	return rest
}
