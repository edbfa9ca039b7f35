/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"path/filepath"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/templatetable"
)

// testTemplates tries the templates on clusters whose kube-apiserver has no flag for Proviso: barriers alone refuse requests.
func testTemplates(t *testing.T, r *rig) {
	t.Helper()
	templatetable.Run(t, &templatetable.Cluster{
		Kubectl: r.Kubectl, Sender: r.Sender, Folder: filepath.Join(r.Repository, "artifacts", "templates"),
	})
}
