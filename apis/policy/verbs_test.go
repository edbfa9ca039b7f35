/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/apis/policy"
)

// TestVerbsOf reads rules as policies with each effect do.
func TestVerbsOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, effect, resources, verbs, want string
	}{
		{"a Deny of update", "Deny", "pods", "create update", "create update patch"},
		{"a Deny of patch", "Deny", "pods/status", "patch", "patch update"},
		{"a Deny of both", "Deny", "pods", "patch update", "patch update"},
		{"a Deny of neither", "Deny", "pods", "create delete", "create delete"},
		{"a Deny of all", "Deny", "pods", "* update", "* update"},
		{"a Deny of a path", "Deny", "", "patch", "patch"},
		{"an Allow of update", "Allow", "pods", "update", "update"},
		{"a NoOpinion of patch", "NoOpinion", "pods", "patch", "patch"},
		{"an effect of a later version", "Perhaps", "pods", "patch", "patch"},
	} {
		verbs := strings.Fields(tc.verbs)
		got := policy.VerbsOf(tc.effect, strings.Fields(tc.resources), verbs)
		if want := strings.Fields(tc.want); !slices.Equal(got, want) || !slices.Equal(verbs, strings.Fields(tc.verbs)) {
			t.Errorf("%s: got %q, want %q, and the verbs are now %q", tc.name, got, want, verbs)
		}
	}
}
