/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package krew

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/hack/release/binary"
)

// plugin has the fields of krew.googlecontainertools.github.com/v1alpha2. krew refuses others.
type plugin struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string     `json:"version"`
		Homepage         string     `json:"homepage"`
		ShortDescription string     `json:"shortDescription"`
		Description      string     `json:"description"`
		Caveats          string     `json:"caveats"`
		Platforms        []platform `json:"platforms"`
	} `json:"spec"`
}

type platform struct {
	URI      string `json:"uri"`
	SHA256   string `json:"sha256"`
	Bin      string `json:"bin"`
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	Files []struct {
		From string `json:"from"`
		To   string `json:"to"`
	} `json:"files"`
}

const tag = "v0.1.0"

var created = time.Unix(1800000000, 0)

// root is the root of the repository.
var root = filepath.Join("..", "..", "..")

// mistakes returns what krew refuses in a manifest.
func mistakes(manifest []byte) (found []string) {
	p := plugin{}
	if err := yaml.UnmarshalStrict(manifest, &p); err != nil {
		return []string{err.Error()}
	}
	fail := func(failed bool, message string) {
		if failed {
			found = append(found, message)
		}
	}
	fail(p.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || p.Kind != "Plugin", "apiVersion and kind")
	fail(p.Metadata.Name != "proviso", "name")
	fail(!regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`).MatchString(p.Spec.Version), "version")
	fail(p.Spec.ShortDescription == "" || len(p.Spec.ShortDescription) > 50 || strings.ContainsAny(p.Spec.ShortDescription, "\n."), "shortDescription")
	fail(p.Spec.Description == "" || p.Spec.Homepage == "", "description and homepage")
	fail(len(p.Spec.Platforms) == 0, "platforms")
	seen := map[string]bool{}
	for _, platform := range p.Spec.Platforms {
		os, arch := platform.Selector.MatchLabels["os"], platform.Selector.MatchLabels["arch"]
		fail(os == "" || arch == "" || len(platform.Selector.MatchLabels) != 2 || seen[os+"/"+arch], "selector")
		seen[os+"/"+arch] = true
		fail(platform.URI != fmt.Sprintf("%s/releases/download/%s/kubectl-proviso_%s_%s.tar.gz", p.Spec.Homepage, tag, os, arch), "uri: "+platform.URI)
		fail(!regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(platform.SHA256), "sha256")
		fail(platform.Bin != (&Archive{Platform: binary.Platform{OS: os}}).executable(), "bin")
		fail(platform.Files != nil && len(platform.Files) == 0, "files")
	}
	return found
}

// TestManifest writes a release with executables that are texts. krew accepts its manifest, the hashes are right, and Go compiles for its platforms.
func TestManifest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	archives, err := Write(t.Context(), root, dir, tag, created, func(_ context.Context, name string, platform binary.Platform) ([]byte, error) {
		return []byte(name + platform.String()), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join(dir, Name))
	if err != nil {
		t.Fatal(err)
	}
	if found := mistakes(manifest); len(found) > 0 {
		t.Errorf("got %q in\n%s", found, manifest)
	}
	platforms, err := exec.CommandContext(t.Context(), "go", "tool", "dist", "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	p := plugin{}
	if err := yaml.Unmarshal(manifest, &p); err != nil {
		t.Fatal(err)
	}
	for _, platform := range p.Spec.Platforms {
		if name := platform.Selector.MatchLabels["os"] + "/" + platform.Selector.MatchLabels["arch"]; !strings.Contains("\n"+string(platforms), "\n"+name+"\n") {
			t.Errorf("Go has no platform %s", name)
		}
		content, err := os.ReadFile(filepath.Join(dir, path.Base(platform.URI)))
		if err != nil || fmt.Sprintf("%x", sha256.Sum256(content)) != platform.SHA256 {
			t.Errorf("%s: the manifest has the hash %s: %v", platform.URI, platform.SHA256, err)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != len(p.Spec.Platforms)+1 {
		t.Errorf("got %v, %v", files, err)
	}
	if read, err := Read(dir, tag); err != nil || !reflect.DeepEqual(read, archives) {
		t.Errorf("got the archives %v, %v, want %v", read, err, archives)
	}
	if _, err := Read(dir, "v0.1.1"); err == nil {
		t.Error("the manifest of another tag is accepted")
	}
	for name, change := range map[string][2]string{
		"an unknown field":  {"homepage:", "website:"},
		"a version":         {tag, "0.1"},
		"a platform twice":  {"arch: arm64", "arch: amd64"},
		"no executable":     {"bin: kubectl-proviso", ""},
		"no hash":           {"sha256: ", "sha256: x"},
		"no description":    {"Explain and test authorization on conditions", ""},
		"another kind":      {"kind: Plugin", "kind: Plug"},
		"a long short text": {"Explain and test", strings.Repeat("Explain and test ", 5)},
	} {
		if found := mistakes(bytes.ReplaceAll(manifest, []byte(change[0]), []byte(change[1]))); len(found) == 0 {
			t.Errorf("%s is not found", name)
		}
	}
}

// TestArchive installs the plugin from the archive for this machine, as krew does: kubectl finds it on the path.
func TestArchive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "archive.tar.gz")
	a := Archive{Platform: binary.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}}
	var err error
	if a.Executable, err = binary.Go(root, "-s -w -X github.com/proviso-authz/proviso/pkg/version.gitVersion="+tag)(t.Context(), Executable, a.Platform); err != nil {
		t.Fatal(err)
	}
	content, err := a.content(root, created)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(command string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), command, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", cmd, err, out)
		}
		return string(out)
	}
	listed := strings.Split(strings.TrimSpace(run("tar", "tzvf", file)), "\n")
	for i, want := range []string{`^-rw-r--r-- .* LICENSE$`, `^-rwxr-xr-x .* kubectl-proviso$`, `^-rwxr-xr-x .* kubectl_complete-proviso$`} {
		if len(listed) != 3 || !regexp.MustCompile(want).MatchString(listed[i]) {
			t.Errorf("got %q", listed)
		}
	}
	run("tar", "xzf", file)
	license, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if unpacked, readErr := os.ReadFile(filepath.Join(dir, "LICENSE")); err != nil || readErr != nil || !bytes.Equal(license, unpacked) {
		t.Errorf("the license differs: %v, %v", err, readErr)
	}
	kubectl, err := filepath.Abs(filepath.Join(root, "_output", "bin", "kubectl"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(kubectl); err != nil {
		t.Fatalf("%v: make test-release builds it", err)
	}
	if out := run(kubectl, "proviso", "version"); !strings.Contains(out, tag+" (") {
		t.Errorf("got the version %q", out)
	}
	if out := run(kubectl, "__complete", "proviso", "can"); !slices.Contains(strings.Fields(out), "can-i") {
		t.Errorf("got the completion %q", out)
	}
}
