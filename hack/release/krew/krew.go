/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package krew writes and verifies the archives of kubectl proviso, one for each platform, and their manifest for krew.
package krew

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
	"time"

	"github.com/proviso-authz/proviso/hack/release/archive"
	"github.com/proviso-authz/proviso/hack/release/binary"
)

const (
	// Name is the name of the manifest.
	Name = "proviso.yaml"
	// Executable is the name of the plugin.
	Executable = "kubectl-proviso"
	// completion is the script with which kubectl completes the arguments of the plugin, where there is a shell for it.
	completion = "kubectl_complete-proviso"
)

// manifestTemplate has the platforms. It has the form that krew-release-bot reads.
//
//go:embed proviso.yaml.tmpl
var manifestTemplate string

var archivePattern = regexp.MustCompile(`^kubectl-proviso_([a-z0-9]+)_([a-z0-9]+)\.tar\.gz$`)

// Archive is the archive for a platform.
type Archive struct {
	Name, SHA256 string
	Platform     binary.Platform
	Executable   []byte
}

// Write writes the archives and the manifest for a tag into a directory. The files of an archive have the time of the commit.
func Write(ctx context.Context, root, dir, tag string, created time.Time, build binary.Build) (archives []Archive, err error) {
	text, err := manifest(tag, func(name string) (string, error) {
		m := archivePattern.FindStringSubmatch(name)
		if m == nil {
			return "", fmt.Errorf("the manifest names %q, want kubectl-proviso_OS_ARCH.tar.gz", name)
		}
		a := Archive{Name: name, Platform: binary.Platform{OS: m[1], Arch: m[2]}}
		if a.Executable, err = build(ctx, Executable, a.Platform); err != nil {
			return "", err
		}
		content, err := a.content(root, created)
		if err != nil {
			return "", err
		}
		a.SHA256 = hash(content)
		archives = append(archives, a)
		return a.SHA256, os.WriteFile(filepath.Join(dir, name), content, 0o644)
	})
	if err != nil {
		return nil, err
	}
	return archives, os.WriteFile(filepath.Join(dir, Name), []byte(text), 0o644)
}

func hash(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }

// manifest renders the template as krew-release-bot does. hash returns the hash of the archive with a name.
func manifest(tag string, hash func(name string) (string, error)) (string, error) {
	values := map[string]string{"TagName": tag}
	render := func(text string, functions template.FuncMap) (string, error) {
		var rendered strings.Builder
		parsed, err := template.New("manifest").Funcs(functions).Parse(text)
		if err == nil {
			err = parsed.Execute(&rendered, values)
		}
		return rendered.String(), err
	}
	return render(manifestTemplate, template.FuncMap{"addURIAndSha": func(uri, _ string) (string, error) {
		rendered, err := render(uri, nil)
		if err != nil {
			return "", err
		}
		sum, err := hash(path.Base(rendered))
		return "uri: " + rendered + "\n    sha256: " + sum, err
	}})
}

// executable returns the name of the plugin in an archive.
func (a *Archive) executable() string {
	if a.Platform.OS == "windows" {
		return Executable + ".exe"
	}
	return Executable
}

// content returns the archive: the license, the executable, and the script that completes its arguments.
func (a *Archive) content(root string, created time.Time) ([]byte, error) {
	license, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	files := []archive.File{{Name: "LICENSE", Mode: 0o644, Content: license}, {Name: a.executable(), Mode: 0o755, Content: a.Executable}}
	if a.Platform.OS != "windows" {
		script, err := os.ReadFile(filepath.Join(root, "hack", "kubectl", completion))
		if err != nil {
			return nil, err
		}
		files = append(files, archive.File{Name: completion, Mode: 0o755, Content: script})
	}
	return archive.Compress(created, files)
}

// Read returns the archives in a directory, and an error if the manifest is not the one for them.
func Read(dir, tag string) (archives []Archive, err error) {
	want, err := manifest(tag, func(name string) (string, error) {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		m := archivePattern.FindStringSubmatch(name)
		a := Archive{Name: name, SHA256: hash(content), Platform: binary.Platform{OS: m[1], Arch: m[2]}}
		if a.Executable, err = a.unpack(content); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		archives = append(archives, a)
		return a.SHA256, nil
	})
	if err != nil {
		return nil, err
	}
	if text, err := os.ReadFile(filepath.Join(dir, Name)); err != nil {
		return nil, err
	} else if string(text) != want {
		return nil, fmt.Errorf("%s is not the manifest for the archives of %s", Name, tag)
	}
	return archives, nil
}

// unpack returns the executable.
func (a *Archive) unpack(content []byte) ([]byte, error) {
	files, err := archive.Uncompress(content)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if file.Name == a.executable() {
			return file.Content, nil
		}
	}
	return nil, fmt.Errorf("there is no %s", a.executable())
}
