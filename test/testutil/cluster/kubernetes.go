/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

import (
	"os"
	"path/filepath"
)

// Kubernetes is a kube-apiserver that tests of managed clusters run.
type Kubernetes struct {
	// Name is newest or oldest.
	Name string
	// Oldest is for Config.Oldest.
	Oldest bool
}

// BuiltKubernetes returns the newest kube-apiserver, and the oldest if its binary is in the directory bin. Building the oldest takes minutes, so
// that only `make test-oldest` and the demo do it. With PROVISO_OLDEST, which `make test-oldest` sets, it is always returned.
func BuiltKubernetes(bin string) []Kubernetes {
	built := []Kubernetes{{Name: "newest"}}
	if _, err := os.Stat(filepath.Join(bin, OldestKubeAPIServer)); err == nil || os.Getenv("PROVISO_OLDEST") != "" {
		built = append(built, Kubernetes{Name: "oldest", Oldest: true})
	}
	return built
}
