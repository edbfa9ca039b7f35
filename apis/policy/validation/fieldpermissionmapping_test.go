/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package validation_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/apis/policy/validation"
)

// validMapping is a valid mapping with everything.
func validMapping() policy.FieldPermissionMappingSpec {
	return policy.FieldPermissionMappingSpec{
		Description: "who may destroy machines",
		Resources:   []policy.FieldPermissionResource{{APIGroup: "demo.proviso.dev", APIVersions: []string{"v1alpha1"}, Resource: "virtualmachines"}, {Resource: "pods"}},
		Fields: []policy.FieldPermission{
			{Path: "spec.disks[*]", Permission: "disk", Parameter: &policy.FieldPermissionParameter{Key: "name", Treatment: "Expression", Expression: "parameter"}},
			{Path: "spec.boom", Permission: "selfDestruction", Exclusion: &policy.FieldExclusion{NewValues: "value == true"}},
		},
	}
}

func TestMapping(t *testing.T) {
	t.Parallel()
	type mappingSpec = policy.FieldPermissionMappingSpec
	for _, tc := range []struct {
		name   string
		change func(s *mappingSpec)
		want   []string
	}{
		{"everything", func(*mappingSpec) {}, nil},
		{"a long description", func(s *mappingSpec) { s.Description = strings.Repeat("a", 1025) }, []string{"spec.description: Too long"}},
		{"no resources", func(s *mappingSpec) { s.Resources = nil }, []string{"spec.resources: Required value"}},
		{"many resources", func(s *mappingSpec) { s.Resources = make([]policy.FieldPermissionResource, 65) }, []string{"spec.resources: Too many: 65"}},
		{"a resource without name", func(s *mappingSpec) { s.Resources[0].Resource = "" }, []string{"spec.resources[0].resource: Required value"}},
		{"a resource with a bad name", func(s *mappingSpec) { s.Resources[0].Resource = "pods/status" }, []string{"spec.resources[0].resource: Invalid value"}},
		{"every resource", func(s *mappingSpec) { s.Resources[0].Resource = "*" }, []string{"spec.resources[0].resource: Invalid value"}},
		{"a bad group", func(s *mappingSpec) { s.Resources[0].APIGroup = "*" }, []string{"spec.resources[0].apiGroup: Invalid value"}},
		{"a bad version", func(s *mappingSpec) { s.Resources[0].APIVersions = []string{"*"} }, []string{"spec.resources[0].apiVersions[0]: Invalid value"}},
		{"an empty version", func(s *mappingSpec) { s.Resources[0].APIVersions = []string{""} }, []string{"spec.resources[0].apiVersions[0]: Required value"}},
		{"a version twice", func(s *mappingSpec) { s.Resources[0].APIVersions = []string{"v1", "v1"} }, []string{"spec.resources[0].apiVersions[1]: Duplicate value"}},
		{"a resource twice", func(s *mappingSpec) { s.Resources[1] = s.Resources[0] }, []string{"spec.resources[1]: Duplicate value"}},
		{"no fields", func(s *mappingSpec) { s.Fields = nil }, []string{"spec.fields: Required value"}},
		{"many fields", func(s *mappingSpec) { s.Fields = make([]policy.FieldPermission, 257) }, []string{"spec.fields: Too many: 257"}},
		{"no path", func(s *mappingSpec) { s.Fields[0].Path = "" }, []string{"spec.fields[0].path: Required value"}},
		{"a long path", func(s *mappingSpec) { s.Fields[0].Path = strings.Repeat("a", 1025) }, []string{"spec.fields[0].path: Too long"}},
		{"no permission", func(s *mappingSpec) { s.Fields[0].Permission = "" }, []string{"spec.fields[0].permission: Required value"}},
		{"a long permission", func(s *mappingSpec) { s.Fields[0].Permission = strings.Repeat("a", 64) }, []string{"spec.fields[0].permission: Too long"}},
		{"a long key", func(s *mappingSpec) { s.Fields[0].Parameter.Key = strings.Repeat("a", 254) }, []string{"spec.fields[0].parameter.key: Too long"}},
		{"an unknown treatment", func(s *mappingSpec) {
			s.Fields[0].Parameter = &policy.FieldPermissionParameter{Treatment: "slash-delimited-prefix"}
		}, []string{"spec.fields[0].parameter.treatment: Unsupported value"}},
		{"no expression", func(s *mappingSpec) { s.Fields[0].Parameter.Expression = "" }, []string{"spec.fields[0].parameter.expression: Required value"}},
		{"a long expression", func(s *mappingSpec) { s.Fields[0].Parameter.Expression = strings.Repeat("a", 1025) }, []string{"spec.fields[0].parameter.expression: Too long"}},
		{"an expression for nothing", func(s *mappingSpec) { s.Fields[0].Parameter.Treatment = "Verbatim" }, []string{"spec.fields[0].parameter.expression: Forbidden"}},
		{"long new values", func(s *mappingSpec) { s.Fields[1].Exclusion.NewValues = strings.Repeat("a", 1025) }, []string{"spec.fields[1].exclusion.newValues: Too long"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := validMapping()
			tc.change(&s)
			check(t, "create", validation.ValidateFieldPermissionMapping(&policy.FieldPermissionMapping{ObjectMeta: meta{Name: "one"}, Spec: s}), tc.want)
			old := &policy.FieldPermissionMapping{ObjectMeta: stored(), Spec: validMapping()}
			check(t, "update", validation.ValidateFieldPermissionMappingUpdate(&policy.FieldPermissionMapping{ObjectMeta: stored(), Spec: s}, old), tc.want)
		})
	}
}

