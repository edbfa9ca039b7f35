/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package typechecking_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// TestMissingIsBounded has short conditions whose values double with each step. It is not parallel, because it counts what is allocated.
func TestMissingIsBounded(t *testing.T) {
	twice := func(first, item string) string {
		return first + strings.Repeat(".map(a, "+item+")", 10) + ".exists(a, a == object.kind)"
	}
	table := map[string]string{"example.com/v1/Document": documentSchema}
	for name, condition := range map[string]string{
		"texts":              twice(`["aaaaaaaa"]`, "a+a+a+a+a+a+a+a"),
		"texts of an object": twice("[object.kind]", "a+a+a+a+a+a+a+a"),
		"lists":              "[[object.kind]]" + strings.Repeat(".map(a, a+a+a+a+a+a+a+a)", 10) + ".exists(a, object.kind in a)",
	} {
		spec := policy("documents", condition)
		spec.Effect = policyv1alpha1.PolicyEffectDeny
		c := checker(t, &schemas{table: table}, mapper(table))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		if _, err := c.Check("", spec); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		t.Logf("%s: %s", name, time.Since(start))
		if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; allocated > 512 {
			t.Errorf("%s: %d MiB were allocated", name, allocated)
		}
	}
}
