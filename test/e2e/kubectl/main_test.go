/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package kubectl_test runs the plugin kubectl-proviso. Its tests share a control plane and are not parallel, because policies and roles of
// other tests would change what the commands print.
package kubectl_test

import (
	"os"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/plane"
)

// stack is the control plane that the tests share.
var stack = &plane.Plane{}

var (
	kubectl          = stack.Kubectl
	kubectlWithInput = stack.KubectlWithInput
	mustKubectl      = stack.MustKubectl
	clients          = stack.Clients
)

func TestMain(m *testing.M) {
	os.Exit(stack.Run(m, 3, cluster.Config{Uncached: true, InnerDoor: &cluster.InnerDoor{Configuration: innerDoor}}))
}
