/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package chart

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/hack/release/archive"
	"github.com/proviso-authz/proviso/hack/release/manifests"
)

// Name returns the name of the archive of a tag, which helm requires.
func Name(tag string) string { return "proviso-" + strings.TrimPrefix(tag, "v") + ".tgz" }

// Write writes the archive for a tag into a directory. image is pinned by its digest, and becomes the default of the values. All files have the time of
// the commit.
func Write(root, dir, tag, image string, created time.Time) error {
	repository, digest, found := strings.Cut(image, "@")
	if !found {
		return fmt.Errorf("the image %q has no digest", image)
	}
	c, err := Load(root)
	if err != nil {
		return err
	}
	var files []archive.File
	for _, file := range c.Raw {
		content := file.Data
		switch file.Name {
		case "Chart.yaml":
			content, err = set(content, map[string]string{"version": strings.TrimPrefix(tag, "v"), "appVersion": tag})
		case "values.yaml":
			content, err = set(content, map[string]string{"image.repository": repository, "image.digest": digest})
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file.Name, err)
		}
		files = append(files, archive.File{Name: c.Name() + "/" + file.Name, Mode: 0o644, Content: content})
	}
	slices.SortFunc(files, func(a, b archive.File) int { return strings.Compare(a.Name, b.Name) })
	content, err := archive.Compress(created, files)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, Name(tag)), content, 0o644)
}

// set sets fields of a document, and keeps its comments and blank lines.
func set(content []byte, fields map[string]string) ([]byte, error) {
	document, err := kyaml.Parse(string(content))
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(content), "\n")
	for path, value := range fields {
		field, err := document.Pipe(kyaml.Lookup(strings.Split(path, ".")...))
		if err != nil {
			return nil, err
		}
		if field == nil {
			return nil, fmt.Errorf("there is no field %s", path)
		}
		line, column := field.YNode().Line-1, field.YNode().Column-1
		lines[line] = lines[line][:column] + strconv.Quote(value)
	}
	return []byte(strings.Join(lines, "\n")), nil
}

// placeholder has the form of a certificate.
const placeholder = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

// Verify returns an error if the archive in a directory has another version, has a private key, or gives other objects than the manifests of the
// release.
func Verify(dir, tag string) error {
	content, err := os.ReadFile(filepath.Join(dir, Name(tag)))
	if err != nil {
		return err
	}
	files, err := archive.Uncompress(content)
	if err != nil {
		return fmt.Errorf("%s: %w", Name(tag), err)
	}
	for _, file := range files {
		if bytes.Contains(file.Content, []byte("PRIVATE KEY-----")) {
			return fmt.Errorf("%s: %s has a private key", Name(tag), file.Name)
		}
	}
	c, err := loader.LoadArchive(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("%s: %w", Name(tag), err)
	}
	if c.Metadata.Version != strings.TrimPrefix(tag, "v") || c.Metadata.AppVersion != tag {
		return fmt.Errorf("%s has the version %s and the appVersion %s, want %s", Name(tag), c.Metadata.Version, c.Metadata.AppVersion, tag)
	}
	all, err := Variants(placeholder, "")
	if err != nil {
		return err
	}
	for name, folder := range manifests.Overlays {
		fs, err := withCertificate(dir, name)
		if err != nil {
			return err
		}
		for _, v := range all {
			if v.Resources != folder || v.Components != nil {
				continue
			}
			if err := Compare(c, v.Values, fs, "/"); err != nil {
				return fmt.Errorf("%s and %s: %w", Name(tag), name, err)
			}
		}
	}
	return nil
}

// withCertificate returns files with which kustomize adds a placeholder of a certificate to a manifest of a release.
func withCertificate(dir, manifest string) (filesys.FileSystem, error) {
	fs := filesys.MakeFsInMemory()
	contents := map[string][]byte{"tls.crt": []byte(placeholder), "tls.key": nil, "ca.crt": []byte(placeholder)}
	for _, name := range []string{manifest, manifests.KustomizationName} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		contents[name] = content
	}
	kustomization := map[string]any{}
	err := yaml.Unmarshal(contents[manifests.KustomizationName], &kustomization)
	if err != nil {
		return nil, err
	}
	kustomization["resources"] = []string{manifest}
	if contents[manifests.KustomizationName], err = yaml.Marshal(kustomization); err != nil {
		return nil, err
	}
	for name, content := range contents {
		if err := fs.WriteFile("/"+name, content); err != nil {
			return nil, err
		}
	}
	return fs, nil
}
