/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package binary builds the executables of a release.
package binary

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
)

// Platform is an operating system and an architecture, as Go names them.
type Platform struct{ OS, Arch string }

func (p Platform) String() string { return p.OS + "/" + p.Arch }

// Build builds an executable for a platform, and returns its content.
type Build func(ctx context.Context, name string, platform Platform) ([]byte, error)

// Go returns a function that builds the executables in cmd. The same commit, the same flags and the same version of Go give the same bytes.
func Go(root, linkerFlags string) Build {
	return func(ctx context.Context, name string, platform Platform) ([]byte, error) {
		dir, err := os.MkdirTemp("", "proviso")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		fmt.Printf("building %s for %s …\n", name, platform)
		file := filepath.Join(dir, name)
		cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", linkerFlags, "-o", file, "./cmd/"+name)
		cmd.Dir, cmd.Stdout, cmd.Stderr = root, os.Stdout, os.Stderr
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOENV=off", "GOEXPERIMENT=", "GOFLAGS=-trimpath -buildvcs=false -mod=readonly", "GOWORK=off", "GOAMD64=v1", "GOARM64=v8.0", "GOOS="+platform.OS, "GOARCH="+platform.Arch)
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("%s for %s: %w", name, platform, err)
		}
		return os.ReadFile(file)
	}
}

// Read returns the modules of an executable, and an error if it was built for another platform.
func Read(executable []byte, platform Platform) (*debug.BuildInfo, error) {
	info, err := buildinfo.Read(bytes.NewReader(executable))
	if err != nil {
		return nil, err
	}
	var built Platform
	for _, setting := range info.Settings {
		switch setting.Key {
		case "GOOS":
			built.OS = setting.Value
		case "GOARCH":
			built.Arch = setting.Value
		}
	}
	if built != platform {
		return nil, fmt.Errorf("the executable is for %s, want %s", built, platform)
	}
	return info, nil
}