func TestMappingMetadata(t *testing.T) {
	t.Parallel()
	mapping := func(m meta) *policy.FieldPermissionMapping {
		return &policy.FieldPermissionMapping{ObjectMeta: m, Spec: validMapping()}
	}
	check(t, "a long name", validation.ValidateFieldPermissionMapping(mapping(meta{Name: strings.Repeat("a", 64)})), []string{"metadata.name: Invalid value"})
	check(t, "a namespace", validation.ValidateFieldPermissionMapping(mapping(meta{Name: "one", Namespace: "n"})), []string{"metadata.namespace: Forbidden"})
	check(t, "another UID", validation.ValidateFieldPermissionMappingUpdate(mapping(meta{Name: "one", ResourceVersion: "1", UID: "v", Generation: 3}), mapping(stored())), []string{"metadata.uid: Invalid value"})
}

func TestMappingStatus(t *testing.T) {
	t.Parallel()
	update := func(observed, before int64, conditions ...metav1.Condition) []string {
		mapping := func(observed int64, conditions ...metav1.Condition) *policy.FieldPermissionMapping {
			return &policy.FieldPermissionMapping{ObjectMeta: stored(), Spec: validMapping(), Status: policy.FieldPermissionMappingStatus{ObservedGeneration: observed, Conditions: conditions}}
		}
		var texts []string
		for _, err := range validation.ValidateFieldPermissionMappingStatusUpdate(mapping(observed, conditions...), mapping(before)) {
			texts = append(texts, err.Field)
		}
		return texts
	}
	for _, tc := range []struct {
		name string
		got  []string
		want string
	}{
		{"as it should be", update(3, 2), ""},
		{"a generation that is to come", update(4, 2), "status.observedGeneration"},
		{"an older generation", update(1, 2), "status.observedGeneration"},
		{"a bad condition", update(3, 2, metav1.Condition{Type: "Ready"}), "status.conditions[0].status status.conditions[0].lastTransitionTime status.conditions[0].reason"},
		{"many conditions", update(3, 2, make([]metav1.Condition, 17)...), "status.conditions"},
	} {
		if got := strings.Join(tc.got, " "); got != tc.want {
			t.Errorf("%s: got errors at %q, want %q", tc.name, got, tc.want)
		}
	}
}
