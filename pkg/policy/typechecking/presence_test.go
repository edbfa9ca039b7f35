/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package typechecking_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/test/testutil/rows"
)

// documentSchema is the schema of the objects of TestMissingFields.
const documentSchema = `{"type": "object", "required": ["spec"], "properties": {
	"metadata": {"type": "object", "properties": {"name": {"type": "string"}, "labels": {"type": "object", "additionalProperties": {"type": "string"}}}},
	"spec": {"type": "object", "required": ["containers", "size"], "properties": {
		"size": {"type": "integer"}, "replicas": {"type": "integer"}, "mode": {"type": "string", "default": "x"}, "number": {"type": "integer", "nullable": true},
		"box": {"type": "object", "nullable": true, "properties": {"a": {"type": "string"}}},
		"more": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
		"security": {"type": "object", "properties": {"user": {"type": "integer"}, "root": {"type": "boolean"}}},
		"inits": {"type": "array", "items": {"type": "object", "required": ["image"], "properties": {"image": {"type": "string"}, "name": {"type": "string"}}}},
		"containers": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["image"], "properties": {
			"image": {"type": "string"}, "name": {"type": "string"}, "limits": {"type": "object", "additionalProperties": {"type": "string"}}}}}}}}}`

// TestMissingFields asks what may be missing for conditions, and what to write instead.
func TestMissingFields(t *testing.T) {
	t.Parallel()
	table := map[string]string{"example.com/v1/Document": documentSchema}
	type row struct {
		// Effect is Deny if it is empty, and Verbs are create if there are none.
		Effect    policyv1alpha1.PolicyEffect
		Verbs     []string
		Variables []policyv1alpha1.Variable
		Condition string
		// Want has the warnings as "what, what the policy does; what to write", without the parts that all have. What a policy that denies does is left out.
		Want []string
	}
	rows.Run(t, "testdata/missing.yaml", func(t *testing.T, tc row) {
		spec := policy("documents", tc.Condition, tc.Variables...)
		if spec.Effect = tc.Effect; tc.Effect == "" {
			spec.Effect = policyv1alpha1.PolicyEffectDeny
		}
		if tc.Verbs != nil {
			spec.Rules[0].Verbs = tc.Verbs
		}
		c := checker(t, &schemas{table: table}, mapper(table))
		found, err := c.Check("", spec)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		short := strings.NewReplacer("example.com/v1, Kind=Document: ", "", "spec.condition: ", "", ": then the condition fails, and the policy denies; write ", "; ", ": then the condition fails, and the policy ", ", ", " may be missing", "", "; write ", "; ")
		for _, w := range warningsOf(found) {
			got = append(got, short.Replace(w))
			_, remedy, _ := strings.Cut(w, "; write ")
			remedy, _, _ = strings.Cut(remedy, ", and check ")
			remedy, _, _ = strings.Cut(remedy, ", or .orValue")
			remedy, isGuard := strings.CutSuffix(remedy, " && …")
			if isGuard || strings.HasSuffix(remedy, ".hasValue()") || strings.HasPrefix(remedy, "c.") {
				continue
			}
			again := policy("documents", "dyn("+remedy+") == 1", tc.Variables...)
			again.Rules = spec.Rules
			if found, err := c.Check("", again); err != nil || len(found.ExpressionWarnings) > 0 {
				t.Errorf("the remedy %s: %v %v", remedy, err, warningsOf(found))
			}
		}
		if diff := cmp.Diff(tc.Want, got); diff != "" {
			t.Errorf("warnings (-want +got):\n%s", diff)
		}
	})
}
