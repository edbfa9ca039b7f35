/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"path/filepath"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/templatetable"
)

// TestTemplates tries the templates on a cluster with the front door, the inner door and barriers.
func TestTemplates(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", func(c *cluster.Config) { c.Args = append(c.Args, "--barriers") })
	templatetable.Run(t, &templatetable.Cluster{Kubectl: r.Kubectl, Sender: r.Sender, Folder: filepath.Join(r.Manifests, "templates"), FrontDoor: true})
}
