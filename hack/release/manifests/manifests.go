/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package manifests writes and verifies the manifests of a release: each overlay as one file, with the image pinned by its digest, and a
// kustomization that adds the certificates of the user. No file has a certificate or a key.
package manifests

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// Overlays are the folders in artifacts that a release has, by the names of the files. The overlay demo is for clones: it trusts the CA that
// `make certs` made there.
var Overlays = map[string]string{
	"install-base.yaml":    "base",
	"install-ha.yaml":      "overlays/ha",
	"install-managed.yaml": "overlays/managed",
}

const (
	// KustomizationName is the name of the kustomization that adds a certificate.
	KustomizationName = "kustomization.yaml"
	// imageName is the image in artifacts.
	imageName = "proviso-apiserver"
	header    = `# Adds your certificate to a manifest of the release. Put three files beside it: tls.crt and tls.key, a serving certificate for
# proviso-apiserver.proviso-system.svc, and ca.crt, its CA. Then: kubectl apply --server-side -k .
`
)

// Write writes the manifests into a directory. image is pinned, such as ghcr.io/proviso-authz/proviso-apiserver@sha256:….
func Write(root, dir, image string) error {
	files, err := render(root, image)
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// render returns the files.
func render(root, image string) (map[string][]byte, error) {
	repository, digest, found := strings.Cut(image, "@")
	if !found {
		return nil, fmt.Errorf("the image %q has no digest", image)
	}
	disk, memory := filesys.MakeFsOnDisk(), filesys.MakeFsInMemory()
	for _, folder := range []string{"base", "barriers", "overlays"} {
		if err := disk.Walk(filepath.Join(root, "artifacts", folder), func(path string, info os.FileInfo, err error) error {
			if err != nil || info.IsDir() {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return memory.WriteFile("/"+filepath.ToSlash(name), content)
		}); err != nil {
			return nil, err
		}
	}
	kustomization, err := takeCertificates(memory)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{KustomizationName: kustomization}
	for name, folder := range Overlays {
		content := fmt.Sprintf("resources: [../artifacts/%s]\nimages: [{name: %s, newName: %q, digest: %q}]\n", folder, imageName, repository, digest)
		if err := memory.WriteFile("/release/"+KustomizationName, []byte(content)); err != nil {
			return nil, err
		}
		resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(memory, "/release")
		if err != nil {
			return nil, fmt.Errorf("artifacts/%s: %w", folder, err)
		}
		if files[name], err = resources.AsYaml(); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// takeCertificates removes the certificates from the base, and returns a kustomization that adds them to its result.
func takeCertificates(fs filesys.FileSystem) ([]byte, error) {
	const path = "/artifacts/base/" + KustomizationName
	text, err := fs.ReadFile(path)
	if err != nil {
		return nil, err
	}
	base := map[string]any{}
	if err := yaml.Unmarshal(text, &base); err != nil {
		return nil, err
	}
	taken := map[string]any{"apiVersion": base["apiVersion"], "kind": base["kind"], "resources": []string{"install-base.yaml"}}
	for _, field := range []string{"secretGenerator", "replacements"} {
		if base[field] == nil {
			return nil, fmt.Errorf("artifacts/base/%s has no %s", KustomizationName, field)
		}
		taken[field] = base[field]
		delete(base, field)
	}
	if text, err = yaml.Marshal(base); err != nil {
		return nil, err
	}
	if err := fs.WriteFile(path, text); err != nil {
		return nil, err
	}
	text, err = yaml.Marshal(taken)
	return append([]byte(header), bytes.ReplaceAll(text, []byte("certs/"), nil)...), err
}

// Verify returns an error if a manifest in the directory is missing, has another image, or has a Secret.
func Verify(dir, image string) error {
	if _, err := os.Stat(filepath.Join(dir, KustomizationName)); err != nil {
		return err
	}
	for name := range Overlays {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		images, err := imagesOf(content)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if len(images) != 1 || images[0] != image {
			return fmt.Errorf("%s has the images %q, want %q", name, images, image)
		}
	}
	return nil
}

// imagesOf returns the images of the containers of a manifest.
func imagesOf(manifest []byte) (images []string, err error) {
	for text := range bytes.SplitSeq(manifest, []byte("\n---\n")) {
		var object struct {
			Kind string
			Spec struct {
				Template struct {
					Spec struct{ InitContainers, Containers []struct{ Image string } }
				}
			}
		}
		if err := yaml.Unmarshal(text, &object); err != nil {
			return nil, err
		}
		if object.Kind == "Secret" {
			return nil, errors.New("a manifest of a release must not have a Secret")
		}
		spec := object.Spec.Template.Spec
		for _, container := range append(spec.InitContainers, spec.Containers...) {
			images = append(images, container.Image)
		}
	}
	return images, nil
}
