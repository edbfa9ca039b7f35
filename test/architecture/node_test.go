/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package architecture_test

import (
	"os"
	"regexp"
	"testing"
)

// TestNodeHasTheVersionOfTheControlPlane compares the version of Kubernetes in two modules: a kubelet must not be newer than its kube-apiserver.
func TestNodeHasTheVersionOfTheControlPlane(t *testing.T) {
	t.Parallel()
	required := regexp.MustCompile(`(?m)^\tk8s\.io/kubernetes (v\S+)`)
	version := func(path string) string {
		content, err := os.ReadFile(path) //nolint:gosec // a file of the repository
		if err != nil {
			t.Fatal(err)
		}
		found := required.FindSubmatch(content)
		if found == nil {
			t.Fatalf("%s does not require Kubernetes", path)
		}
		return string(found[1])
	}
	if got, want := version("../../hack/controlplane/node/go.mod"), version("../../hack/controlplane/go.mod"); got != want {
		t.Errorf("hack/controlplane/node: got Kubernetes %s, want %s", got, want)
	}
}
