/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package controller

import (
	"strings"
	"testing"

	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
)

// staleFor has objects that may be out of date for a reason.
type staleFor string

func (staleFor) Informers() []cache.SharedIndexInformer { return nil }
func (staleFor) IsLoaded() bool                         { return true }
func (s staleFor) Stale() string                        { return string(s) }

// TestStale has a series for each kind of objects, of the controller whose objects were loaded last.
func TestStale(t *testing.T) {
	t.Parallel()
	c := &collector{loaded: map[string]Stored{}}
	registry := metrics.NewKubeRegistry()
	registry.CustomMustRegister(c)
	for name, reason := range map[string]string{"policies": "", "field-permission-mappings": "no news"} {
		c.add(name, staleFor("of an earlier server"))
		c.add(name, staleFor(reason))
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
