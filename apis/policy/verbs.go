/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import "slices"

// VerbsOf returns the verbs that a rule has in a policy with an effect. A Deny of one of update and patch is a Deny of both: they look the same at
// admission, and a user who is denied one can send the other. Rules without resources are not changed. The slice may be shared with the rule.
func VerbsOf[Effect ~string](effect Effect, resources, verbs []string) []string {
	if string(effect) != string(PolicyEffectDeny) || len(resources) == 0 || slices.Contains(verbs, "*") {
		return verbs
	}
	switch update, patch := slices.Contains(verbs, "update"), slices.Contains(verbs, "patch"); {
	//guard:policies-deny-update
	case update && !patch:
		return append(slices.Clip(verbs), "patch")
	//guard:policies-deny-patch
	case patch && !update:
		return append(slices.Clip(verbs), "update")
	}
	return verbs
}
