/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package image

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/proviso-authz/proviso/hack/release/archive"
	"github.com/proviso-authz/proviso/hack/release/binary"
)

var described = Description{Repository: "registry.example.com/x", Version: "v0.1.0", Commit: "abc", Created: time.Unix(1800000000, 0)}

// TestImage writes an image and reads it.
func TestImage(t *testing.T) {
	t.Parallel()
	executables := map[binary.Platform][]byte{{OS: "linux", Arch: "amd64"}: []byte("one"), {OS: "linux", Arch: "arm64"}: []byte("two")}
	file := filepath.Join(t.TempDir(), Name)
	digest, err := Write(file, described, []byte("license"), executables)
	if err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(file); err != nil || bytes.Contains(content, []byte("artifactType")) {
		t.Errorf("skopeo would write another index, without artifactType: %v", err)
	}
	got, read, err := Read(file, described)
	if err != nil || got != digest || !maps.EqualFunc(read, executables, func(a, b []byte) bool { return string(a) == string(b) }) {
		t.Errorf("got %s, %q, %v, want %s, %q", got, read, err, digest, executables)
	}
}

// TestDescription reads images that are not as described.
func TestDescription(t *testing.T) {
	t.Parallel()
	config := func(change func(c *v1.ConfigFile)) func(t *testing.T, images []v1.Image) []v1.Image {
		return func(t *testing.T, images []v1.Image) []v1.Image {
			t.Helper()
			file, err := images[1].ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			changed := file.DeepCopy()
			change(changed)
			if images[1], err = mutate.ConfigFile(images[1], changed); err != nil {
				t.Fatal(err)
			}
			return images
		}
	}
	for _, tc := range []struct {
		name, want string
		change     func(t *testing.T, images []v1.Image) []v1.Image
	}{
		{name: "as described", change: config(func(*v1.ConfigFile) {})},
		{name: "root", change: config(func(c *v1.ConfigFile) { c.Config.User = "" }), want: "linux/arm64: got the configuration"},
		{name: "a label more", change: config(func(c *v1.ConfigFile) { c.Config.Labels["x"] = "y" }), want: "linux/arm64: got the configuration"},
		{name: "another time", change: config(func(c *v1.ConfigFile) { c.Created = v1.Time{Time: time.Unix(0, 0)} }), want: "linux/arm64: got the configuration"},
		{name: "another command", change: config(func(c *v1.ConfigFile) { c.Config.Entrypoint = []string{"/x"} }), want: "linux/arm64: got the configuration"},
		{name: "a layer more", want: "linux/arm64: got the configuration", change: func(t *testing.T, images []v1.Image) []v1.Image {
			t.Helper()
			layers, err := images[1].Layers()
			if err != nil {
				t.Fatal(err)
			}
			if images[1], err = mutate.AppendLayers(images[1], layers...); err != nil {
				t.Fatal(err)
			}
			return images
		}},
		{name: "one platform", change: func(_ *testing.T, images []v1.Image) []v1.Image { return images[:1] }, want: "the image has 1 platforms"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var images []v1.Image
			for _, platform := range Platforms {
				image, err := described.image(platform, []byte("license"), []byte(platform.Arch))
				if err != nil {
					t.Fatal(err)
				}
				images = append(images, image)
			}
			index, err := described.index(tc.change(t, images))
			if err != nil {
				t.Fatal(err)
			}
			_, err = described.read(index)
			if (tc.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestChangedBlobs reads images of which a file has other bytes than its name says, or is there twice.
func TestChangedBlobs(t *testing.T) {
	t.Parallel()
	executables := map[binary.Platform][]byte{{OS: "linux", Arch: "amd64"}: []byte("one"), {OS: "linux", Arch: "arm64"}: []byte("two")}
	file := filepath.Join(t.TempDir(), Name)
	if _, err := Write(file, described, []byte("license"), executables); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	files, err := archive.Read(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	blobs := 0
	for i, f := range files {
		if !strings.HasPrefix(f.Name, "blobs/") {
			continue
		}
		blobs++
		for want, changed := range map[string][]archive.File{"has another hash": slices.Clone(files), "is there twice": append(slices.Clone(files), f)} {
			if want == "has another hash" {
				changed[i].Content = append([]byte(" "), f.Content...)
			}
			var written bytes.Buffer
			if err := errors.Join(archive.Write(&written, described.Created, changed), os.WriteFile(file, written.Bytes(), 0o600)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := Read(file, described); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %s", f.Name, err, want)
			}
		}
	}
	if blobs < 7 {
		t.Errorf("the image has %d blobs, too few to be all", blobs)
	}
}
