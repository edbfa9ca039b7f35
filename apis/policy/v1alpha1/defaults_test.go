/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1_test

import (
	"testing"

	"github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// TestDefaultEnforcement checks that a policy enforces unless it says otherwise: also a policy that was stored before there was the
// field.
func TestDefaultEnforcement(t *testing.T) {
	t.Parallel()
	for given, want := range map[v1alpha1.PolicyEnforcement]v1alpha1.PolicyEnforcement{"": "Enforce", "Enforce": "Enforce", "Audit": "Audit", "Other": "Other"} {
		spec := &v1alpha1.AuthorizationPolicySpec{Enforcement: given}
		v1alpha1.SetDefaults_AuthorizationPolicySpec(spec)
		if spec.Enforcement != want {
			t.Errorf("%q: got %q, want %q", given, spec.Enforcement, want)
		}
	}
}
