/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// TestExcluding names the mappings that exclude a field, also those that are not valid.
func TestExcluding(t *testing.T) {
	t.Parallel()
	includes := things.Mapping("includes", things.Spec(things.Field("spec.a", "beauty")))
	excludes := things.Mapping("excludes", things.Spec(things.Field("spec.a", "beauty"), things.Excluded("spec.b", "bravery", "")))
	invalid := things.Mapping("invalid", things.Spec(things.Excluded("spec.c", "courage", "value ==")))
	nowhere := things.Mapping("nowhere", things.Spec(things.Excluded("spec.d", "daring", "")))
	nowhere.Spec.Resources = nil
	for _, tc := range []struct {
		name     string
		mappings []*policy.FieldPermissionMapping
		want     []string
	}{
		{"no mapping", nil, []string{}},
		{"a mapping that excludes nothing", []*policy.FieldPermissionMapping{includes}, []string{}},
		{"a mapping that excludes a field", []*policy.FieldPermissionMapping{includes, excludes}, []string{`FieldPermissionMapping "excludes"`}},
		{"a mapping that is not valid", []*policy.FieldPermissionMapping{invalid, excludes}, []string{`FieldPermissionMapping "excludes"`, `FieldPermissionMapping "invalid"`}},
		{"a mapping without resources", []*policy.FieldPermissionMapping{nowhere}, []string{`FieldPermissionMapping "nowhere"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, mapping.NewTable(tc.mappings...).Excluding()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
