/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
	"github.com/proviso-authz/proviso/test/testutil/rows"
)

// TestPartialChecksForOthers has conditions of a policy of the namespace demo.
func TestPartialChecksForOthers(t *testing.T) {
	t.Parallel()
	compiler := compilers.Policies(t)
	type row struct {
		Condition           string
		Variables           []cel.NamedExpression
		Want, WantOfCluster bool
	}
	rows.Run(t, "testdata/others.yaml", func(t *testing.T, tc row) {
		expression, err := compiler.CompileWithVariables(tc.Variables, tc.Condition)
		if err != nil {
			t.Fatal(err)
		}
		if got, ofCluster := expression.ChecksForOthers("demo"), expression.ChecksForOthers(""); got != tc.Want || ofCluster != tc.WantOfCluster {
			t.Errorf("got %t, and %t without a namespace, want %t and %t", got, ofCluster, tc.Want, tc.WantOfCluster)
		}
	})
}
