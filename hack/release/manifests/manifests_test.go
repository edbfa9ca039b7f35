/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package manifests_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/proviso-authz/proviso/hack/release/manifests"
)

const image = "registry.example.com/proviso-apiserver@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// TestManifests installs a release with a certificate as docs/operations.md shows. The objects are the same as with the overlay of the
// repository and this certificate.
func TestManifests(t *testing.T) {
	t.Parallel()
	root, dir := t.TempDir(), t.TempDir()
	repository := filepath.Join("..", "..", "..")
	for _, folder := range []string{"base", "barriers", "overlays"} {
		if err := os.CopyFS(filepath.Join(root, "artifacts", folder), os.DirFS(filepath.Join(repository, "artifacts", folder))); err != nil {
			t.Fatal(err)
		}
	}
	if err := manifests.Write(root, dir, image); err != nil {
		t.Fatal(err)
	}
	if err := manifests.Verify(dir, image); err != nil {
		t.Error(err)
	}
	makeCertificate(t, filepath.Join(repository, "docs", "operations.md"), dir)
	certs := filepath.Join(root, "artifacts", "base", "certs")
	if err := os.RemoveAll(certs); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		write(t, filepath.Join(certs, name), read(t, filepath.Join(dir, name)))
	}
	kustomization := read(t, filepath.Join(dir, "kustomization.yaml"))
	for name, folder := range map[string]string{"install-base.yaml": "base", "install-ha.yaml": "overlays/ha", "install-managed.yaml": "overlays/managed"} {
		if content := read(t, filepath.Join(dir, name)); strings.Contains(content, "kind: Secret") || strings.Contains(content, "tls.key:") {
			t.Errorf("%s has a Secret", name)
		}
		write(t, filepath.Join(dir, "kustomization.yaml"), strings.ReplaceAll(kustomization, "install-base.yaml", name))
		write(t, filepath.Join(root, "pinned", "kustomization.yaml"), "resources: [../artifacts/"+folder+"]\nimages: [{name: proviso-apiserver, newName: registry.example.com/proviso-apiserver, digest: "+strings.Split(image, "@")[1]+"}]\n")
		got, want := objects(t, dir), objects(t, filepath.Join(root, "pinned"))
		if !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "---\n"), strings.Join(want, "---\n"))
		}
	}
}

// makeCertificate runs the commands with which a document makes a certificate.
func makeCertificate(t *testing.T, document, dir string) {
	t.Helper()
	_, section, _ := strings.Cut(read(t, document), "## Install a release\n")
	_, block, found := strings.Cut(section, "$ openssl ")
	if !found {
		t.Fatalf("%s does not make a certificate", document)
	}
	script, _, _ := strings.Cut(block, "```")
	cmd := exec.CommandContext(t.Context(), "bash", "-o", "errexit", "-c", "openssl "+strings.ReplaceAll(script, "$ ", ""))
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// objects returns the objects of a kustomization in order.
func objects(t *testing.T, dir string) (texts []string) {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	for text := range bytes.SplitSeq(manifest, []byte("\n---\n")) {
		texts = append(texts, strings.TrimSpace(string(text))+"\n")
	}
	slices.Sort(texts)
	return texts
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
