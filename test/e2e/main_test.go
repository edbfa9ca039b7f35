/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"os"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/plane"
)

// stack is the control plane that the tests share. Tests that stop parts of it must not
// be parallel, and must start them again.
var stack = &plane.Plane{}

var (
	kubectl           = stack.Kubectl
	kubectlWithInput  = stack.KubectlWithInput
	kubectlWithEditor = stack.KubectlWithEditor
	mustKubectl       = stack.MustKubectl
	config            = stack.ClientConfig
	clients           = stack.Clients
)

func TestMain(m *testing.M) {
	os.Exit(stack.Run(m, 2, cluster.Config{Deployment: true, Uncached: true}))
}
