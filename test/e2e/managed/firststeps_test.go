/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/documents"
)

// testFirstSteps runs the commands of the first documents that newcomers read, in the order in which they are read.
func testFirstSteps(t *testing.T, r *rig) {
	t.Helper()
	for _, name := range []string{"first-steps.md", "templates.md", "barriers.md", "beside-other-tools.md", "tutorial.md"} {
		content, err := os.ReadFile(filepath.Join(r.Repository, "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		if n := documents.Blocks(string(content)); n < 1 {
			t.Errorf("found %d blocks in %s", n, name)
		}
		scripts := []string{string(content)}
		if name == "templates.md" {
			// The recipe is for all templates, also those with a policy that has no barrier.
			scripts = append(scripts, strings.ReplaceAll(string(content), "restart-and-scale", "everything-but-secrets"))
		}
		for _, script := range scripts {
			if err := documents.Run(t.Context(), r.Cluster, script); err != nil {
				t.Error(name, err)
			}
		}
	}
}
