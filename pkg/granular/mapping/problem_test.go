/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping_test

import (
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

func TestProblems(t *testing.T) {
	t.Parallel()
	words, terms := things.Spec(things.Field("spec.tags", "words")), things.Spec(things.Field("spec.tags", "terms"))
	const between = `in machines.example.com, spec.tags has permission "words" by FieldPermissionMapping "m" and "terms" by FieldPermissionMapping "n"`
	elsewhere := things.Mapping("n", terms)
	elsewhere.Spec.Resources[0].Resource = "others"
	nowhere := things.Mapping("n", things.Spec(things.Field("spec.tags", "words")))
	nowhere.Spec.Resources = nil
	for _, tc := range []struct {
		name     string
		mappings []*policy.FieldPermissionMapping
		want     map[string]mapping.Problem // a part of the reason
	}{
		{"none", []*policy.FieldPermissionMapping{things.Mapping("m", words)}, map[string]mapping.Problem{"m": {}, "unknown": {}}},
		{"the same twice", []*policy.FieldPermissionMapping{things.Mapping("m", words), things.Mapping("n", words)}, map[string]mapping.Problem{"m": {}, "n": {}}},
		{"a contradiction", []*policy.FieldPermissionMapping{things.Mapping("m", words), things.Mapping("n", terms)}, map[string]mapping.Problem{
			"m": {Reason: between}, "n": {Reason: `has permission "terms" by FieldPermissionMapping "n" and "words" by FieldPermissionMapping "m"`},
		}},
		{"one against two", []*policy.FieldPermissionMapping{things.Mapping("a", words), things.Mapping("m", words), things.Mapping("n", terms)}, map[string]mapping.Problem{
			"a": {Reason: `"words" by FieldPermissionMapping "a" and "terms" by FieldPermissionMapping "n"`},
			"m": {Reason: between}, "n": {Reason: `"words" by FieldPermissionMapping "a"`},
		}},
		{"in another parameter", []*policy.FieldPermissionMapping{
			things.Mapping("m", things.Spec(things.Parameterized("spec.tags[*]", "word", policy.FieldPermissionParameter{}))),
			things.Mapping("n", things.Spec(things.Parameterized("spec.tags[*]", "word", policy.FieldPermissionParameter{Treatment: policy.ParameterTreatmentSlashDelimitedPrefix}))),
		}, map[string]mapping.Problem{"m": {Reason: "in machines.example.com, spec.tags[*]"}, "n": {Reason: `"word" by FieldPermissionMapping "m", with different parameters`}}},
		{"of another resource", []*policy.FieldPermissionMapping{things.Mapping("m", words), elsewhere}, map[string]mapping.Problem{"m": {}, "n": {}}},
		{"in another version", []*policy.FieldPermissionMapping{things.Mapping("m", words, "v1"), things.Mapping("n", terms, "v2")}, map[string]mapping.Problem{"m": {}, "n": {}}},
		{"in one of the versions", []*policy.FieldPermissionMapping{things.Mapping("m", words, "v1", "v2"), things.Mapping("n", terms, "v2")}, map[string]mapping.Problem{"m": {Reason: between}, "n": {Reason: "spec.tags"}}},
		{"in a version and in all", []*policy.FieldPermissionMapping{things.Mapping("m", words), things.Mapping("n", terms, "v2")}, map[string]mapping.Problem{"m": {Reason: between}, "n": {Reason: "spec.tags"}}},
		{"not valid", []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(things.Field("spec..", "words"))), things.Mapping("n", terms)}, map[string]mapping.Problem{
			"m": {Invalid: true, Reason: "spec.fields[0].path: Invalid value"}, "n": {},
		}},
		{"against what is built in", []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(things.Field("metadata.labels", "stickers")))}, map[string]mapping.Problem{
			"m": {Invalid: true, Reason: "built-in permission"},
		}},
		{"without resources", []*policy.FieldPermissionMapping{nowhere}, map[string]mapping.Problem{"n": {Invalid: true, Reason: "spec.resources: Required"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			problems := mapping.NewTable(tc.mappings...).Problems()
			for name, want := range tc.want {
				got := problems(name)
				if got.Invalid != want.Invalid || !strings.Contains(got.Reason, want.Reason) || (got.Reason == "") != (want.Reason == "") {
					t.Errorf("%s: got %+v, want %+v", name, got, want)
				}
			}
		})
	}
}
