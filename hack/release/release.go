/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/hack/release/binary"
	"github.com/proviso-authz/proviso/hack/release/chart"
	"github.com/proviso-authz/proviso/hack/release/checksums"
	"github.com/proviso-authz/proviso/hack/release/image"
	"github.com/proviso-authz/proviso/hack/release/krew"
	"github.com/proviso-authz/proviso/hack/release/manifests"
	"github.com/proviso-authz/proviso/hack/release/provenance"
	"github.com/proviso-authz/proviso/hack/release/sbom"
)

const notesName = "NOTES.md"

func description(b provenance.Build) image.Description {
	return image.Description{Repository: b.Repository, Version: b.Tag, Commit: b.Commit, Created: b.Created}
}

func document(b provenance.Build, name string) *sbom.Document {
	return &sbom.Document{Name: name, Version: b.Tag, Created: b.Created}
}

// write writes a release into a directory, which has nothing else afterwards.
func (s *source) write(ctx context.Context, dir string, build binary.Build) error {
	notes, err := s.check(ctx)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := s.writeServer(ctx, dir, build); err != nil {
		return err
	}
	archives, err := krew.Write(ctx, s.root, dir, s.Tag, s.Created, build)
	if err != nil {
		return err
	}
	artifacts, err := plugins(archives)
	if err != nil {
		return err
	}
	return errors.Join(
		document(s.Build, krew.Executable).Write(dir, artifacts),
		os.WriteFile(filepath.Join(dir, notesName), []byte(notes), 0o644),
		provenance.Write(dir, s.Build), // after all files but the last
		checksums.Write(dir),
	)
}

// writeServer writes those files of a release that install the server.
func (s *source) writeServer(ctx context.Context, dir string, build binary.Build) error {
	digest, err := s.writeImage(ctx, dir, build)
	if err != nil {
		return err
	}
	return errors.Join(
		manifests.Write(s.root, dir, s.Repository+"@"+digest),
		chart.Write(s.root, dir, s.Tag, s.Repository+"@"+digest, s.Created),
	)
}

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
	digest, err = image.Write(filepath.Join(dir, image.Name), description(s.Build), license, executables)
	if err != nil {
		return "", err
	}
	artifact, err := server(s.Repository, digest, executables)
	if err != nil {
		return "", err
	}
	return digest, document(s.Build, image.Executable).Write(dir, []sbom.Artifact{artifact})
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

// plugins returns what the bill of materials says of the archives.
func plugins(archives []krew.Archive) (artifacts []sbom.Artifact, err error) {
	for _, a := range archives {
		info, err := binary.Read(a.Executable, a.Platform)
		if err != nil {
			return nil, err
		}
		artifacts = append(artifacts, sbom.Artifact{Name: a.Name, SHA256: a.SHA256, Modules: []*debug.BuildInfo{info}})
	}
	return artifacts, nil
}

// verify returns an error if the files in a directory are not a release, or differ from each other.
func verify(ctx context.Context, dir string) error {
	if err := checksums.Verify(dir); err != nil {
		return err
	}
	b, err := provenance.Read(dir)
	if err != nil {
		return err
	}
	digest, executables, err := image.Read(filepath.Join(dir, image.Name), description(b))
	if err != nil {
		return err
	}
	servers, err := server(b.Repository, digest, executables)
	if err != nil {
		return err
	}
	archives, err := krew.Read(dir, b.Tag)
	if err != nil {
		return err
	}
	artifacts, err := plugins(archives)
	if err != nil {
		return err
	}
	notes, err := os.ReadFile(filepath.Join(dir, notesName))
	if err != nil {
		return err
	}
	_, err = section(string(notes), b.Tag)
	err = errors.Join(err,
		manifests.Verify(dir, b.Repository+"@"+digest),
		chart.Verify(dir, b.Tag),
		document(b, image.Executable).Verify(dir, []sbom.Artifact{servers}),
		document(b, krew.Executable).Verify(dir, artifacts),
	)
	for platform, executable := range executables {
		err = errors.Join(err, verifyVersion(ctx, b, executable, platform, "--version"))
	}
	for _, a := range archives {
		err = errors.Join(err, verifyVersion(ctx, b, a.Executable, a.Platform, "version"))
	}
	if err == nil {
		fmt.Printf("%s is the release %s of commit %s, with the image\n%s@%s\n", dir, b.Tag, b.Commit, b.Repository, digest)
	}
	return err
}

// render writes the objects of each variant of the chart into a directory.
func render(root, dir string) error {
	c, err := chart.Load(root)
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(filepath.Join(root, "artifacts", "inner-door", "serving-ca.crt"))
	if err != nil {
		return err
	}
	all, err := chart.Variants(string(ca), "kind: InnerDoorConfiguration\n")
	if err != nil {
		return err
	}
	for _, v := range all {
		manifest, err := chart.Render(c, v.Values)
		if err != nil {
			return fmt.Errorf("%s: %w", v.Name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, v.Name+".yaml"), []byte(manifest), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// template writes the objects of the chart of a release, as `helm template` does with a file of values.
func template(dir, tag string, values io.Reader, out io.Writer) error {
	c, err := loader.LoadFile(filepath.Join(dir, chart.Name(tag)))
	if err != nil {
		return err
	}
	text, err := io.ReadAll(values)
	if err != nil {
		return err
	}
	set := map[string]any{}
	if err := yaml.UnmarshalStrict(text, &set); err != nil {
		return err
	}
	manifest, err := chart.Render(c, set)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, manifest)
	return err
}

// verifyVersion returns an error if an executable does not have the tag and the commit in it. One for this machine must print the tag.
func verifyVersion(ctx context.Context, b provenance.Build, executable []byte, platform binary.Platform, arg string) error {
	for _, want := range []string{b.Tag, b.Commit} {
		if !bytes.Contains(executable, []byte(want)) {
			return fmt.Errorf("an executable for %s was not built with the version %s", platform, want)
		}
	}
	if platform != (binary.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}) {
		return nil
	}
	dir, err := os.MkdirTemp("", "proviso")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "executable")
	if err := os.WriteFile(file, executable, 0o700); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, file, arg).CombinedOutput()
	if err == nil && !strings.Contains(string(out), b.Tag+" (") {
		err = errors.New("it has another version")
	}
	if err != nil {
		return fmt.Errorf("an executable for %s, which must be %s, prints %q: %w", platform, b.Tag, out, err)
	}
	return nil
}
