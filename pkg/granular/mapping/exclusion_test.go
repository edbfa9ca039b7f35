/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// TestExclusions has the exclusions of one mapping, beside another one.
func TestExclusions(t *testing.T) {
	t.Parallel()
	boom := things.Excluded("spec.boom", "booms", "value == true")
	everywhere := mapping.Exclusion{Resource: things.Machines.GroupResource(), Others: true, Path: "spec.boom", Names: []string{"spec", "boom"}, Verb: "granular:booms", NewValues: "value == true"}
	inV1 := everywhere
	inV1.Versions, inV1.Others = []string{"v1"}, false
	elsewhere := mapping.Exclusion{Resource: things.Machines.GroupResource(), Others: true, Except: []string{"v1"}, Verb: "granular:booms"}
	scale := mapping.Exclusion{Resource: things.Machines.GroupResource(), Subresource: "scale", Others: true, Verb: "granular:booms"}
	scaleInV1 := scale
	scaleInV1.Versions, scaleInV1.Others = []string{"v1"}, false
	broken, brokenScale := everywhere, scale
	broken.Broken = `spec.boom has permission "booms" by FieldPermissionMapping "a" and "others" by FieldPermissionMapping "b"`
	brokenScale.Broken = broken.Broken
	sizes, disks := scale, scale
	disks.Verb, sizes.Verb, sizes.Field = "granular:disks", "granular:sizes", 1
	for name, tc := range map[string]struct {
		mapping, other *policy.FieldPermissionMapping
		want           []mapping.Exclusion
	}{
		"all versions":   {mapping: things.Mapping("a", things.Spec(boom, things.Field("spec.replicas", "replicas"))), want: []mapping.Exclusion{everywhere, scale}},
		"one version":    {mapping: things.Mapping("a", things.Spec(boom), "v1"), want: []mapping.Exclusion{inV1, elsewhere, scaleInV1}},
		"no exclusion":   {mapping: things.Mapping("a", things.Spec(things.Field("spec.boom", "booms")))},
		"contradictions": {mapping: things.Mapping("a", things.Spec(boom)), other: things.Mapping("b", things.Spec(things.Field("spec.boom", "others"))), want: []mapping.Exclusion{broken, brokenScale}},
		"the permission in another mapping": {
			mapping: things.Mapping("a", things.Spec(boom), "v1"), other: things.Mapping("b", things.Spec(things.Excluded("spec.bang", "booms", ""))), want: []mapping.Exclusion{inV1, scaleInV1},
		},
		"elements": {mapping: things.Mapping("a", things.Spec(things.Excluded("spec.disks[*]", "disks", ""), things.Excluded(`spec.disks[name="a"].size`, "sizes", ""))), want: []mapping.Exclusion{
			{Resource: things.Machines.GroupResource(), Others: true, Path: "spec.disks[*]", Names: []string{"spec", "disks"}, Every: true, Verb: "granular:disks"},
			{Field: 1, Resource: things.Machines.GroupResource(), Others: true, Path: `spec.disks[name="a"].size`, Names: []string{"spec", "disks"}, InElements: true, Verb: "granular:sizes"},
			disks, sizes,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mappings := []*policy.FieldPermissionMapping{tc.mapping}
			if tc.other != nil {
				mappings = append(mappings, tc.other)
			}
			got, err := mapping.NewTable(mappings...).Exclusions("a")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := mapping.NewTable(things.Mapping("a", things.Spec(things.Excluded("spec.boom", "booms", "value =")))).Exclusions("a"); !errors.Is(err, mapping.ErrInvalid) {
		t.Errorf("an invalid mapping: %v", err)
	}
}
