/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

import (
	"os"
	"path/filepath"
	"strings"
)

const newest = "newest"

// BuiltKubernetes returns the names of the kube-apiservers that tests of managed clusters run, for Config.Kubernetes: those in PROVISO_KUBERNETES, which
// `make test-oldest` and `make test-versions` set, or else the newest, and the oldest if its binary is in the directory bin, since building it takes minutes.
func BuiltKubernetes(bin string) []string {
	if named := strings.Fields(os.Getenv("PROVISO_KUBERNETES")); len(named) > 0 {
		return named
	}
	if _, err := os.Stat(filepath.Join(bin, "kube-apiserver-oldest")); err == nil {
		return []string{newest, "oldest"}
	}
	return []string{newest}
}

// IsOld reports whether the kube-apiserver is not the newest one.
func (c *Config) IsOld() bool { return c.Kubernetes != "" && c.Kubernetes != newest }
