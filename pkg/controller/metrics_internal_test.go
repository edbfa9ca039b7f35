/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package controller

import (
	"strings"
	"testing"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
)

// TestStale has a series for each kind of objects, of the controller whose objects were loaded last.
func TestStale(t *testing.T) {
	t.Parallel()
	c := &collector{reasons: map[string]func() string{}}
	registry := metrics.NewKubeRegistry()
	registry.CustomMustRegister(c)
	for name, reason := range map[string]string{"policies": "", "field-permission-mappings": "no news"} {
		c.add(name, func() string { return "of an earlier server" })
		c.add(name, func() string { return reason })
	}
	want := strings.NewReader(`
		# HELP proviso_policy_stale [ALPHA] Whether stored objects may be out of date, so that they grant nothing: 1 or 0, by the check of /readyz that then fails: policies, field-permission-mappings or enforcement-configurations.
		# TYPE proviso_policy_stale gauge
		proviso_policy_stale{check="field-permission-mappings"} 1
		proviso_policy_stale{check="policies"} 0
`)
	if err := testutil.GatherAndCompare(registry, want, "proviso_policy_stale"); err != nil {
		t.Error(err)
	}
}
