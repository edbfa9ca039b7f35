/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package main

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/proviso-authz/proviso/hack/release/binary"
	"github.com/proviso-authz/proviso/hack/release/chart"
	"github.com/proviso-authz/proviso/hack/release/checksums"
	"github.com/proviso-authz/proviso/hack/release/image"
	"github.com/proviso-authz/proviso/hack/release/krew"
	"github.com/proviso-authz/proviso/hack/release/provenance"
)

// program is what both executables of the test repository are.
const program = `package main

var version, commit string

func main() { println(version + " (" + commit + ")") }
`

// repository returns a git repository with small executables, and with the artifacts of this one.
func repository(t *testing.T) *source {
	t.Helper()
	root, dir := filepath.Join("..", ".."), t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{"artifacts", "hack/kubectl"} {
		must(os.CopyFS(filepath.Join(dir, folder), os.DirFS(filepath.Join(root, folder))))
	}
	for name, content := range map[string]string{
		"LICENSE": "a license", "go.mod": "module example.com/small\n\ngo 1.26\n", "cmd/proviso-apiserver/main.go": program, "cmd/kubectl-proviso/main.go": program,
		".gitignore": "certs/\n", "CHANGELOG.md": "# Changelog\n\n## v0.1.1\n\n## v0.1.0 (2027-01-15)\n\n- It works.\n\n## v0.0.9\n\n- Old.\n",
	} {
		must(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must(os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	s := &source{root: dir, Build: provenance.Build{Tag: "v0.1.0", Repository: "registry.example.com/proviso-apiserver"}}
	git(t, s, "init", "--quiet")
	git(t, s, "add", ".")
	git(t, s, "commit", "--quiet", "--message=All")
	must(s.read(t.Context()))
	s.LinkerFlags = "-X main.version=" + s.Tag + " -X main.commit=" + s.Commit
	return s
}

func git(t *testing.T, s *source, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "tag.gpgSign=false", "-c", "commit.gpgSign=false"}, args...)...)
	cmd.Dir = s.root
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE=1800000000 +0000", "GIT_COMMITTER_DATE=1800000000 +0000")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// contents returns the files of a release.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files, err := checksums.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	read := map[string][]byte{}
	for _, file := range files {
		if read[file.Name], err = os.ReadFile(filepath.Join(dir, file.Name)); err != nil {
			t.Fatal(err)
		}
	}
	return read
}

