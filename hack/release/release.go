/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/proviso-authz/proviso/hack/release/binary"
	"github.com/proviso-authz/proviso/hack/release/image"
	"github.com/proviso-authz/proviso/hack/release/sbom"
)

// writeImage writes the image and its bill of materials into a directory, and returns the digest of the image.
func (s *source) writeImage(ctx context.Context, dir string, build binary.Build) (digest string, err error) {
	if err := s.read(ctx); err != nil {
		return "", err
	}
	license, err := os.ReadFile(filepath.Join(s.root, "LICENSE"))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	executables := map[binary.Platform][]byte{}
	for _, platform := range image.Platforms {
		if executables[platform], err = build(ctx, image.Executable, platform); err != nil {
			return "", err
		}
	}
	digest, err = image.Write(filepath.Join(dir, image.Name), image.Description{Repository: s.Repository, Version: s.Tag, Commit: s.Commit, Created: s.Created}, license, executables)
	if err != nil {
		return "", err
	}
	artifact, err := server(s.Repository, digest, executables)
	if err != nil {
		return "", err
	}
	document := &sbom.Document{Name: image.Executable, Version: s.Tag, Created: s.Created}
	return digest, document.Write(dir, []sbom.Artifact{artifact})
}

// server returns what the bill of materials says of an image.
func server(repository, digest string, executables map[binary.Platform][]byte) (sbom.Artifact, error) {
	artifact := sbom.Artifact{Name: repository, SHA256: strings.TrimPrefix(digest, "sha256:")}
	for _, platform := range image.Platforms {
		info, err := binary.Read(executables[platform], platform)
		if err != nil {
			return artifact, err
		}
		artifact.Modules = append(artifact.Modules, info)
	}
	return artifact, nil
}
