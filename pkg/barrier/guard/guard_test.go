/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/barrier/guard"
	"github.com/proviso-authz/proviso/test/testutil/golden"
)

// TestManifest holds the manifest. test/e2e/guard tests what it does.
func TestManifest(t *testing.T) {
	t.Parallel()
	manifest, err := guard.Manifest("proviso-system")
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, filepath.Join("testdata", "guard.yaml"), string(manifest))
	other, err := guard.Manifest("other")
	if err != nil || !strings.Contains(string(other), "system:serviceaccount:other:proviso-apiserver") {
		t.Errorf("got %v, and no identity of another namespace in\n%s", err, other)
	}
	if _, err := guard.Manifest("Not a name"); err == nil {
		t.Error("got no error for a namespace that cannot exist")
	}
}
