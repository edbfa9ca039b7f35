/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package kubectl_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/golden"
	"github.com/proviso-authz/proviso/test/testutil/plane"
)

// TestKubectlCanImpersonate runs the plugin by kubectl, and compares what it prints.
func TestKubectlCanImpersonate(t *testing.T) {
	applyForTest(t, plane.TestData(t, "can-impersonate.yaml"))
	labelled, err := os.ReadFile(filepath.Join(stack.Repository, "artifacts", "impersonation", "labelled.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	applyForTest(t, string(labelled))
	printed := transcript(t, "can-impersonate")
	golden.Compare(t, filepath.Join("testdata", "can-impersonate.golden.txt"), printed)
	checkDocument(t, "agent", "can-impersonate", printed)
}
