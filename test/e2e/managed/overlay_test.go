/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// testOverlay runs Proviso with the Deployment and the permissions of the overlay.
func testOverlay(t *testing.T, r *rig) {
	t.Helper()
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", r.KubeAPIServerPid()))
	if err != nil {
		t.Fatal(err)
	}
	for argument := range strings.SplitSeq(string(cmdline), "\x00") {
		for _, flag := range []string{"--authorization-config", "--authorization-webhook", "--admission-control-config-file", "--feature-gates", "--runtime-config"} {
			if strings.HasPrefix(argument, flag) {
				t.Errorf("kube-apiserver has %s", argument)
			}
		}
	}
	// kube-apiserver authorizes a request before it proxies it, so that conditions on objects that Proviso serves restrict users whom RBAC allows, and allow nothing that RBAC does
	// not, except on Proviso's own port.
	overlay := table(t, "overlay.yaml")
	r.MustApply(t, overlay.Manifest())
	for _, group := range []string{"review", "through kube-apiserver", "permissions"} {
		r.runner().Run(t, overlay.Rows[group])
	}
	direct, err := r.Client(cluster.Admin + "-direct")
	if err != nil {
		t.Fatal(err)
	}
	(&requests.Runner{Sender: requests.NewSender(direct, r.NewUser)}).Run(t, overlay.Rows["direct"])
	r.MustDelete(t, overlay.Manifest())
}
