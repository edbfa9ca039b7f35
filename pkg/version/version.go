/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package version is the version of Proviso, stamped when it is built.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	apimachineryversion "k8s.io/apimachinery/pkg/version"
)

// gitVersion and gitCommit are set with -ldflags -X by the Makefile.
var (
	gitVersion = "v0.0.0-dev"
	gitCommit  = ""
)

// Get returns the version in the form in which API servers publish theirs. GitCommit is empty if the build
// did not stamp it; the state of the tree and the date of the build are always empty.
func Get() apimachineryversion.Info {
	major, rest, _ := strings.Cut(strings.TrimPrefix(gitVersion, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	return apimachineryversion.Info{
		Major:      major,
		Minor:      minor,
		GitVersion: gitVersion,
		GitCommit:  gitCommit,
		GoVersion:  runtime.Version(),
		Compiler:   runtime.Compiler,
		Platform:   runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// String returns the version of Proviso, and the versions of the Kubernetes libraries and of Go that it was built
// with, on one line.
func String() string {
	return fmt.Sprintf("%s (Kubernetes libraries %s, %s)", gitVersion, moduleVersion("k8s.io/apiserver"), runtime.Version())
}

func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == path {
				return dependency.Version
			}
		}
	}
	return "unknown"
}
