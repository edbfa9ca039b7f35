/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping_test

import (
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/apis/policy/validation"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
)

// TestDocumentedMappings are in order.
func TestDocumentedMappings(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/fine-grained.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, part := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		if !strings.Contains(block, "kind: FieldPermissionMapping") {
			continue
		}
		found++
		stored, converted := &v1alpha1.FieldPermissionMapping{}, &policy.FieldPermissionMapping{}
		if err := yaml.UnmarshalStrict([]byte(block), stored); err != nil {
			t.Fatal(err)
		}
		v1alpha1.SetObjectDefaults_FieldPermissionMapping(stored)
		if err := v1alpha1.Convert_v1alpha1_FieldPermissionMapping_To_policy_FieldPermissionMapping(stored, converted, nil); err != nil {
			t.Fatal(err)
		}
		if errs := validation.ValidateFieldPermissionMapping(converted); len(errs) > 0 {
			t.Errorf("mapping %q: %v", converted.Name, errs)
		}
		if _, warnings, errs := mapping.Compile(converted.Name, &converted.Spec); len(errs) > 0 || len(warnings) > 0 {
			t.Errorf("mapping %q: %v, warnings %q", converted.Name, errs, warnings)
		}
	}
	if found == 0 {
		t.Error("no mapping was found")
	}
}
