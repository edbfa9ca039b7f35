/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"fmt"
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

// tokens issues tokens that kube-apiserver of the control plane accepts.
var tokens *issuer

func TestMain(m *testing.M) {
	cluster.MaybeContainer()
	var err error
	if tokens, err = newIssuer(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := stack.Run(m, 2, cluster.Config{Deployment: true, Uncached: true, KubeAPIServerArgs: []string{"--authentication-config=" + tokens.configuration}})
	tokens.Close()
	_ = os.Remove(tokens.configuration)
	os.Exit(code)
}
