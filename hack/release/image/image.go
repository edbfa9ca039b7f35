/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package image writes and reads the image of the server: an OCI layout in a tar archive, with an image for each platform.
package image

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/proviso-authz/proviso/hack/release/archive"
	"github.com/proviso-authz/proviso/hack/release/binary"
)

const (
	// Name is the name of the file.
	Name = "proviso-apiserver-image.tar"
	// Executable is the name of the executable, at the root of the image.
	Executable = "proviso-apiserver"
	// user has a number, so that the kubelet knows that it is not root.
	user = "65532:65532"
)

// Platforms are the platforms of the image.
var Platforms = []binary.Platform{{OS: "linux", Arch: "amd64"}, {OS: "linux", Arch: "arm64"}}

// Description is what the labels of an image say.
type Description struct {
	// Repository is the name without a tag, such as ghcr.io/proviso-authz/proviso-apiserver.
	Repository, Version, Commit string
	Created                     time.Time
}

func (d *Description) labels() map[string]string {
	const source = "https://github.com/proviso-authz/proviso"
	labels := map[string]string{
		"title": Executable, "description": "Conditional authorization for Kubernetes", "vendor": "The Proviso Authors", "licenses": "Apache-2.0",
		"url": source, "source": source, "documentation": source + "/blob/main/docs/operations.md",
		"version": d.Version, "revision": d.Commit, "created": d.Created.UTC().Format(time.RFC3339),
	}
	prefixed := map[string]string{}
	for name, value := range labels {
		prefixed["org.opencontainers.image."+name] = value
	}
	return prefixed
}

// Write writes the image to a file and returns its digest. executables has the server for each platform.
func Write(file string, d Description, license []byte, executables map[binary.Platform][]byte) (digest string, err error) {
	var images []v1.Image
	for _, platform := range Platforms {
		image, err := d.image(platform, license, executables[platform])
		if err != nil {
			return "", err
		}
		images = append(images, image)
	}
	index, err := d.index(images)
	if err != nil {
		return "", err
	}
	hash, err := index.Digest()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "proviso-image")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	root, err := layout.Write(dir, empty.Index)
	if err != nil {
		return "", err
	}
	// skopeo finds images by the first annotation, and containerd names them by the second.
	annotations := map[string]string{"org.opencontainers.image.ref.name": d.Version, "io.containerd.image.name": d.Repository + ":" + d.Version}
	if err := root.AppendIndex(index, layout.WithAnnotations(annotations)); err != nil {
		return "", err
	}
	return hash.String(), pack(file, d.Created, dir)
}

// index is an index in the form in which skopeo writes indexes, so that a copy by skopeo has the same digest.
type index struct {
	images // a field with the name ImageIndex would hide the method
	raw    []byte
}

type images = v1.ImageIndex

func (i index) RawManifest() ([]byte, error) { return i.raw, nil }
func (i index) Digest() (v1.Hash, error)     { return partial.Digest(i) }
func (i index) Size() (int64, error)         { return partial.Size(i) }

// index returns the index of the images for Platforms.
func (d *Description) index(images []v1.Image) (v1.ImageIndex, error) {
	var base v1.ImageIndex = empty.Index
	for i, image := range images {
		platform := &v1.Platform{OS: Platforms[i].OS, Architecture: Platforms[i].Arch}
		base = mutate.AppendManifests(base, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	base = mutate.Annotations(base, d.labels()).(v1.ImageIndex)
	raw, err := base.RawManifest()
	if err != nil {
		return nil, err
	}
	written := ocispec.Index{}
	if err := json.Unmarshal(raw, &written); err != nil {
		return nil, err
	}
	for i := range written.Manifests {
		written.Manifests[i].ArtifactType = ""
	}
	raw, err = json.Marshal(written)
	return index{images: base, raw: raw}, err
}

// image returns the image for one platform.
func (d *Description) image(platform binary.Platform, license, executable []byte) (v1.Image, error) {
	var content bytes.Buffer
	if err := archive.Write(&content, d.Created, []archive.File{{Name: "LICENSE", Mode: 0o444, Content: license}, {Name: Executable, Mode: 0o555, Content: executable}}); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.DefaultCompression), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = platform.OS, platform.Arch, v1.Time{Time: d.Created.UTC()}
	config.History = []v1.History{{Created: config.Created, CreatedBy: "hack/release"}}
	config.Config = v1.Config{User: user, Entrypoint: []string{"/" + Executable}, ExposedPorts: map[string]struct{}{"8443/tcp": {}}, Labels: d.labels()}
	return mutate.ConfigFile(image, config)
}

// pack writes a directory to a tar archive.
func pack(file string, modified time.Time, dir string) error {
	var files []archive.File
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		files = append(files, archive.File{Name: filepath.ToSlash(name), Mode: 0o644, Content: content})
		return err
	})
	if err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(archive.Write(out, modified, files), out.Close())
}

// Read verifies an image, and that it is as described. It returns the digest, and the server for each platform.
func Read(file string, d Description) (digest string, executables map[binary.Platform][]byte, err error) {
	dir, err := os.MkdirTemp("", "proviso-image")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(dir)
	if err := unpack(file, dir); err != nil {
		return "", nil, err
	}
	root, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return "", nil, err
	}
	manifest, err := root.IndexManifest()
	if err != nil {
		return "", nil, err
	}
	if len(manifest.Manifests) != 1 {
		return "", nil, fmt.Errorf("the layout has %d images, want 1", len(manifest.Manifests))
	}
	index, err := root.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		return "", nil, err
	}
	if err := validate.Index(index); err != nil {
		return "", nil, err
	}
	executables, err = d.read(index)
	return manifest.Manifests[0].Digest.String(), executables, err
}

func unpack(file, dir string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	files, err := archive.Read(in)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for _, f := range files {
		// The library takes the names of blobs for their hashes.
		if hash, ok := strings.CutPrefix(f.Name, "blobs/sha256/"); ok && hash != fmt.Sprintf("%x", sha256.Sum256(f.Content)) {
			return fmt.Errorf("%s has another hash", f.Name)
		}
		if err := errors.Join(root.MkdirAll(filepath.Dir(f.Name), 0o755), root.WriteFile(f.Name, f.Content, 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// read returns the server of each platform.
func (d *Description) read(index v1.ImageIndex) (map[binary.Platform][]byte, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != len(Platforms) {
		return nil, fmt.Errorf("the image has %d platforms, want %v", len(manifest.Manifests), Platforms)
	}
	executables := map[binary.Platform][]byte{}
	for i, platform := range Platforms {
		if p := manifest.Manifests[i].Platform; p == nil || p.OS != platform.OS || p.Architecture != platform.Arch {
			return nil, fmt.Errorf("the image has the platform %v, want %s", p, platform)
		}
		image, err := index.Image(manifest.Manifests[i].Digest)
		if err != nil {
			return nil, err
		}
		content := mutate.Extract(image)
		files, err := archive.Read(content)
		if err := errors.Join(err, content.Close()); err != nil {
			return nil, err
		}
		contents := map[string][]byte{}
		for _, file := range files {
			contents[file.Name] = file.Content
		}
		executables[platform] = contents[Executable]
		made, err := d.image(platform, contents["LICENSE"], contents[Executable])
		if err != nil {
			return nil, err
		}
		got, err := image.RawConfigFile()
		if err != nil {
			return nil, err
		}
		want, err := made.RawConfigFile()
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(got, want) { // it has the hash of each layer before compression, which other versions of Go may do otherwise
			return nil, fmt.Errorf("%s: got the configuration %s, want %s", platform, got, want)
		}
	}
	return executables, nil
}
