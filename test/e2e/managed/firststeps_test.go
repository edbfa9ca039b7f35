/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/documents"
)

// TestFirstSteps runs the commands of the first document that newcomers read.
func TestFirstSteps(t *testing.T) {
	t.Parallel()
	onEachKubernetes(t, func(t *testing.T, r *rig) {
		content, err := os.ReadFile(filepath.Join(r.repository, "docs", "first-steps.md"))
		if err != nil {
			t.Fatal(err)
		}
		if n := documents.Blocks(string(content)); n < 5 {
			t.Errorf("found %d blocks", n)
		}
		if err := documents.Run(t.Context(), r.Cluster, string(content)); err != nil {
			t.Error(err)
		}
	})
}