// TestRelease writes a release twice, from two clones, with the same bytes. Any change of a file is noticed.
func TestRelease(t *testing.T) {
	t.Parallel()
	s, dir := repository(t), t.TempDir()
	if err := s.write(t.Context(), dir, binary.Go(s.root, s.LinkerFlags)); err != nil {
		t.Fatal(err)
	}
	if err := verify(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	want := contents(t, dir)
	names := []string{
		"NOTES.md", "SHA256SUMS", "install-base.yaml", "install-ha.yaml", "install-managed.yaml", "kubectl-proviso.spdx.json", "kubectl-proviso_darwin_amd64.tar.gz",
		"kubectl-proviso_darwin_arm64.tar.gz", "kubectl-proviso_linux_amd64.tar.gz", "kubectl-proviso_linux_arm64.tar.gz", "kubectl-proviso_windows_amd64.tar.gz",
		"kustomization.yaml", "provenance.intoto.json", "proviso-0.1.0.tgz", "proviso-apiserver-image.tar", "proviso-apiserver.spdx.json", "proviso.yaml",
	}
	if got := slices.Sorted(maps.Keys(want)); !slices.Equal(got, names) {
		t.Errorf("got the files %q, want %q", got, names)
	}
	if notes := string(want[notesName]); notes != "## v0.1.0 (2027-01-15)\n\n- It works.\n" {
		t.Errorf("got the notes %q", notes)
	}
	again, old := repository(t), filepath.Join(t.TempDir(), "release")
	for _, name := range []string{"old", "artifacts/base/certs/tls.key"} { // neither is part of a release
		for _, file := range []string{filepath.Join(old, name), filepath.Join(again.root, "artifacts", "base", "certs", "tls.key")} {
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("PRIVATE KEY"), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := again.write(t.Context(), old, binary.Go(again.root, again.LinkerFlags)); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, old); !maps.EqualFunc(got, want, bytes.Equal) {
		for name := range got {
			if !bytes.Equal(got[name], want[name]) {
				t.Errorf("%s differs the second time", name)
			}
		}
	}
	for name, content := range want {
		file := filepath.Join(dir, name)
		for _, at := range []int{0, len(content) / 2, len(content) - 1} {
			changed := slices.Clone(content)
			changed[at] ^= 0x20
			replace(t, file, changed)
			if err := verify(t.Context(), dir); err == nil {
				t.Errorf("%s: the change of byte %d is not noticed", name, at)
			}
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := verify(t.Context(), dir); err == nil {
			t.Errorf("%s is not missed", name)
		}
		replace(t, file, content)
	}
	replace(t, filepath.Join(dir, "added"), nil)
	if err := verify(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "found:  ") || !strings.Contains(err.Error(), "added") {
		t.Errorf("a file more: got %v", err)
	}
}

func replace(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// pinned returns the image of a release.
func pinned(release map[string][]byte, b *provenance.Build) string {
	_, digest, _ := strings.Cut(string(release["install-base.yaml"]), b.Repository+"@")
	return b.Repository + "@" + digest[:len("sha256:")+64]
}

func writeChart(t *testing.T, root, dir, tag, image string) {
	t.Helper()
	if err := chart.Write(root, dir, tag, image, time.Unix(1800000000, 0)); err != nil {
		t.Fatal(err)
	}
}

// TestVerify changes files of a release together with their hashes, so that the files differ from each other.
func TestVerify(t *testing.T) {
	t.Parallel()
	s, dir := repository(t), t.TempDir()
	if err := s.write(t.Context(), dir, binary.Go(s.root, s.LinkerFlags)); err != nil {
		t.Fatal(err)
	}
	good := contents(t, dir)
	edit := func(name, from, to string) func(t *testing.T, b *provenance.Build) {
		return func(t *testing.T, _ *provenance.Build) {
			t.Helper()
			changed := bytes.ReplaceAll(good[name], []byte(from), []byte(to))
			if bytes.Equal(changed, good[name]) {
				t.Fatalf("%s does not have %q", name, from)
			}
			replace(t, filepath.Join(dir, name), changed)
		}
	}
	rebuild := func(flags string) func(t *testing.T, _ *provenance.Build) {
		return func(t *testing.T, _ *provenance.Build) {
			t.Helper()
			if _, err := krew.Write(t.Context(), s.root, dir, s.Tag, s.Created, binary.Go(s.root, flags)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tc := range []struct {
		name, want string
		change     func(t *testing.T, b *provenance.Build)
	}{
		{name: "nothing", change: func(*testing.T, *provenance.Build) {}},
		{name: "another digest in a manifest", change: edit("install-ha.yaml", "@sha256:", "@sha256:0"), want: "install-ha.yaml has the images"},
		{name: "a manifest with a tag", change: edit("install-base.yaml", "@sha256", ":v1@sha256"), want: "install-base.yaml has the images"},
		{name: "a chart of another version", want: "proviso-0.1.0.tgz has the version 0.0.9", change: func(t *testing.T, b *provenance.Build) {
			other := t.TempDir()
			writeChart(t, s.root, other, "v0.0.9", pinned(good, b))
			if err := os.Rename(filepath.Join(other, "proviso-0.0.9.tgz"), filepath.Join(dir, "proviso-0.1.0.tgz")); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "a chart with another image", want: "differs between kustomize (-) and the chart (+)", change: func(t *testing.T, b *provenance.Build) {
			writeChart(t, s.root, dir, b.Tag, b.Repository+"@sha256:"+strings.Repeat("0", 64))
		}},
		{name: "a chart with a private key", want: "proviso/manifests/base/audit-policy.yaml has a private key", change: func(t *testing.T, b *provenance.Build) {
			root := t.TempDir()
			if err := os.CopyFS(root, os.DirFS(s.root)); err != nil {
				t.Fatal(err)
			}
			replace(t, filepath.Join(root, "artifacts", "base", "audit-policy.yaml"), []byte("# -----BEGIN EC PRIVATE KEY-----\n"))
			writeChart(t, root, dir, b.Tag, pinned(good, b))
		}},
		{name: "a Secret in a manifest", change: edit("install-managed.yaml", "kind: Service\n", "kind: Secret\n"), want: "must not have a Secret"},
		{name: "no module of the server", change: edit("proviso-apiserver.spdx.json", "pkg:golang/example.com/small", "pkg:golang/x"), want: "does not name pkg:golang/example.com/small@v0.1.0"},
		{name: "no library of the plugin", change: edit("kubectl-proviso.spdx.json", "golang/stdlib", "golang/x"), want: "does not name pkg:golang/stdlib"},
		{name: "another hash in the manifest of krew", change: edit("proviso.yaml", "sha256: ", "sha256: 0"), want: "proviso.yaml is not the manifest"},
		{name: "the notes of another tag", change: edit("NOTES.md", "v0.1.0", "v0.0.9"), want: "no section ## v0.1.0"},
		{name: "a plugin without the commit", change: rebuild("-X main.version=v0.1.0"), want: "was not built with the version " + s.Commit},
		{name: "a plugin of another version", change: rebuild("-X main.version=v0.1.00 -X main.commit=" + s.Commit), want: "which must be v0.1.0"},
		{name: "the provenance of another commit", change: func(_ *testing.T, b *provenance.Build) { b.Commit = strings.Repeat("0", 40) }, want: "org.opencontainers.image.revision"},
		{name: "the provenance of another image", change: func(_ *testing.T, b *provenance.Build) { b.Repository = "registry.example.com/x" }, want: "has the images"},
		{name: "an image of one platform twice", want: "the executable is for linux/amd64, want linux/arm64", change: func(t *testing.T, b *provenance.Build) {
			executable, err := binary.Go(s.root, s.LinkerFlags)(t.Context(), image.Executable, image.Platforms[0])
			if err != nil {
				t.Fatal(err)
			}
			executables := map[binary.Platform][]byte{image.Platforms[0]: executable, image.Platforms[1]: executable}
			if _, err := image.Write(filepath.Join(dir, image.Name), description(*b), nil, executables); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for name, content := range good {
				replace(t, filepath.Join(dir, name), content)
			}
			b := s.Build
			tc.change(t, &b)
			if err := errors.Join(provenance.Write(dir, b), checksums.Write(dir)); err != nil {
				t.Fatal(err)
			}
			switch err := verify(t.Context(), dir); {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	if err := checksums.Write(dir); err != nil {
		t.Fatal(err)
	}
	replace(t, filepath.Join(dir, "chart.tgz"), []byte("a file after the provenance"))
	if err := errors.Join(checksums.Write(dir), verify(t.Context(), dir)); err == nil || !strings.Contains(err.Error(), "the subjects are not the files") {
		t.Errorf("a file without provenance: got %v", err)
	}
}

// TestRefusals tries what is no release. Each refusal leaves the files of the last release.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, want string
		change     func(t *testing.T, s *source)
	}{
		{name: "no tag", change: func(_ *testing.T, s *source) { s.Tag = "" }, want: errTag.Error()},
		{name: "no v", change: func(_ *testing.T, s *source) { s.Tag = "0.1.0" }, want: errTag.Error()},
		{name: "two numbers", change: func(_ *testing.T, s *source) { s.Tag = "v0.1" }, want: errTag.Error()},
		{name: "a line more", change: func(_ *testing.T, s *source) { s.Tag = "v0.1.0\n" }, want: errTag.Error()},
		{name: "a plus, which images cannot have", change: func(_ *testing.T, s *source) { s.Tag = "v0.1.0+1" }, want: errTag.Error()},
		{name: "no section", change: func(_ *testing.T, s *source) { s.Tag = "v0.1.0-rc.1" }, want: "CHANGELOG.md has no section ## v0.1.0-rc.1"},
		{name: "an empty section", change: func(_ *testing.T, s *source) { s.Tag = "v0.1.1" }, want: "the section ## v0.1.1 of CHANGELOG.md is empty"},
		{name: "an image with a tag", change: func(_ *testing.T, s *source) { s.Repository += ":v1" }, want: "repository"},
		{name: "a change", change: func(t *testing.T, s *source) { replace(t, filepath.Join(s.root, "LICENSE"), []byte("x")) }, want: "these files have changes:\nM LICENSE"},
		{name: "a new file", change: func(t *testing.T, s *source) { replace(t, filepath.Join(s.root, "cmd", "x.go"), []byte("x")) }, want: "?? cmd/x.go"},
		{name: "the tag of another commit", want: "the tag v0.1.0 is another commit", change: func(t *testing.T, s *source) {
			git(t, s, "tag", "--annotate", "--message=x", s.Tag)
			git(t, s, "commit", "--quiet", "--allow-empty", "--message=More")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, dir := repository(t), t.TempDir()
			replace(t, filepath.Join(dir, "last"), nil)
			tc.change(t, s)
			built := func(context.Context, string, binary.Platform) ([]byte, error) { return nil, errors.New("it is built") }
			if err := s.write(t.Context(), dir, built); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "last")); err != nil {
				t.Error(err)
			}
		})
	}
	s := repository(t)
	git(t, s, "tag", "--annotate", "--message=x", s.Tag)
	if _, err := s.check(t.Context()); err != nil {
		t.Errorf("the tag of the commit: got %v", err)
	}
	for _, args := range [][]string{nil, {"write"}, {"clean", "-dir=x"}, {"verify", "-dir=x", "y"}, {"verify", "-dir=" + t.TempDir()}} {
		if err := run(t.Context(), args); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}
